"""The tables of QuPeD on one GPU, in portions that may be cut off and taken up again.

    python -m benchmarks.personal_gpu --task mnist --data DIR --out OUT [--methods NAME ...]
        [--seeds 3] [--budget-seconds 540]
    python -m benchmarks.personal_gpu --task cifar10 --data DIR --out OUT --own cnn2 --classes 4
    python -m benchmarks.personal_gpu --time --data DIR --out OUT
    python -m benchmarks.personal_gpu --table --out OUT
    python -m benchmarks.personal_gpu --prepare --task ag_news --data DIR --out FOLDER

Every finished run is one line of OUT/results.jsonl, so a command that is killed loses at most the
run it was in; the next one skips what is there. Every method has the same rate: nothing is
chosen here. Networks begin as PyTorch's do, and pixels have mean 0 and variance 1. `--prepare`
writes a task's arrays as .npz files, for machines without Polars or Pillow; `--data` may name the
folder of such files. Compiling takes longer than running, so several processes at once, each with
methods and an OUT of its own, make better use of the card; `--table` reads all below OUT. Nothing
here needs more than JAX, NumPy, SciPy, scikit-learn, safetensors and Optax, and PyTorch for
`--time`.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import fedloom as fl
from fedloom.algorithms import Quantisation

BATCH, STEPS = 25, 10
GROWTH = 1 / 0.99
_FILE_BYTES = 50_000_000  # before they are compressed


@dataclasses.dataclass(frozen=True)
class Task:
    """A dataset with the settings that the paper states, or that were guessed for it."""

    name: str  # in fedloom's catalogue
    clients: int
    classes: int | None  # of each client; None: by writers
    passes: int
    tuning: int  # passes of fine-tuning at the end
    pull: tuple[float, float]  # slopes of lambda at 2 bits and at 1
    lr: float = 0.1
    keep: tuple[int, ...] = (0, -1)


TASKS = {
    "mnist": Task("mnist", 50, 3, 50, 7, (5e-6, 1e-6)),
    "cifar10": Task("cifar10", 50, 3, 250, 50, (1e-6, 5e-7)),
    "femnist": Task("femnist", 66, None, 30, 5, (5e-6, 1e-6)),
    "ag_news": Task("agnews", 42, 3, 30, 5, (5e-6, 1e-6), lr=0.5, keep=(-1,)),
}
# (task, classes of each client, own network): accuracy in per cent, as printed.
PAPER = {
    ("mnist", 3, "cnn1"): {
        "fedavg": 98.64, "local": 98.79, "local-2": 98.53, "local-1": 98.41, "quped": 99.05,
        "quped-2": 98.96, "quped-1": 98.57, "qupel-2": 98.95, "qupel-1": 98.33, "pfedme": 98.98,
        "per_fedavg": 98.82, "mutual": 99.00,
    },
    ("mnist", 4, "cnn1"): {
        "fedavg": 98.65, "local": 98.66, "local-2": 98.37, "local-1": 97.95, "quped": 98.89,
        "quped-2": 98.67, "quped-1": 98.25, "qupel-2": 98.61, "qupel-1": 98.11, "pfedme": 98.82,
        "per_fedavg": 98.93, "mutual": 98.84,
    },
    ("cifar10", 4, "cnn2"): {
        "fedavg": 62.49, "local": 73.86, "local-2": 73.24, "local-1": 70.23, "quped": 76.39,
        "quped-2": 75.32, "quped-1": 72.01, "pfedme": 74.70, "per_fedavg": 74.60, "mutual": 75.74,
    },
    ("cifar10", 3, "cnn1"): {
        "fedavg": 59.23, "local": 78.03, "local-2": 77.47, "local-1": 75.89, "quped": 80.30,
        "quped-2": 79.31, "quped-1": 77.23, "qupel-2": 77.87, "qupel-1": 74.46, "pfedme": 78.22,
        "per_fedavg": 75.08, "mutual": 79.44,
    },
    ("femnist", None, "cnn1"): {"quped": 97.31, "quped-2": 96.73, "quped-1": 95.15},
    ("ag_news", 3, "embedding_bag"): {
        "fedavg": 83.04, "local": 84.20, "local-2": 82.68, "local-1": 82.12, "quped": 85.06,
        "quped-2": 83.62, "quped-1": 82.72,
    },
}  # fmt: skip


def methods(task: Task, lr: float, own: str) -> dict[str, object]:
    """Every method by its name, at one rate."""
    steps = {"lr": lr, "local_steps": STEPS}
    frozen = {"freeze_after": task.passes - task.tuning}
    two = Quantisation(bits=2, pull=task.pull[0], **frozen)
    one = Quantisation(bits=1, pull=task.pull[1], pull_growth=GROWTH, **frozen)
    bounded = dataclasses.replace(one, weight_bound=1.0, centre_bound=10.0)
    deep = own == "cnn2"
    guide = 0.15 if deep else 0.25
    distilled = {"common_lr": lr, "guidance": guide} | steps
    a = fl.algorithms
    return {
        "fedavg": a.FedAvg(**steps),
        "local": a.LocalTraining(**steps),
        "local-2": a.QuantisedTraining(quantise=two, **steps),
        "local-1": a.QuantisedTraining(quantise=one, **steps),
        "quped": a.QuPeD(**distilled),
        "quped-2": a.QuPeD(quantise=two, **distilled),
        "quped-1": a.QuPeD(quantise=one, **distilled),
        "qupel-2": a.QuPeL(quantise=two, **steps),
        "qupel-1": a.QuPeL(quantise=one, **steps),
        "local-1-bounded": a.QuantisedTraining(quantise=bounded, **steps),
        "quped-1-bounded": a.QuPeD(quantise=bounded, **distilled),
        "qupel-1-bounded": a.QuPeL(quantise=bounded, **steps),
        "pfedme": a.PFedMe(
            penalty=0.2 if deep else 0.5, outer_lr=0.15 if deep else 0.2, inner_steps=5, **steps
        ),
        "per_fedavg": a.PerFedAvg(personal_lr=2.5e-3 if deep else 1e-3, **steps),
        "mutual": a.MutualLearning(guidance=guide, common_guidance=guide, **steps),
    }


def problem(task: Task, own: str, method: str) -> object:
    """The common network is CNN1 where it may differ from the own one, as in the paper."""
    as_torch = {"initialisation": "torch"} if own.startswith("cnn") else {}
    network = fl.models.REGISTRY[own](**as_torch)
    free = method.startswith(("quped", "mutual")) and own == "cnn2"
    common = fl.models.CNN1(**as_torch) if free else network
    return fl.problems.Personal(common, network, keep=task.keep)


def dataset(task: str, folder: Path):
    """A dataset, from a prepared file or from the copies that fedloom knows."""
    prepared = sorted(folder.glob(f"{task}-*.npz"))
    if not prepared:
        os.environ["FEDLOOM_DATA"] = str(folder)
        return fl.data.load(TASKS[task].name)
    files = [dict(np.load(path, allow_pickle=False)) for path in prepared]
    parts = {name: np.concatenate([file[name] for file in files]) for name in files[0]}
    parts["labels"] = files[0]["labels"]
    pixels = parts["x"].dtype == np.uint8

    def part(prefix: str, test):
        x = parts[f"{prefix}x"]
        x = np.divide(x, 255, dtype=np.float32) if pixels else x.astype(np.int32)
        columns = {"client": parts[f"{prefix}client"]} if f"{prefix}client" in parts else {}
        y = parts[f"{prefix}y"].astype(np.int64)
        return fl.data.Dataset(task, x, y, parts["labels"], columns, test=test)

    return part("", part("test_", None))


def prepare(task: str, folder: Path, out: Path) -> None:
    """Write a dataset as small files, which all have every kind of row."""
    found = dataset(task, folder)
    whole = np.issubdtype(found.x.dtype, np.integer)
    small = (lambda x: x.astype(np.int16)) if whole else lambda x: np.rint(x * 255).astype(np.uint8)
    arrays = {"labels": found.labels}
    for prefix, part in (("", found), ("test_", found.test)):
        arrays |= {f"{prefix}x": small(part.x), f"{prefix}y": part.y.astype(np.uint8)}
        if "client" in part.columns:
            arrays[f"{prefix}client"] = part.columns["client"].astype(str)
    out.mkdir(parents=True, exist_ok=True)
    count = -(-arrays["x"].nbytes // _FILE_BYTES)
    for i in range(count):
        here = {k: v if k == "labels" else np.array_split(v, count)[i] for k, v in arrays.items()}
        np.savez_compressed(out / f"{task}-{i}.npz", **here)


def clients(task: Task, found, classes: int | None):
    """Who holds what: some classes each, or three writers each."""
    if classes is not None:
        pixels = not np.issubdtype(found.x.dtype, np.integer)
        return fl.data.partition(
            found, "label", clients=task.clients, classes_each=classes, normalise=pixels
        )
    writers = np.unique(found.columns["client"])[: 3 * task.clients]

    def divided(part) -> list:
        place = np.searchsorted(writers, part.columns["client"])
        place = np.where(np.isin(part.columns["client"], writers), place // 3, -1)
        return [(part.x[place == i], part.y[place == i]) for i in range(task.clients)]

    made = fl.data.from_arrays(divided(found), test=divided(found.test))
    return dataclasses.replace(made, labels=found.labels)


class Log:
    """The lines of OUT/results.jsonl, and the time that is left."""

    def __init__(self, out: Path, budget: float):
        out.mkdir(parents=True, exist_ok=True)
        self.path, self.began, self.budget = out / "results.jsonl", time.perf_counter(), budget
        text = self.path.read_text() if self.path.exists() else ""
        self.lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def find(self, **facts) -> list[dict]:
        return [row for row in self.lines if all(row.get(k) == v for k, v in facts.items())]

    def add(self, row: dict) -> None:
        self.lines.append(row)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
        shown = {k: v for k, v in row.items() if k not in ("rows", "clients")}
        print(json.dumps(shown), flush=True)

    def check_time(self, expected: float) -> None:
        left = self.budget - (time.perf_counter() - self.began)
        if expected > left:
            print(f"{left:.0f} s are left, and a run takes about {expected:.0f}: stopping here")
            sys.exit(0)


def run(log: Log, facts: dict, name: str, method, posed, held, rounds: int, seed: int) -> None:
    """One run, as one line."""
    alike = log.find(**facts, method=name)
    log.check_time(min((row["wall"] for row in alike), default=60.0))
    began = time.perf_counter()
    try:
        result = fl.simulate(
            method, posed, held, rounds=rounds, batch_size=BATCH, seed=seed, metrics=("accuracy",),
            eval_every=-(-rounds // 5), progress=False,
        )  # fmt: skip
    except fl.DivergedError as error:
        result = error.result
    log.add(
        facts | {
            "method": name, "lr": method.lr, "seed": seed, "status": result.status,
            "accuracy": result.final["accuracy"], "worst": result.final["accuracy_worst"],
            "seconds": result.final["seconds"], "wall": time.perf_counter() - began,
            "bytes_up": result.final["bytes_up"], "rows": list(result.rows),
            "clients": result.client_metrics["accuracy"].tolist(), "about": result.about,
        }
    )  # fmt: skip


def compare(options) -> None:
    """All methods and seeds of a task, as far as the time goes."""
    import jax

    task = TASKS[options.task]
    own = options.own or ("embedding_bag" if options.task == "ag_news" else "cnn1")
    classes = options.classes or task.classes
    log = Log(options.out, options.budget_seconds)
    passes = options.passes or task.passes
    tuning = min(task.tuning, passes // 2)
    task = dataclasses.replace(task, passes=passes, tuning=tuning)
    facts = {"task": options.task, "classes": classes, "own": own, "passes": passes}
    print(json.dumps({"jax": jax.__version__, "device": str(jax.devices()[0])}), flush=True)
    held = clients(task, dataset(options.task, options.data), classes)
    rounds = round(passes * float(np.mean(held.sizes)) / BATCH / STEPS)
    chosen = options.methods or [m for m in methods(task, task.lr, own) if _fits(m, own)]
    for name in chosen:
        posed = problem(task, own, name)

        for seed in range(options.seeds):
            if not log.find(**facts, method=name, seed=seed):
                method = methods(task, task.lr, own)[name]
                run(log, facts, name, method, posed, held, rounds, seed)


def _fits(method: str, own: str) -> bool:
    """Whether the paper's table for this network has the method."""
    if own == "embedding_bag":
        return method.startswith(("fedavg", "local", "quped"))
    return not (own == "cnn2" and method.startswith("qupel"))


