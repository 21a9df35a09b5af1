"""Experiments: settings files, runs and what they leave on disk."""
