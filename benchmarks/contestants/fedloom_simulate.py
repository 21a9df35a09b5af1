"""fedloom's own `simulate`, through the full protocol."""

from benchmarks.timing import contest
from benchmarks.workloads import Workload, arrays


def prepare(w: Workload, cores: int | None):
    import fedloom as fl

    x, y = arrays(w)
    clients = fl.data.from_arrays(list(zip(x, y, strict=True)))
    problem = (
        fl.problems.Supervised(fl.models.CNN((16, 32), (128,)))
        if w.is_image
        else fl.problems.Logistic()
    )
    method = fl.algorithms.FedAvg(lr=w.lr, local_steps=w.steps, cohort=w.cohort)

    def run(rounds: int) -> None:
        nonlocal result
        done = 0 if result is None else int(result.state.round)
        result = fl.simulate(
            method, problem, clients, rounds=done + rounds, batch_size=w.batch,
            eval_every=10**9, metrics=(), resume=result, devices=cores,
        )  # fmt: skip

    result = None
    return run


if __name__ == "__main__":
    contest(prepare)
