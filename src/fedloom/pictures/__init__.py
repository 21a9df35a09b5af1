"""Curves, tables and labels: how numbers of a run look to a person."""
