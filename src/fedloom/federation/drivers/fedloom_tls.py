"""The driver of `fedloom.federation.tls`, where FLARE looks for it."""

from fedloom.federation.tls import TlsDriver as TlsDriver
