"""What runs at the server of a federation."""
