"""The engine for one machine: all clients in one compiled program."""
