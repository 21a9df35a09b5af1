"""What each party holds of a vertical model: its share, with how its own columns became features.

A share is a safetensors file. Its metadata has the names of all parties of the run in their order,
because scores of fewer or other parties would look right and be wrong; the party's own preparation,
where its features came from a table; and, at the label party, what the classes are called.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fedloom.checksums import understood
from fedloom.errors import DataError
from fedloom.exchange import wire
from fedloom.measuring.result import Result, nested
from fedloom.preparation.of_party import PartyPreparation
from fedloom.preparation.saved import check_classes
from fedloom.problems.vertical import LABEL_PARTY
from fedloom.types import Tree

SHARE = "share.safetensors"  # the file of a party's share
NOTED = "parties"  # of `Result.about`: what a simulation knows of all parties
_PARTIES, _PREPARATION, _CLASSES = "parties", "preparation", "classes"  # of a file's metadata


class Labels(NamedTuple):
    """What the label party knows of the labels."""

    classes: list[Any] | None  # what they are called; None: a regression


class Share(NamedTuple):
    """What one party holds of a vertical model."""

    model: Tree  # at the label party the fusion network, nothing without one
    parties: tuple[str, ...] | None  # all of the run; None: a file of an older version
    preparation: PartyPreparation | None = None  # None: its features came from no table
    labels: Labels | None = None  # at the label party, where features came from tables


def save_shares(result: Result, folder: str | Path) -> None:
    """Write each party's share of a vertical model to `folder`/PARTY/share.safetensors.

    Where the run was on tables, a share says how that party's own columns became features. A fusion
    network and the names of the classes go to `folder`/label party/share.safetensors.

    Args:
        result: The result of a vertical run. One of the simulator has all shares; one of a
            federation has only the fusion network, since each party's share is in its own kit.
        folder: The folder in which each party gets a folder of its own.
    """
    shares = shares_of(result)
    for name in shares:
        if Path(name).name != name or name in ("", ".."):
            raise DataError(
                f"save_shares: a party's name must be that of one folder; got {name!r}. Ask "
                f"whoever made this result what it is."
            )
    for name, share in shares.items():
        write_share(Path(folder) / name / SHARE, share)


def shares_of(result: Result) -> dict[str, Share]:
    """The shares that a result has, by the names of their parties."""
    parties = tuple(result.client_names)
    if not isinstance(result.model, dict) or not {*parties, LABEL_PARTY}.issuperset(result.model):
        raise DataError("save_shares needs the result of a vertical run: a share for each party.")
    shares = {name: Share(model, parties) for name, model in result.model.items()}
    known = result.about.get(NOTED)
    if known is None or not known["preparations"]:  # of a federation, or on arrays
        return shares
    label_party = shares.pop(LABEL_PARTY, Share({}, parties))
    for name, share in shares.items():
        own = PartyPreparation.from_dict(known["preparations"].get(name))
        shares[name] = share._replace(preparation=own)
    return {**shares, LABEL_PARTY: label_party._replace(labels=_labels(known["classes"]))}


def write_share(path: Path, share: Share) -> None:
    """Write a share to a file, which its owner alone can read."""
    facts: dict[str, Any] = {_PARTIES: share.parties}
    if share.preparation is not None:
        facts[_PREPARATION] = share.preparation.as_dict()
    if share.labels is not None:
        facts[_CLASSES] = share.labels.classes
    wire.write_file(path, share.model, facts)


def read_share(path: Path) -> Share:
    """The share in a file."""
    if not path.exists():
        raise DataError(f"{path}: there is no share of this party. Write it with save_shares.")
    arrays, facts = wire.read_file(path)
    with understood(path):
        parties, prepared = facts.get(_PARTIES), facts.get(_PREPARATION)
        return Share(
            nested(arrays, namespaces=False),
            None if parties is None else tuple(parties),
            None if prepared is None else PartyPreparation.from_dict(prepared),
            _labels(facts[_CLASSES]) if _CLASSES in facts else None,
        )


def read_shares(folder: Path, wanted: Iterable[str]) -> dict[str, Share]:
    """The shares of these parties and of the label party, as far as they lie in a folder."""
    names = dict.fromkeys((LABEL_PARTY, *wanted))
    return {n: read_share(folder / n / SHARE) for n in names if (folder / n / SHARE).exists()}


def _labels(classes: Any) -> Labels:
    check_classes(classes)
    return Labels(classes)
