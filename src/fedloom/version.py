"""The version of fedloom. It is written only here."""

__version__ = "0.1.0"
