"""Proximal maps, projections and other operators: pure functions on arrays."""
