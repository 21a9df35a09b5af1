"""Tools for those who work on fedloom; no part of the package."""
