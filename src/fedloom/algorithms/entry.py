"""The entry of a method in the catalogue."""

import dataclasses
from typing import Any, Literal

from fedloom.parameters import parameters_of
from fedloom.protocol import Algorithm

# What a method is tried on: the kind of problem that it takes, and what it makes of it.
Kind = Literal["smooth", "composite", "saddle", "personal", "personal-alike", "vertical"]


@dataclasses.dataclass(frozen=True, eq=False)
class MethodEntry:
    """A method and the facts about it that tests and users select by."""

    key: str
    cls: type[Algorithm]
    family: str
    paper: str
    solves: str  # the problem, in a line
    trial: dict[str, Any]  # small hyper-parameters with which the laws are tested
    kind: Kind = "smooth"  # the kind of federation on which it is tried
    deterministic: bool = False  # whether it draws nothing at all, whatever the batch size
    # Values to begin with on the data of the family's example, as a settings file has them;
    # without any, those of the trial for what has no default.
    first: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The class's name."""
        return self.cls.__name__

    def beginning(self) -> dict[str, Any]:
        """The parameters of a first run; all others have their defaults."""
        needed = [p.name for p in parameters_of(self.cls) if p.default is dataclasses.MISSING]
        return self.first or {name: self.trial[name] for name in needed}

    def example(self) -> Algorithm:
        """The method with the hyper-parameters of the laws."""
        return self.cls(**self.trial)
