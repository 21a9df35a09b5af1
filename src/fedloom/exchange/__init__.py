"""What hub and sites send each other: messages, bytes, and sums that hide their parts."""
