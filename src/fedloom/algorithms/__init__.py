"""The methods, one file each, in the folder of their family."""

from fedloom.algorithms.averaging.fedavg import FedAvg
from fedloom.algorithms.averaging.fedprox import FedProx
from fedloom.algorithms.averaging.scaffold import Scaffold

__all__ = ["FedAvg", "FedProx", "Scaffold"]
