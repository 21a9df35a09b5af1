"""A small certificate authority, which makes what secure sums read of a provisioned kit."""

import datetime
import functools
import json

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

SERVER = "server.example.org"
_DAY = datetime.timedelta(days=1)


@functools.cache
def _key(name, authority):
    return rsa.generate_private_key(65537, 2048)


def key_of(name, authority="project"):
    return _key(name, authority)


@functools.cache
def certificate(name, authority="project", role=None, age=0, also=()):
    """A certificate of ten days, made `age` days ago; its holder may have more names than one."""
    names = [x509.NameAttribute(NameOID.COMMON_NAME, each) for each in (name, *also)]
    names += [x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, role)] if role else []
    made = datetime.datetime.now(datetime.UTC) - age * _DAY - _DAY
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name(names))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "project")]))
        .public_key(key_of(name, authority).public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(made)
        .not_valid_after(made + 10 * _DAY)
        .sign(key_of("project", authority), hashes.SHA256())
    )


def pem(name, authority="project", **options):
    return certificate(name, authority, **options).public_bytes(Encoding.PEM)


def certify(kit, name=None):
    """Put a site's certificate, its key and the project's root into its kit."""
    name = name or kit.name
    folder = kit / "startup"
    folder.mkdir(parents=True)
    key = key_of(name).private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (folder / "client.key").write_bytes(key)
    (folder / "client.crt").write_bytes(pem(name))
    (folder / "rootCA.pem").write_bytes(pem("project"))
    (folder / "fed_client.json").write_text(json.dumps({"servers": [{"identity": SERVER}]}))
    return kit
