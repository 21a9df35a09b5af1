"""FedJAX's `fed_avg` on in-memory data, with its default `for_each_client` backend, `jit`.

One XLA call a local step; clients and batches are drawn by FedJAX's own samplers, without
replacement. FedJAX 0.0.17 still calls `jax.tree_map`, which JAX has renamed: the old name is put
back. Its `pmap` backend, for several devices, needs more that JAX has removed, and is left out.
"""

from benchmarks.contestants.networks import in_haiku
from benchmarks.timing import contest
from benchmarks.workloads import Workload, arrays


def prepare(w: Workload, cores: int | None):
    import fedjax
    import jax
    import numpy as np

    jax.tree_map = jax.tree.map
    x, y = arrays(w)
    y = y.astype(np.int32)
    clients = fedjax.InMemoryFederatedData({i: {"x": x[i], "y": y[i]} for i in range(w.clients)})
    model = _network(w, {"x": x[0, :1], "y": y[0, :1]}) if w.is_image else _logistic(w.features[0])
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        grad_fn=fedjax.model_grad(model),
        client_optimizer=fedjax.optimizers.sgd(w.lr),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(
            batch_size=w.batch, num_epochs=None, num_steps=w.steps
        ),
    )
    sampler = fedjax.client_samplers.UniformGetClientSampler(clients, w.cohort, seed=1)
    state = algorithm.init(model.init(jax.random.PRNGKey(0)))

    def run(rounds: int) -> None:
        nonlocal state
        for _ in range(rounds):
            state, _ = algorithm.apply(state, sampler.sample())
        jax.block_until_ready(state.params)

    return run


def _logistic(features: int):
    import fedjax
    import jax
    import jax.numpy as jnp

    def scores(params, batch, rng=None):
        return batch["x"] @ params

    return fedjax.Model(
        init=lambda rng: jnp.zeros(features),
        apply_for_train=scores,
        apply_for_eval=scores,
        train_loss=lambda batch, s: jax.nn.softplus(jnp.where(batch["y"] > 0, -s, s)),
        eval_metrics={},
    )


def _network(w: Workload, sample_batch):
    import fedjax
    import haiku as hk

    forward = in_haiku(w.name)
    return fedjax.create_model_from_haiku(
        transformed_forward_pass=hk.transform(lambda batch: forward(batch["x"])),
        sample_batch=sample_batch,
        train_loss=lambda b, scores: fedjax.metrics.unreduced_cross_entropy_loss(b["y"], scores),
    )


if __name__ == "__main__":
    contest(prepare)
