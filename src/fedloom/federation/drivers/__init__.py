"""What FLARE's processes search for drivers: it imports every file here by its bare name."""
