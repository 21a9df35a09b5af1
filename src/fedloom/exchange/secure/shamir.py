"""Shamir's scheme: a secret in shares, of which any `threshold` give it back and fewer say nothing.

Shamir, "How to share a secret", Communications of the ACM 1979. Arithmetic is modulo the Mersenne
prime 2^521 - 1; member i holds the polynomial's value at i + 1.
"""

import secrets
from collections.abc import Iterable, Mapping

PRIME = 2**521 - 1


def split(secret: bytes, members: Iterable[int], threshold: int) -> dict[int, int]:
    """A share of at most 64 bytes of secret for each member."""
    value = int.from_bytes(secret, "big")
    coefficients = [value, *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]

    def at(x: int) -> int:
        result = 0
        for coefficient in reversed(coefficients):
            result = (result * x + coefficient) % PRIME
        return result

    return {member: at(member + 1) for member in members}


def join(shares: Mapping[int, int], length: int) -> bytes:
    """The secret from at least `threshold` shares, by interpolation at zero."""
    total = 0
    for i, share in shares.items():
        above = below = 1
        for j in shares:
            if j != i:
                above = above * (j + 1) % PRIME
                below = below * (j - i) % PRIME
        total = (total + share * above * pow(below, -1, PRIME)) % PRIME
    return total.to_bytes(length, "big")
