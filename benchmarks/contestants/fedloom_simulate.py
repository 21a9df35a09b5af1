"""fedloom's own `simulate`, through the full protocol.

With `--free` XLA may choose kernels by timing them, so that two compilations may round differently;
with `--bfloat16` networks are computed in such numbers.
"""

from benchmarks.timing import contest
from benchmarks.workloads import Workload, arrays


def prepare(w: Workload, cores: int | None, free: bool = False, bfloat16: bool = False):
    import fedloom as fl

    x, y = arrays(w)
    clients = fl.data.from_arrays(list(zip(x, y, strict=True)))
    numbers = "bfloat16" if bfloat16 else None
    problem = (
        fl.problems.Supervised(_network(w.name), compute=numbers)
        if w.is_image
        else fl.problems.Logistic()
    )
    method = fl.algorithms.FedAvg(lr=w.lr, local_steps=w.steps, cohort=w.cohort)

    def run(rounds: int) -> None:
        nonlocal result
        done = 0 if result is None else int(result.state.round)
        result = fl.simulate(
            method, problem, clients, rounds=done + rounds, batch_size=w.batch,
            eval_every=10**9, metrics=(), resume=result, devices=cores, deterministic=not free,
        )  # fmt: skip

    result = None
    return run


def _network(name: str):
    import jax

    import fedloom as fl
    from fedloom.models import layers

    if name.startswith("W2"):
        return fl.models.CNN((16, 32), (128,))
    if name == "ResNet-20":
        return fl.models.ResNet()

    def create(key, spec):
        keys = jax.random.split(key, 4)
        return {
            "conv": [
                layers.conv_init(keys[0], 3, 3, 32, spec.dtype, "glorot"),
                layers.conv_init(keys[1], 3, 32, 64, spec.dtype, "glorot"),
            ],
            "dense": [
                layers.dense_init(keys[2], 14 * 14 * 64, 128, spec.dtype, "glorot"),
                layers.dense_init(keys[3], 128, spec.classes, spec.dtype, "glorot"),
            ],
        }

    def call(arrays, x):
        first, second = arrays["conv"]
        x = jax.nn.relu(layers.conv(first["weights"], x, 3, 0) + first["bias"])
        x = layers.conv_pool(second, x, 3, 0)
        hidden = jax.nn.relu(layers.dense(arrays["dense"][0], x.reshape(x.shape[0], -1)))
        return layers.dense(arrays["dense"][1], hidden)

    return fl.models.Pair(create, call)


if __name__ == "__main__":
    contest(prepare, "free", "bfloat16")
