"""An entry of the catalogue of datasets: which copy of it is there, and how to read it."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedloom.data import fetch
from fedloom.data.dataset import Dataset
from fedloom.data.fetch import File
from fedloom.errors import ParameterError
from fedloom.hints import closest


@dataclasses.dataclass(frozen=True)
class Copy:
    """A form in which a dataset may lie on a machine: its files, and how to read them."""

    files: tuple[File, ...]
    read: Callable[..., Dataset]  # takes the paths of the files, then options by name
    title: str = ""  # what the dataset is called; empty: the reader names it
    options: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class DatasetEntry:
    """A public dataset."""

    name: str
    description: str
    licence: str
    source: str  # the page that describes it
    copies: tuple[Copy, ...]  # the full set first, then what may stand in for it in a data folder

    @property
    def files(self) -> tuple[File, ...]:
        """The files of the full set."""
        return self.copies[0].files

    def open(self, *, verify: bool = False, **options: Any) -> Dataset:
        """Read the set: from the user's data folder, the cache, or its source, in this order.

        Args:
            verify: Whether to check the files against their published checksums first.
            options: Options of this set's reader.
        """
        copy, paths = self._find()
        self._check(options, copy)
        if verify:
            for file, path in zip(copy.files, paths, strict=True):
                fetch.verify(file, path)
        dataset = copy.read(*paths, **options)
        return retitled(dataset, copy.title) if copy.title else dataset

    def _find(self) -> tuple[Copy, list[Path]]:
        for copy in self.copies:
            own = [fetch.in_data_folder(file) for file in copy.files]
            paths = [path for path in own if path is not None]
            if len(paths) == len(own):
                return copy, paths
        full = self.copies[0]
        return full, [fetch.locate(file) for file in full.files]

    def _check(self, options: Mapping[str, Any], copy: Copy) -> None:
        for name in options:
            if name not in copy.options:
                hint = closest(name, copy.options) if copy.options else "It has no options."
                raise ParameterError(f"{self.name}: there is no option {name!r}. {hint}")
        if options:
            from fedloom.data.load import check_kinds  # it knows this module

            check_kinds(self.name, copy.read, options)


def retitled(dataset: Dataset, title: str) -> Dataset:
    """The same dataset under another name."""
    test = dataset.test and dataclasses.replace(dataset.test, name=f"{title} test")
    return dataclasses.replace(dataset, name=title, test=test)
