"""The NumPy transcriptions of `tests/papers`, and for which cases they say what comes out."""

from verification.listings import baselines, linear, minimax, personal, vertical
from verification.listings.base import Listing

LISTINGS: dict[str, Listing] = {
    **baselines.LISTINGS,
    **linear.LISTINGS,
    **minimax.LISTINGS,
    **personal.LISTINGS,
    **vertical.LISTINGS,
}
