"""PyTorch modules that show what can be imported, each small, with rows to try it on.

Needs torch; those of Hugging Face need transformers and peft, those of torchvision that package.
"""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

ROWS = 3
# torchvision's networks are plain Python; its compiled operators, which need the very same torch,
# are declared in this module, and no network here uses them. Hugging Face imports it as well.
sys.modules.setdefault("torchvision._meta_registrations", ModuleType("unused"))


class Case(NamedTuple):
    """A module, rows for it, what becomes of its batch norms, and whether it has dropout here."""

    module: nn.Module
    x: torch.Tensor
    norm: str | None = None
    dropout: bool = False


class Convolutions(nn.Module):
    """Strides, paddings, dilation, groups, depthwise, poolings, norms."""

    def __init__(self) -> None:
        super().__init__()
        self.same = nn.Conv2d(3, 8, 3, padding="same")
        self.strided = nn.Conv2d(8, 8, 3, stride=2, padding=1, bias=False)
        self.depthwise = nn.Conv2d(8, 16, 3, padding=1, groups=8)
        self.grouped = nn.Conv2d(16, 8, 3, padding=2, dilation=2, groups=2)
        self.norm = nn.GroupNorm(2, 8)
        self.head = nn.Linear(8 * 6, 4)

    def forward(self, x: Any) -> Any:  # noqa: D102
        x = F.max_pool2d(F.relu(self.same(x)), 3, 2, 1)
        x = F.silu(self.depthwise(F.leaky_relu(self.strided(x))))
        x = F.hardswish(self.norm(self.grouped(x)))
        x = F.avg_pool2d(x, 2, 1, 1, ceil_mode=True, count_include_pad=False)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, (3, 2)), 1))


