"""The driver of `fedloom.engines.flare.tls`, where FLARE looks for it."""

from fedloom.engines.flare.tls import TlsDriver as TlsDriver
