"""The NumPy transcriptions of `tests/papers`, and for which cases they say what comes out."""

from verification.listings import linear, minimax, personal, vertical
from verification.listings.base import Listing

LISTINGS: dict[str, Listing] = {
    **linear.LISTINGS,
    **minimax.LISTINGS,
    **personal.LISTINGS,
    **vertical.LISTINGS,
}
