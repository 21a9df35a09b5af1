"""What a client takes away: its model, small on disk, ready to predict, or for other tools.

own = fl.deploy.take(method, problem, clients, result, client=3)
own.save("client-3.safetensors")         # codes of 1, 2, 4 or 8 bits beside their centres
fl.load("client-3.safetensors").predict(x)
own.export_onnx("client-3.onnx")
own.export_torch("client-3-torch.safetensors")
"""

from typing import TYPE_CHECKING

from fedloom.deploy.deployed import Deployed, take, take_all
from fedloom.deploy.packing import Sizes
from fedloom.lazy import public

__all__ = ["Deployed", "Sizes", "take", "take_all"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public(__name__)