def table(out: Path) -> None:
    """What the lines say, in the form of docs/reproductions/personal.md."""
    logs = [Log(path.parent, 0) for path in sorted(out.glob("**/results.jsonl"))]
    groups: dict[tuple, list[dict]] = {}
    for row in (row for log in logs for row in log.lines):
        if "method" in row:
            key = (row["task"], row["classes"], row["own"], row["passes"])
            groups.setdefault(key, []).append(row)
    for (task, classes, own, passes), rows in groups.items():
        print(f"\n{task}, {classes} classes each, {own}, {passes} passes\n")
        print("| method | rate | accuracy, mean (spread) over seeds | seconds a run | paper |")
        print("| --- | --- | --- | --- | --- |")
        for name in dict.fromkeys(row["method"] for row in rows):
            mine = [row for row in rows if row["method"] == name]
            values = [100 * row["accuracy"] for row in mine]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            paper = PAPER.get((task, classes, own), {}).get(name, "")
            seconds = statistics.fmean(row["seconds"] for row in mine)
            print(
                f"| {name} | {mine[0]['lr']:g} | {statistics.fmean(values):.2f} ({spread:.2f}, "
                f"{len(values)}) | {seconds:.1f} | {paper} |"
            )


def timing(options) -> None:
    """A CIFAR-10 round of 50 clients here, beside a plain PyTorch loop over the clients."""
    log = Log(options.out, options.budget_seconds)
    found = dataset("cifar10", options.data)
    task = TASKS["cifar10"]
    held = clients(task, found, 3)
    rates = {}
    for name in ("fedavg", "quped-2"):
        posed, method = problem(task, "cnn1", name), methods(task, 0.1, "cnn1")[name]
        settings = {"batch_size": BATCH, "eval_every": 10**9, "metrics": (), "progress": False}
        began = time.perf_counter()
        first = fl.simulate(method, posed, held, rounds=1, **settings)
        startup = time.perf_counter() - began
        rounds = 1 + options.rounds
        result = fl.simulate(method, posed, held, rounds=rounds, resume=first, **settings)
        each = (result.final["seconds"] - first.final["seconds"]) / options.rounds
        rates[name] = each
        log.add({"timing": name, "round": each, "startup": startup, "steps": STEPS})
    each = torch_round(held, options.torch_rounds)
    ratio = each / rates["fedavg"]
    log.add({"timing": "torch loop, fedavg", "round": each, "ratio": ratio})


