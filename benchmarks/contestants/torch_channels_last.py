"""The PyTorch loop with images and network in channels-last layout, its quickest on a CPU."""

import functools

from benchmarks.contestants import torch_loop
from benchmarks.timing import contest

if __name__ == "__main__":
    contest(functools.partial(torch_loop.prepare, channels_last=True))
