"""Secure aggregation: the hub learns the sum of the replies, and no single one.

The protocol is that of Bonawitz et al., CCS 2017, against a server that is honest but curious, with
keys that are fresh for every exchange:

    keys      every site makes two X25519 key pairs and publishes them
    shares    it shares a secret seed b and its mask key among all, by Shamir's scheme, encrypted
    masked    it sends  x + PRG(b) + sum_{v > u} PRG(s_uv) - sum_{v < u} PRG(s_uv)  mod 2^64
    unmask    for each site that answered, the others reveal shares of b; for each that dropped
              out, shares of its mask key; never both for the same site

Numbers travel on a fixed-point grid, so the sum is exact on that grid. Half of the sites, and one,
must stay to the end.

    grid.py      real numbers as elements of a ring
    shamir.py    secrets that any t of n can put together
    masks.py     keys, seeds and masks
    sums.py      which methods use nothing but sums; the replies that they then get
    member.py    a site's part
    hub.py       the hub's part
"""
