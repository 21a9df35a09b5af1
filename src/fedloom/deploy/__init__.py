"""Models on their own, taken from a finished run: to predict with, or for other tools.

hub = fl.deploy.take(method, problem, clients, result)               # the hub's model
own = fl.deploy.take(method, problem, clients, result, client=3)     # what a client would use
own.save("client-3.safetensors")         # codes of 1, 2, 4 or 8 bits beside their centres
fl.load("client-3.safetensors").predict(x)
own.export_onnx("client-3.onnx")
own.export_torch("client-3-torch.safetensors")
fl.deploy.coefficients(hub)              # of a linear model, by the columns of the tables
"""

from typing import TYPE_CHECKING

from fedloom.deploy.deployed import Deployed
from fedloom.deploy.linear import coefficients
from fedloom.deploy.packing import Sizes
from fedloom.deploy.taking import hub_model, take, take_all
from fedloom.lazy import public

__all__ = ["Deployed", "Sizes", "coefficients", "hub_model", "take", "take_all"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)
