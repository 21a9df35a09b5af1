"""When the certificates of a kit expire, and the warning before."""

import datetime
from pathlib import Path

from cryptography import x509

from fedloom.errors import FederationError
from fedloom.federation.kits import Kit

WARNING_DAYS = 30
_RENEWAL = (
    "Whoever has the authority calls `fedloom provision PROJECT.toml --renew`; then copy "
    "startup/*.crt and startup/rootCA.pem of the renewed kit into this one and start anew."
)


def valid_until(kit: Kit) -> datetime.datetime:
    """When the first of a kit's certificates expires: its own, or the authority's."""
    files = [*sorted((kit.path / "startup").glob("*.crt")), kit.path / "startup" / "rootCA.pem"]
    return min(_read(file).not_valid_after_utc for file in files)


def warning(kit: Kit, now: datetime.datetime | None = None) -> str | None:
    """What to tell the owner of a kit; None where there is time. Raises where it is too late."""
    until, now = valid_until(kit), now or datetime.datetime.now(datetime.UTC)
    left = until - now
    if left < datetime.timedelta(0):
        raise FederationError(
            f"the certificate of {kit.name} expired on {until:%Y-%m-%d %H:%M} UTC, by this "
            f"machine's clock. {_RENEWAL}"
        )
    if left >= datetime.timedelta(days=WARNING_DAYS):
        return None
    return f"the certificate of {kit.name} expires in {left.days} days, on {until:%F}. {_RENEWAL}"


def _read(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except (OSError, ValueError) as error:
        raise FederationError(
            f"{file}: cannot be read as a certificate: {error}. Bring the kit back as it was "
            f"provisioned."
        ) from error
