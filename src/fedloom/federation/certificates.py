"""Certificates of a project: valid from a day ago, for slow clocks, and renewed with the same keys.

A renewed certificate has the name, the key and the authority of the one before, so participants
with old and new ones get on, and nothing that a site has said or signed loses its meaning.
"""

import datetime
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from nvflare.lighter.constants import ParticipantType, PropKey
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.utils import serialize_cert

BACKDATED = datetime.timedelta(days=1)  # so much may a participant's clock be slow
DAYS = 360  # that a participant's certificate is valid
AUTHORITY_DAYS = 3600


class Certificates(CertBuilder):
    """FLARE's builder of certificates, with these two differences."""

    root_cert: Any

    def __init__(self, renew: bool = False):
        super().__init__(root_valid_days=AUTHORITY_DAYS)
        self.renew = renew

    def initialize(self, project: Any, ctx: Any) -> None:
        """Read what the authority has signed before; renew its own certificate in good time."""
        super().initialize(project, ctx)
        state = self.persistent_state
        if not self.renew or not state.is_available:
            return
        left = self.root_cert.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
        if left < datetime.timedelta(days=2 * DAYS):
            self.root_cert = self._generate_cert(
                *(self.issuer, None, self.issuer, self.pri_key, self.pub_key),
                valid_days=AUTHORITY_DAYS,
                ca=True,
            )
            self.serialized_cert = serialize_cert(self.root_cert)
            state.set_root_cert(self.serialized_cert.decode("ascii"))

    def _validate_existing_root_validity(self) -> None:
        """Accept an authority whatever its time of validity."""

    def _build_write_cert_pair(self, participant: Any, base_name: str, ctx: Any) -> None:
        state, subject = self.persistent_state, participant.subject
        if self.renew and state.has_subject(subject):
            key = load_pem_private_key(state.get_subject_pri_key(subject).encode("ascii"), None)
            person = participant.type == ParticipantType.ADMIN
            renewed = self._generate_cert(
                *(subject, participant.org, self.issuer, self.pri_key, key.public_key()),
                role=participant.get_prop(PropKey.ROLE) if person else None,
                server=participant if participant.type == ParticipantType.SERVER else None,
            )
            state.add_subject_cert(subject, serialize_cert(renewed).decode("ascii"))
        super()._build_write_cert_pair(participant, base_name, ctx)

    @staticmethod
    def _generate_cert(
        *arguments: Any, not_valid_before: Any = None, valid_days: int | None = None, **options: Any
    ) -> Any:
        begins = (not_valid_before or datetime.datetime.now(datetime.UTC)) - BACKDATED
        return CertBuilder._generate_cert(
            *arguments,
            not_valid_before=begins,
            valid_days=(valid_days or DAYS) + BACKDATED.days,
            **options,
        )
