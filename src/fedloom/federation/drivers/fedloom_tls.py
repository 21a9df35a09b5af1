"""The driver of `fedloom.federation.tls`, where all processes of a kit look for it."""

from fedloom.federation.gate import guard
from fedloom.federation.tls import TlsDriver as TlsDriver

guard()
