"""The networks of the workloads with images, in PyTorch and in Haiku.

W2         conv 3x3x16, pool, conv 3x3x32, pool, dense 128, dense 10, with padding
CIFAR-10   that of pfl's benchmark without its dropout: conv 3x3x32, conv 3x3x64, pool, dense 128,
           dense 10, no padding
ResNet-20  3x3 convolutions in 3 stages of 3 blocks of 16, 32 and 64 channels, group norms of 8
           channels, shortcuts that skip pixels and pad channels
"""

from typing import Any

_STAGES = [(width, 2 if width > 16 and block == 0 else 1) for width in (16, 32, 64)
           for block in range(3)]  # fmt: skip


def in_torch(name: str) -> Any:
    """As a module for images (rows, channels, height, width)."""
    from torch import nn

    if name.startswith("W2"):
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(7 * 7 * 32, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip
    if name == "CIFAR-10":
        return nn.Sequential(
            nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(14 * 14 * 64, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip
    blocks, before = [], 16
    for width, stride in _STAGES:
        blocks.append(_torch_block(before, width, stride))
        before = width
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(2, 16), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def _torch_block(before: int, width: int, stride: int) -> Any:
    from torch import nn
    from torch.nn.functional import pad, relu

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(
                nn.Conv2d(before, width, 3, stride, padding=1, bias=False),
                nn.GroupNorm(width // 8, width), nn.ReLU(),
                nn.Conv2d(width, width, 3, padding=1, bias=False),
                nn.GroupNorm(width // 8, width),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            edge = (width - before) // 2
            short = pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, edge, edge))
            return relu(self.inner(x) + short)

    return Block()


def in_haiku(name: str) -> Any:
    """As a function of images (rows, height, width, channels), to be transformed."""
    import haiku as hk
    import jax

    halve = lambda x: hk.MaxPool((1, 2, 2, 1), (1, 2, 2, 1), "VALID")(x)  # noqa: E731
    relu = jax.nn.relu

    def small(x: Any) -> Any:
        if name.startswith("W2"):
            layers = [hk.Conv2D(16, 3), relu, halve, hk.Conv2D(32, 3), relu, halve]
        else:
            layers = [hk.Conv2D(32, 3, padding="VALID"), relu, hk.Conv2D(64, 3, padding="VALID")]
            layers += [relu, halve]
        layers += [hk.Flatten(), hk.Linear(128), relu, hk.Linear(10)]
        return hk.Sequential(layers)(x)

    def normed(x: Any, width: int, stride: int) -> Any:
        return hk.GroupNorm(width // 8)(hk.Conv2D(width, 3, stride, with_bias=False)(x))

    def deep(x: Any) -> Any:
        x = relu(normed(x, 16, 1))
        for width, stride in _STAGES:
            y = normed(relu(normed(x, width, stride)), width, 1)
            edge = (width - x.shape[-1]) // 2
            short = jax.numpy.pad(x[:, ::stride, ::stride], ((0, 0),) * 3 + ((edge, edge),))
            x = relu(y + short)
        return hk.Linear(10)(x.mean((1, 2)))

    return deep if name == "ResNet-20" else small