def torch_round(held, rounds: int) -> float:
    """Seconds of a FedAvg round as a loop over clients in PyTorch, data and models on the card."""
    import torch
    from torch import nn

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    parts = [held.of(i) for i in range(len(held))]
    x = [torch.from_numpy(p.x).permute(0, 3, 1, 2).contiguous().to(device) for p in parts]
    y = [torch.from_numpy(p.y).to(device) for p in parts]

    def network() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        ).to(device)  # fmt: skip

    model, loss = network(), nn.CrossEntropyLoss()

    def one_round() -> None:
        trained = []
        for own_x, own_y in zip(x, y, strict=True):
            local = network()
            local.load_state_dict(model.state_dict())
            optimiser = torch.optim.SGD(local.parameters(), 0.1)
            for _ in range(STEPS):
                rows = torch.randint(0, len(own_y), (BATCH,), device=device)
                optimiser.zero_grad()
                loss(local(own_x[rows]), own_y[rows]).backward()
                optimiser.step()
            trained.append(local.state_dict())
        mean = {k: torch.stack([t[k] for t in trained]).mean(0) for k in trained[0]}
        model.load_state_dict(mean)
        if device.type == "cuda":
            torch.cuda.synchronize()

    one_round()
    began = time.perf_counter()
    for _ in range(rounds):
        one_round()
    return (time.perf_counter() - began) / rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=TASKS, default="mnist")
    parser.add_argument("--data", type=Path, default=Path("."))
    parser.add_argument("--out", type=Path, default=Path("runs/personal"))
    parser.add_argument("--methods", nargs="+", metavar="NAME")
    parser.add_argument("--own", choices=("cnn1", "cnn2"), help="the clients' own network")
    parser.add_argument("--classes", type=int, help="classes of each client")
    parser.add_argument("--passes", type=int, help="passes over the rows, in place of the paper's")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget-seconds", type=float, default=540)
    parser.add_argument("--rounds", type=int, default=50, help="rounds of --time")
    parser.add_argument("--torch-rounds", type=int, default=3)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--prepare", action="store_true")
    options = parser.parse_args()
    if options.table:
        table(options.out)
    elif options.prepare:
        prepare(options.task, options.data, options.out)
    elif options.time:
        timing(options)
    else:
        compare(options)


if __name__ == "__main__":
    main()
