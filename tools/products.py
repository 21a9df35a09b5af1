"""What an iteration of a vertical method computes: products of the parties with their columns.

A product is A_i x or A_i'y, whole and of all parties at once. They are counted from the methods'
rounds: extragradient takes one of each kind at either point. With sampled coordinates an iteration
takes the sampled part of one of each kind and, with probability p, both anew.
"""

from fedloom.algorithms import EGVFL, EGVFLCoordinate
from fedloom.protocol import Algorithm


def per_iteration(method: Algorithm) -> float:
    """How many, in the mean over draws, for the methods of which products are counted."""
    if isinstance(method, EGVFLCoordinate):
        sampled = (method.rows + method.columns) / 100
        anew = sampled / 2 if method.refresh is None else method.refresh
        return sampled + 2 * anew
    return {EGVFL: 4.0}[type(method)]
