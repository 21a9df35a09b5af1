"""Data: readers, a catalogue of public datasets, and their division over clients."""

from typing import TYPE_CHECKING

from fedloom.data.alignment import Alignment, align
from fedloom.data.catalogue import CATALOGUE
from fedloom.data.clients import Clients, from_arrays
from fedloom.data.dataset import Dataset
from fedloom.data.elsewhere import from_datasets
from fedloom.data.heart import heart_tables
from fedloom.data.holdings import picture, table
from fedloom.data.label_schemes import ByLabel, Dirichlet, OneClass
from fedloom.data.load import load
from fedloom.data.parties import Parties, from_parties
from fedloom.data.partitions import SCHEMES, partition
from fedloom.data.schemes import IID, ByClient, ByColumn, ByFeatures, BySize
from fedloom.data.synthetic import synthetic
from fedloom.data.tokens import Tokeniser, tokeniser
from fedloom.data.validation import hold_out
from fedloom.lazy import public

__all__ = [
    "CATALOGUE",
    "IID",
    "SCHEMES",
    "Alignment",
    "ByClient",
    "ByColumn",
    "ByFeatures",
    "ByLabel",
    "BySize",
    "Clients",
    "Dataset",
    "Dirichlet",
    "OneClass",
    "Parties",
    "Tokeniser",
    "align",
    "from_arrays",
    "from_datasets",
    "from_parties",
    "heart_tables",
    "hold_out",
    "load",
    "partition",
    "picture",
    "synthetic",
    "table",
    "tokeniser",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)
