"""The style of a method: its colour and line are the same in all pictures of reproductions.

What stands behind the name, as in "QuPeD, 2 bits", is a variant: its colour in another line, and
darker or lighter, so that the name at the end of a curve tells it apart as well.
"""

import re
from collections.abc import Sequence
from typing import Any

from matplotlib.colors import to_hex, to_rgb

# Okabe and Ito's palette without its yellow, and five more that are apart from it.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#7A4FB5", "#8C6D31", "#4D6A00", "#B22222", "#5F6F86"),
)
STYLES = ("-", "--", ":", "-.", (0, (8, 2)), (0, (6, 2, 1, 2, 1, 2)))
_SHADES = (0.0, -0.4, 0.25, -0.2, -0.55, 0.4)  # of the lines: < 0 towards black, > 0 towards white
VARIANTS = {  # the line of a variant in every picture, by what stands behind the method's name
    "": 0, "2 bits": 1, "1 bit": 2, "2 bits, centres still": 4, "1 bit, centres still": 5,
    "beta-trick": 1, "25%": 0, "50%": 1, "10%": 2,
}  # fmt: skip
FAMILIES = (  # methods that appear in one picture, by their colours; a|b: in none together
    "ffmdr codasca ffmdr_consensus local_sgda local_sgda_plus momentum_local_sgda fed_norm_sgda "
    "fedsgda_plus fedsgda_m fednest",
    "drfa fedavg afl q_fedavg drfa_prox drfa_ga",
    "decoupled_prox fedmid feddualavg fast_fedda feddr fedadmm",
    "egvfl gd agd admm randk 2_of_5 augmented|4_of_5 topk coordinates proximal|1_of_5 "
    "slacks|3_of_5 dual",
    "quped fedavg local qupel pfedme per-fedavg mutual_learning",
    "tau_=_1 tau_=_2 tau_=_5 tau_=_10 tau_=_20 tau_=_50",
    "- - - qupel - - - clipped closeness_0.02 centres_still as_stated",
)


def style(name: str, drawn: Sequence[str]) -> dict[str, Any]:
    """Colour by method, line and shade by variant, for one name among all that are drawn."""
    own, variant = _parts(name)
    parts = [_parts(other) for other in drawn]
    variants = [other for base, other in parts if base == own]
    unknown = [other for other in dict.fromkeys(variants) if other not in VARIANTS]
    taken = {VARIANTS[other] for other in variants if other in VARIANTS}
    free = [line for line in range(len(STYLES)) if line not in taken]
    line = (VARIANTS | dict(zip(unknown, free, strict=False)))[variant]
    colour = _colours([base for base, _ in parts])[own]
    return {"color": _shaded(colour, _SHADES[line]), "linestyle": STYLES[line]}


def _colours(bases: Sequence[str]) -> dict[str, str]:
    """Those of the family; who is in none takes what is left over."""
    families = [
        {
            base: colour
            for both, colour in zip(family.split(), COLOURS, strict=False)
            for base in both.split("|")
        }
        for family in FAMILIES
    ]
    family = max(families, key=lambda known: sum(base in known for base in bases))
    known = {base: family[base] for base in bases if base in family}
    others = [base for base in dict.fromkeys(bases) if base not in family]
    # Without a family from the first colour on, else from the last, which fewer of it have.
    order = reversed(COLOURS) if known else COLOURS
    free = [colour for colour in order if colour not in known.values()]
    return known | dict(zip(others, free, strict=False))


def _shaded(colour: str, shade: float) -> str:
    end = 1.0 if shade > 0 else 0.0
    return to_hex([part + abs(shade) * (end - part) for part in to_rgb(colour)])


def _parts(name: str) -> tuple[str, str]:
    """Method and variant: of "6: slacks" the number is that of the algorithm in its paper."""
    found = re.fullmatch(r"(?:\d+: )?([^,:]*?)(?: (\d+%))?(?:[,:](.*))?", name)
    base, share, rest = found.groups() if found else (name, None, None)
    variant = ", ".join(part.strip() for part in (share, rest) if part)
    return base.strip().lower().replace(" ", "_"), variant
