"""Secure aggregation: the hub learns the sum of the replies, and no single one.

The protocol is that of Bonawitz et al., CCS 2017, in its form against an active server, with keys
that are fresh for every exchange:

    keys      every site makes two X25519 key pairs and signs them with its certificate
    shares    it checks the others' signatures, and shares a secret seed b and its mask key among
              all, by Shamir's scheme, encrypted
    masked    it sends  x + PRG(b) + sum_{v > u} PRG(s_uv) - sum_{v < u} PRG(s_uv)  mod 2^64
    agree     it signs who is in the sum, by what the hub says
    unmask    where enough have signed the same, the others reveal shares of b for each site that is
              in the sum, and of its mask key for each that is not; never both for the same site

Numbers travel on a fixed-point grid, so the sum is exact on that grid. More than two thirds of the
sites must stay to the end.

    grid.py      real numbers as elements of a ring
    shamir.py    secrets that any t of n can put together
    masks.py     keys, seeds and masks
    sums.py      which methods use nothing but sums; the replies that they then get
    identity.py  certificates and signatures
    circle.py    with whom a site sums; what sites sign
    ledger.py    what a site has said, so that it says it once
    member.py    a site's part
    hub.py       the hub's part
"""
