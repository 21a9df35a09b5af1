"""PyTorch modules as data: a program over an allow-list of operations, and its arrays."""
