"""What metrics are: those of all scores and labels that are ready by name, and a list of all."""
