"""How well do FedAvg and SCAFFOLD do with a fifth of the clients malicious?

    python -m benchmarks.poison [--partition dirichlet] [--out FILE]

The bundled digits, odd against even, over 20 clients, of which 4 are malicious. For each method,
rule and attack one JSON line with loss and accuracy on the test rows (null: it diverged), then a
table of the losses for each method. A model that knows nothing has a loss of 0.693.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fedloom as fl
from fedloom import aggregators as rules
from fedloom.data.clients import Clients
from fedloom.protocol import Algorithm
from fedloom.rows import Rows

CLIENTS, MALICIOUS, ROUNDS = 20, 4, 100
METHODS = {
    "FedAvg": fl.algorithms.FedAvg(lr=0.1, local_steps=5),
    "SCAFFOLD": fl.algorithms.Scaffold(lr=0.1, local_steps=5),
}
RULES = {
    "mean": None,
    "median": rules.Median(),
    "trimmed_mean, share 0.2": rules.TrimmedMean(fraction=0.2),
    "krum, malicious 4": rules.Krum(malicious=MALICIOUS),
    "multi_krum, malicious 4": rules.MultiKrum(malicious=MALICIOUS),
    "geometric_median": rules.GeometricMedian(),
    "centred_clipping, radius 0.3": rules.CentredClipping(radius=0.3),
    "norm_bound, bound 0.3": rules.NormBound(bound=0.3),
}
ATTACKS = {"sign_flip": 10.0, "scaled": 100.0, "same_value": 1e3}  # with their sizes
COLUMNS = ("none", *ATTACKS, "label_flip")
PARTITIONS: dict[str, dict[str, Any]] = {"iid": {}, "dirichlet": {"alpha": 1.0}}


def shared_out(scheme: str) -> Clients:
    """Digits, divided by what they are; a model then tells odd ones from even ones."""
    options = {"clients": CLIENTS, "test_fraction": 0.2, **PARTITIONS[scheme]}
    clients = fl.data.partition(fl.data.load("digits"), scheme, **options)
    train, test = (Rows(rows.x, np.asarray(rows.y) % 2) for rows in (clients.train, clients.test))
    return replace(clients, train=train, test=test, labels=np.array(["even", "odd"]))


def flipped(clients: Clients) -> Clients:
    """The same clients, but that the malicious ones call odd what is even."""
    y = np.array(clients.train.y)
    theirs = slice(0, int(clients.sizes[:MALICIOUS].sum()))
    y[theirs] = 1 - y[theirs]
    return replace(clients, train=Rows(clients.train.x, y))


def measured(method: Algorithm, clients: Clients) -> dict[str, float | None]:
    """Loss and accuracy on the test rows."""
    metrics = ("loss", "accuracy")
    try:
        result = fl.simulate(
            method,
            fl.problems.Logistic(l2=1e-3),
            clients,
            rounds=ROUNDS,
            batch_size=16,
            eval_every=ROUNDS,
            metrics=metrics,
        )
    except fl.DivergedError:
        return dict.fromkeys(metrics)
    return {name: float(f"{result.final[name]:.4g}") for name in metrics}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partition", choices=PARTITIONS, default="iid")
    parser.add_argument("--out", type=Path, help="a file to which the lines are added")
    chosen = parser.parse_args()
    honest = shared_out(chosen.partition)
    tables: dict[str, list[str]] = {}
    for name, method in METHODS.items():
        for rule, aggregator in RULES.items():
            robust = method if aggregator is None else fl.algorithms.Robust(method, aggregator)
            cells = []
            for attack in COLUMNS:
                told: Algorithm = robust
                if attack in ATTACKS:
                    share = MALICIOUS / CLIENTS
                    told = fl.algorithms.Poisoned(robust, attack, share, ATTACKS[attack])
                clients = flipped(honest) if attack == "label_flip" else honest
                line: dict[str, Any] = {"partition": chosen.partition, "method": name, "rule": rule}
                line |= {"attack": attack, **measured(told, clients)}
                print(json.dumps(line), flush=True)
                if chosen.out:
                    with chosen.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
                cells.append("diverged" if line["loss"] is None else f"{line['loss']:.3g}")
            tables.setdefault(name, []).append(f"| {rule} | {' | '.join(cells)} |")
    for name, rows in tables.items():
        print(f"\n| {name} | {' | '.join(COLUMNS)} |\n|{' --- |' * (len(COLUMNS) + 1)}")
        print("\n".join(rows))


if __name__ == "__main__":
    main()
