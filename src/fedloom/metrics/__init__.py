"""Metrics: the ready ones of all scores and labels, and the catalogue of all."""
