"""Metrics, reference solutions, results and checkpoints of runs."""
