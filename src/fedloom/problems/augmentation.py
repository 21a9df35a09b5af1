"""Augmented batches: images mirrored and shifted at random, while a network is trained."""

from typing import Any

import jax
import jax.numpy as jnp

from fedloom import draws
from fedloom.errors import DataError
from fedloom.parameters import Rule, at_least, flag, param, parametrised
from fedloom.rows import Batch, Rows
from fedloom.types import Array

_FROM_THE_BATCHS_KEY = 0x41554721  # apart from all that methods and wrappers draw with it


@parametrised
class Augmentation:
    """Flips and crops of the images of a batch; full gradients and metrics see them as they are.

    A row's draws come from the batch's key and its place in the batch, on all engines alike.
    """

    flip: bool = param(
        flag, "whether images are mirrored at random, with probability 1/2", default=True
    )
    crop: int = param(
        at_least(0),
        "largest shift of an image in pixels; the border is filled with zeros",
        default=4,
    )

    def of(self, batch: Batch, key: Array) -> Batch:
        """The batch with other images.

        Args:
            batch: Rows of shape (height, width, channels).
            key: The key by which the batch was drawn.
        """
        x = jnp.asarray(batch.rows.x)
        if x.ndim != 4:
            raise DataError(
                f"augment needs images of shape (height, width, channels); rows have shape "
                f"{x.shape[1:]}. Leave it out, or reshape x."
            )
        own = jax.random.fold_in(key, _FROM_THE_BATCHS_KEY)
        keys = jax.vmap(lambda place: draws.nth(own, place))(jnp.arange(len(x)))
        return batch._replace(rows=Rows(jax.vmap(self._image)(x, keys), batch.rows.y))

    def _image(self, image: Array, key: Array) -> Array:
        coin, place = jax.random.split(key)
        if self.flip:
            image = jnp.where(jax.random.bernoulli(coin), image[:, ::-1], image)
        if self.crop:
            padded = jnp.pad(image, ((self.crop, self.crop), (self.crop, self.crop), (0, 0)))
            down, right = jax.random.randint(place, (2,), 0, 2 * self.crop + 1)
            image = jax.lax.dynamic_slice(padded, (down, right, 0), image.shape)
        return image


_rule = Rule(
    lambda v: v is None or isinstance(v, Augmentation),
    "an augmentation, such as { flip = true, crop = 4 }, or none",
    None,
)


def augment_param() -> Any:
    """The field for augmented batches."""
    return param(_rule, "flips and crops of the images of a batch", default=None)
