"""The same rounds in JAX written by hand for each workload: what the hardware gives without us."""

import math

from benchmarks.timing import contest
from benchmarks.workloads import Workload, arrays


def prepare(w: Workload, cores: int | None):
    import jax
    import jax.numpy as jnp
    import numpy as np

    x, y = arrays(w)
    x = jnp.asarray(x.reshape(-1, *w.features))
    y = jnp.asarray(y.reshape(-1))
    golden = np.uint32(0x9E3779B9)

    def mix(h):
        h = (h ^ (h >> 16)) * np.uint32(0x7FEB352D)
        h = (h ^ (h >> 15)) * np.uint32(0x846CA68B)
        return h ^ (h >> 16)

    def below(words, n):
        return (((words >> 16) * np.uint32(n)) >> 16).astype(np.int32)

    def batch(round, client, step):
        key = mix(mix(mix(round + golden) + client.astype(np.uint32)) + step.astype(np.uint32))
        words = mix(key + jnp.arange(w.batch, dtype=np.uint32) * golden)
        return client * w.rows + below(words, w.rows)

    def cohort(round):
        if w.cohort == w.clients:
            return jnp.arange(w.clients)
        start = below(mix(round * golden), w.clients)  # a stride that is prime to the number
        return (start + jnp.arange(w.cohort) * 7919) % w.clients

    if w.is_image:
        model, loss = _cnn(jax, jnp)
    else:
        model = jnp.zeros(w.features)

        def loss(model, x, y):
            return jnp.mean(jax.nn.softplus(jnp.where(y > 0, -1.0, 1.0) * (x @ model)))

    def client(model, id, round, x, y):
        def step(v, k):
            rows = batch(round, id, k)
            grad = jax.grad(loss)(v, x[rows], y[rows])
            return jax.tree.map(lambda a, g: a - w.lr * g, v, grad), None

        return jax.lax.scan(step, model, jnp.arange(w.steps))[0]

    def one_round(model, round, x, y):
        ids = cohort(round)
        if w.is_image:
            trained = jax.lax.map(lambda id: client(model, id, round, x, y), ids)
        else:
            trained = jax.vmap(lambda id: client(model, id, round, x, y))(ids)
        return jax.tree.map(lambda a: a.mean(0), trained)

    options = None if w.is_image else {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}

    def block(model, start, stop, x, y):
        body = lambda r, m: one_round(m, r.astype(np.uint32), x, y)  # noqa: E731
        return jax.lax.fori_loop(start, stop, body, model)

    block = jax.jit(block, compiler_options=options)

    def run(rounds: int) -> None:
        nonlocal model
        for start in range(0, rounds, 50):
            model = block(model, start, min(start + 50, rounds), x, y)
        jax.block_until_ready(model)

    return run


def _cnn(jax, jnp):
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = [(9, 16), (144, 32), (7 * 7 * 32, 128), (128, 10)]
    model = [
        (jax.random.normal(k, s) * math.sqrt(2 / s[0]), jnp.zeros(s[1]))
        for k, s in zip(keys, shapes, strict=True)
    ]

    def conv(x, weights):
        rows, height, width, channels = x.shape
        x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        patches = jnp.concatenate(
            [x[:, i : i + height, j : j + width] for i in range(3) for j in range(3)], -1
        )
        return (patches.reshape(-1, 9 * channels) @ weights).reshape(rows, height, width, -1)

    def pool(x):
        rows, height, width, channels = x.shape
        return x.reshape(rows, height // 2, 2, width // 2, 2, channels).max((2, 4))

    def loss(model, x, y):
        for weights, bias in model[:2]:
            x = pool(jax.nn.relu(conv(x, weights) + bias))
        x = x.reshape(x.shape[0], -1)
        x = jax.nn.relu(x @ model[2][0] + model[2][1])
        scores = x @ model[3][0] + model[3][1]
        chosen = jnp.take_along_axis(scores, y[:, None], 1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(scores, -1) - chosen)

    return model, loss


if __name__ == "__main__":
    contest(prepare)
