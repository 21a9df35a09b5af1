"""What a run is judged by, and what it leaves: metrics, reference solutions, results."""
