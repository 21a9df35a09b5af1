"""What runs at a site: it answers the server within its owner's policy."""
