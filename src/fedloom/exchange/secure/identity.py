"""Who a site is: the certificate of its kit, with which it signs and by which others know it.

The certificates are those that `fedloom provision` made for TLS. Sites trust the project's root and
nothing that the server says. The certificates of the server and of people come from the same root;
they are refused here, or the server could take a place in the sum itself.
"""

import datetime
import json
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from fedloom.errors import RefusedError

STARTUP = "startup"  # the folder of a kit that holds what follows
CERTIFICATE, KEY, ROOT, NETWORK = "client.crt", "client.key", "rootCA.pem", "fed_client.json"
_HASH = hashes.SHA256()
_PADDING = padding.PSS(padding.MGF1(_HASH), padding.PSS.DIGEST_LENGTH)


class Identity:
    """A site's own certificate and key, and the root by which it knows the others."""

    def __init__(self, kit: Path):
        folder = kit / STARTUP
        try:
            self.certificate = (folder / CERTIFICATE).read_text("ascii")
            key = load_pem_private_key((folder / KEY).read_bytes(), None)
            self._root = x509.load_pem_x509_certificate((folder / ROOT).read_bytes())
            network = json.loads((folder / NETWORK).read_text("utf-8"))
            self._servers = {server["identity"] for server in network["servers"]}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RefusedError(
                f"secure aggregation needs the certificates of a provisioned kit, and this site's "
                f"cannot be read ({type(error).__name__}). Join with a kit of `fedloom provision`."
            ) from error
        if not isinstance(key, RSAPrivateKey):
            raise RefusedError("secure aggregation needs a kit with an RSA key. Provision it anew.")
        self._key = key
        self.name, _ = self._holder(self.certificate)

    def sign(self, text: bytes) -> bytes:
        """This site's signature."""
        return self._key.sign(text, _PADDING, _HASH)

    def check(self, name: str, certificate: str, signature: bytes, text: bytes) -> None:
        """Refuse what the site of this name has not signed."""
        holder, key = self._holder(certificate)
        if holder != name:
            raise RefusedError(f"the certificate that came as {name}'s is {holder}'s.")
        try:
            key.verify(signature, text, _PADDING, _HASH)
        except InvalidSignature:
            raise RefusedError(
                f"{name} has not signed what came in its name, or was told other settings, sites "
                f"or counts than this site. The server, or somebody on the way, changes messages."
            ) from None

    def _holder(self, certificate: str) -> tuple[str, RSAPublicKey]:
        """Whose certificate this is, and its key; it must be a site's, by the project's root."""
        try:
            read = x509.load_pem_x509_certificate(certificate.encode())
            read.verify_directly_issued_by(self._root)
        except (ValueError, TypeError, InvalidSignature):
            raise RefusedError("a certificate is not by the authority of this project.") from None
        names = [str(a.value) for a in read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        key, now = read.public_key(), datetime.datetime.now(datetime.UTC)
        if len(names) != 1 or not isinstance(key, RSAPublicKey):
            raise RefusedError("a certificate does not name one holder with an RSA key.")
        if not read.not_valid_before_utc <= now <= read.not_valid_after_utc:
            raise RefusedError(f"the certificate of {names[0]} is not valid now. Provision anew.")
        # FLARE writes the role of a person, and of nobody else, into this field.
        person = read.subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)
        if person or names[0] in self._servers:
            raise RefusedError(f"{names[0]} is not a site, and has no part in a secure sum.")
        return names[0], key
