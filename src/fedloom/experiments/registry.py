"""A registry: the things of one kind that settings files may name, and where each comes from.

    "fedavg"                        fedloom's own
    "their_method"                  announced by an installed package, as an entry point
    "package.module:TheirMethod"    in a module that can be imported
    "my_method.py:MyMethod"         in a file

Fedloom's own are known at once. Code of others is loaded when it is named, and only where the
settings may name it (`Location.admit`). A key that fedloom has itself cannot be announced anew.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, NamedTuple, TypeVar

from fedloom.errors import FedloomError, ParameterError
from fedloom.experiments.addresses import Address, address, address_of, line_of, thing_at
from fedloom.experiments.locations import Location
from fedloom.hints import closest, listed

T = TypeVar("T")
OWN = "fedloom"  # where fedloom's own come from


class Known(NamedTuple):
    """A line of a list: a key, what it stands for, and where from."""

    key: str
    thing: Any  # None where it cannot be had
    source: str  # "fedloom", or the package that announces it
    error: str = ""  # why it cannot be had


class UnusableError(FedloomError):
    """What a package announces cannot be had."""


class Registry(Mapping[str, T], Generic[T]):
    """The things of one kind by their keys; as a mapping, fedloom's own only."""

    def __init__(
        self, kind: str, built_in: Mapping[str, T], fits: Callable[[Any], bool], must: str
    ) -> None:
        self.kind = kind  # as in "algorithms"
        self.fits = fits  # whether a thing is of this kind,
        self.must = must  # and what it must be for that, in words
        self._built_in = built_in

    def __getitem__(self, key: str) -> T:
        return self._built_in[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._built_in)

    def __len__(self) -> int:
        return len(self._built_in)

    def beyond(self, name: object) -> bool:
        """Whether a name leads to something that is not fedloom's own; loads nothing."""
        return (
            isinstance(name, str)
            and name not in self._built_in
            and (address(name) is not None or name in self._announced())
        )

    def find(self, name: Any, place: Location) -> T:
        """What a key or an address stands for, at a place of a settings file."""
        if isinstance(name, str) and name in self._built_in:
            return self._built_in[name]
        if self.beyond(name):
            place.admit(self.kind, name)  # before anything is loaded
            at = address(name)
            if at is not None:
                return self._at(at, place)
            try:
                return self._load(name)
            except UnusableError as error:
                raise place.error(f"{name!r} cannot be used: {error}") from error
        known, where = [*self._built_in, *self._announced()], f"fedloom list {self.kind}"
        if name is None:
            raise place.error(f"is missing: it must be a known key. {listed(known, where=where)}")
        hint = closest(name, known, where=where)
        raise place.error(f"must be a known key; got {name!r}. {hint}")

    def known(self) -> list[Known]:
        """Fedloom's own and what packages announce, which is loaded for it."""
        found = [Known(key, thing, OWN) for key, thing in self._built_in.items()]
        for key, points in self._announced().items():
            source = " and ".join(_package(point) for point in points)
            try:
                found.append(Known(key, self._load(key), source))
            except UnusableError as error:
                found.append(Known(key, None, source, str(error)))
        return found

    def key_of(self, cls: type) -> str:
        """By what a settings file names a class."""
        for key, own in self._built_in.items():
            if own is cls:
                return key
        for key, points in self._announced().items():
            if key not in self._built_in and len(points) == 1 and _if_loaded(points[0]) is cls:
                return key
        at = address_of(cls)
        if at is None:
            raise ParameterError(
                f"{cls.__name__} has no key in settings files, so it cannot be written there or "
                f"sent to sites. Use one of {', '.join(self._built_in)}, or a class of a module "
                f"that others can import."
            )
        return str(at)

    def _at(self, at: Address, place: Location) -> T:
        thing = thing_at(at, place, self.fits)
        if not self.fits(thing):
            raise place.error(f"{at} must be {self.must}; it is {_what(thing)}. Change it.")
        return thing

    def _announced(self) -> dict[str, list[EntryPoint]]:
        """The entry points of installed packages by key; nothing of them is imported."""
        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=f"fedloom.{self.kind}"):
            found.setdefault(point.name, []).append(point)
        return found

    def _load(self, key: str) -> T:
        point, *others = self._announced()[key]
        if key in self._built_in:
            raise UnusableError("fedloom has this key itself, and it cannot be overridden.")
        if others:
            raise UnusableError(
                f"several packages announce it. Name one of them by its address: {point.value}."
            )
        try:
            thing = point.load()
        except (Exception, SystemExit) as error:  # a package of others may do anything
            said = f"{type(error).__name__}: {error}"
            at = f"{point.value} of {_package(point)}{line_of(error)}"
            raise UnusableError(f"{at}: {said}.") from error
        if not self.fits(thing):
            raise UnusableError(
                f"{point.value} of {_package(point)} must be {self.must}; it is {_what(thing)}."
            )
        return thing


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.module


def _if_loaded(point: EntryPoint) -> Any:
    """What an entry point leads to, where its module has been imported already."""
    thing: Any = sys.modules.get(point.module)
    for name in point.attr.split("."):
        thing = getattr(thing, name, None)
    return thing


def _what(thing: Any) -> str:
    if isinstance(thing, type):
        bases = ", ".join(base.__name__ for base in thing.__bases__)
        return f"the class {thing.__name__} with the base {bases}"
    return f"a {type(thing).__name__}"
