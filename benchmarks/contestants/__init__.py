"""One module a contestant, each run in a process of its own by `benchmarks.run`."""
