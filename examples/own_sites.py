"""Files of three sites: prepare them federatedly, train over unreliable clients, predict."""

from pathlib import Path

import numpy as np
import polars as pl

import fedloom as fl

rng = np.random.default_rng(0)
folder = Path("sites")
folder.mkdir(exist_ok=True)
for place, site in enumerate(("north", "south", "west")):
    rows = 60 + 40 * place
    age, job = rng.normal(40 + 5 * place, 10, rows), rng.choice(["cook", "nurse", "clerk"], rows)
    ill = np.where(age + 12 * (job == "nurse") + rng.normal(0, 4, rows) > 48, "ill", "well")
    age[rng.random(rows) < 0.1] = np.nan
    pl.DataFrame({"age": age, "job": job, "health": ill}).write_csv(folder / f"{site}.csv")

clients = fl.preparation.SiteFiles("sites", label="health", test_fraction=0.25).clients()
problem = fl.problems.Logistic(intercept=True)
method = fl.algorithms.Unreliable(fl.algorithms.Scaffold(lr=0.3), drop=0.2)
result = fl.simulate(method, problem, clients, rounds=60, eval_every=20)
print(result.clients)
new = pl.DataFrame({"age": [25.0, None, 60.0], "job": ["clerk", "nurse", "pilot"]})
print(fl.predict(result, new, problem=problem))