class UNet(nn.Module):
    """One step down and one up, with transposed convolution, resizing and a shortcut."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, width, 3, padding=1)
        self.middle = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.up = nn.ConvTranspose2d(2 * width, width, 3, stride=2, padding=1, output_padding=1)
        self.out = nn.Conv2d(3 * width, 2, 1)

    def forward(self, x: Any) -> Any:  # noqa: D102
        high = F.elu(self.down(x))
        low = F.gelu(self.middle(F.max_pool2d(high, 2)))
        smooth = F.interpolate(low, size=high.shape[2:], mode="bilinear")[:, : high.shape[1]]
        nearest = F.interpolate(low, scale_factor=2)[:, : high.shape[1]]
        return self.out(torch.cat([high + smooth, self.up(low), nearest], 1))


class Recurrent(nn.Module):
    """Words into a recurrent network of two layers in both directions."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 5, padding_idx=0)
        self.layers = kind(5, 4, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:  # noqa: D102
        seen, _ = self.layers(self.words(x))
        return self.head(seen[:, -1])


class Dropouts(nn.Module):
    """Dropout wherever PyTorch has it, and the rows on other axes than the first."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(4, 6, 2, dropout=0.3)
        self.block = nn.TransformerEncoderLayer(6, 2, 8, 0.2, batch_first=True)
        self.channels = nn.Dropout1d(0.2)
        self.looks = nn.MultiheadAttention(6, 2, dropout=0.1)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:  # noqa: D102
        seen, _ = self.recurrent(x.transpose(0, 1))
        seen = seen + self.looks(seen, seen, seen)[0]
        x = self.channels(self.block(seen.transpose(0, 1)))
        return self.head(F.dropout(x.mean(1), 0.4, self.training))


class Rows(nn.Module):
    """A transformer that reads an image row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Linear(8, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 8, 0.1, batch_first=True)
        self.head = nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:  # noqa: D102
        return self.head(self.block(self.look(x.squeeze(1))).mean(1))


class Sink(nn.Module):
    """What other modules seldom use: reductions, indices, masks, powers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 8))
        self.register_buffer("order", torch.tensor([3, 1, 0, 2]))

    def forward(self, x: Any) -> Any:  # noqa: D102
        x = x * self.scale
        a, b = x.view(-1, 2, 4).unbind(1)
        best, place = a.max(-1, keepdim=True)
        parts = [
            *(best, a.gather(1, place), a.index_select(1, self.order), b[:, self.order].flip(1)),
            *(torch.where(b > 0, b.pow(2), b.abs().sqrt()), a.clamp(-0.5, 0.5).roll(1, 1)),
            *(x.cumsum(1)[:, ::3], x.var(1, keepdim=True), x.logsumexp(1, keepdim=True)),
            *(x.norm(dim=1, keepdim=True), x.masked_fill(x > 1, 0.0).mean(1, keepdim=True)),
            *(F.pad(a, (1, 2), value=1.0), torch.einsum("ni,nj->nij", a, b).tril().sum(2)),
            *(F.softplus(a), torch.stack([a, b], 1).chunk(2, 1)[1].squeeze(1), b.std(1)[:, None]),
            *(torch.div(a, 0.3, rounding_mode="floor"), F.log_softmax(b, -1), F.hardtanh(a)),
        ]
        return torch.cat(parts, 1)


def _words(length: int = 6, words: int = 12) -> torch.Tensor:
    return torch.randint(0, words, (ROWS, length))


def _mlp() -> Case:
    layers = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3))
    return Case(layers, torch.randn(ROWS, 6))


def _encoder() -> Case:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return Case(nn.Sequential(nn.Linear(4, 8), encoder, nn.Linear(8, 3)), torch.randn(ROWS, 5, 4))


def _frozen_norms() -> Case:
    return Case(_normed(), torch.randn(ROWS, 3, 6, 6), "frozen")


def _group_norms() -> Case:
    return Case(_normed(), torch.randn(ROWS, 3, 6, 6), "group")


def _local_norms() -> Case:
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10)]
    return Case(nn.Sequential(*layers), torch.rand(4 * ROWS, 1, 8, 8), "local")


def _dropout() -> Case:
    return Case(nn.Sequential(nn.Linear(6, 40), nn.Dropout(0.25)), torch.randn(ROWS, 6), None, True)


def _normed() -> nn.Module:
    norm = nn.BatchNorm2d(4)
    norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
    return nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))


def _table() -> Case:
    """For a table of three columns and two classes: the first layer frozen, and dropout."""
    first, last = nn.Linear(3, 4).requires_grad_(False), nn.Linear(4, 2)
    middle = nn.Sequential(nn.Tanh(), nn.Dropout(0.2))
    return Case(nn.Sequential(first, middle, last), torch.randn(ROWS, 3), None, True)


def _digits(*, frozen: bool) -> Case:
    """For the dataset of digits, 8 x 8; with the convolution frozen or not."""
    convolution = nn.Conv2d(1, 4, 3, padding=1).requires_grad_(not frozen)
    layers = [convolution, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10)]
    return Case(nn.Sequential(*layers), torch.rand(ROWS, 1, 8, 8))


def _bert(**sizes: int) -> nn.Module:
    import transformers

    config = {"vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    config |= {"intermediate_size": 16, "max_position_embeddings": 8, **sizes}
    return transformers.BertForSequenceClassification(transformers.BertConfig(**config))


def _vit(**sizes: int) -> nn.Module:
    import transformers

    config = {"image_size": 8, "patch_size": 4, "hidden_size": 8, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 2, "intermediate_size": 16, **sizes}
    return transformers.ViTForImageClassification(transformers.ViTConfig(**config))


def _gpt2() -> nn.Module:
    import transformers

    config = transformers.GPT2Config(vocab_size=12, n_positions=8, n_embd=8, n_layer=2, n_head=2)
    return transformers.GPT2LMHeadModel(config)


def _lora(module: nn.Module, head: str) -> nn.Module:
    import peft

    chosen = ["query", "value", "q_proj", "v_proj"]
    config = peft.LoraConfig(r=2, target_modules=chosen, modules_to_save=[head])
    module = peft.get_peft_model(module, config)
    for name, parameter in module.named_parameters():
        if "lora_B" in name:  # zeros would hide an error in the other factor
            nn.init.normal_(parameter, std=0.1)
    return module


def _torchvision(name: str) -> Case:
    import torchvision

    module = getattr(torchvision.models, name)(num_classes=10)
    return Case(module, torch.randn(ROWS, 3, 32, 32), "group")


Build = Callable[[], Case]
# Small enough to lie beside the tests with PyTorch's own outputs and gradients.
SMALL: dict[str, Build] = {
    "mlp": _mlp,
    "convolutions": lambda: Case(Convolutions(), torch.randn(ROWS, 3, 12, 12)),
    "unet": lambda: Case(UNet(), torch.randn(ROWS, 3, 8, 8)),
    "frozen_norms": _frozen_norms,
    "group_norms": _group_norms,
    "local_norms": _local_norms,
    "dropout": _dropout,
    "dropouts": lambda: Case(Dropouts(), torch.randn(ROWS, 5, 4), None, True),
    "lstm": lambda: Case(Recurrent(nn.LSTM), _words()),
    "gru": lambda: Case(Recurrent(nn.GRU), _words()),
    "rnn": lambda: Case(Recurrent(nn.RNN), _words()),
    "encoder": _encoder,
    "table": _table,
    "digits": functools.partial(_digits, frozen=False),
    "digits_frozen": functools.partial(_digits, frozen=True),
    "digits_transformer": lambda: Case(Rows(), torch.rand(ROWS, 1, 8, 8), None, True),
    "sink": lambda: Case(Sink(), torch.randn(ROWS, 8)),
}
HUGGING_FACE: dict[str, Build] = {
    "bert": lambda: Case(_bert(), _words()),
    "vit": lambda: Case(_vit(), torch.randn(ROWS, 3, 8, 8)),
    "gpt2": lambda: Case(_gpt2(), _words()),
    "bert_lora": lambda: Case(_lora(_bert(), "classifier"), _words()),
    "vit_lora": lambda: Case(_lora(_vit(), "classifier"), torch.randn(ROWS, 3, 8, 8)),
}
LARGE: dict[str, Build] = {
    "resnet18": functools.partial(_torchvision, "resnet18"),
    "mobilenet_v2": functools.partial(_torchvision, "mobilenet_v2"),
}


def built(name: str) -> Case:
    """A case, the same every time."""
    torch.manual_seed(0)
    case = {**SMALL, **HUGGING_FACE, **LARGE}[name]()
    case.module.train(case.dropout)
    return case
