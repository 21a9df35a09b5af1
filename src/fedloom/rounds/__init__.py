"""One round as a compiled program, and the checks of what a run is given."""
