"""Engines run algorithms: the compiled simulator, and transports between real clients."""
