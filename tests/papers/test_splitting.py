"""Split training against its transcriptions, and what its papers say of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.algorithms import CVFL, EFVFL, EGVFL, SplitTraining
from fedloom.exchange.in_process import InProcess
from fedloom.models.base import Pair
from fedloom.operators.compressors import Identity, TopK
from papers import splitting, vertical

DATA = vertical.Columns()
PARTIES = fl.data.from_parties(DATA.blocks, DATA.b)
NAMES = [f"party {i}" for i in range(DATA.n)]
ROUNDS, LR, BATCH = 6, 0.02, 5
KEPT = TopK(30)


def _embedding(key, spec):
    (width,) = spec.features
    return jnp.linspace(-1, 0.8, 2 * width, dtype=spec.dtype).reshape(width, 2)


def _fusion(key, spec):
    (size,) = spec.features
    u = jnp.linspace(-1, 1, 3 * size, dtype=spec.dtype).reshape(size, 3)
    return [u, jnp.linspace(0.5, 1, 3, dtype=spec.dtype)]


SUMMED = fl.problems.Vertical(l2=DATA.l2)
FUSED = fl.problems.Vertical(
    l2=DATA.l2,
    network=Pair(_embedding, lambda w, x: jnp.tanh(x @ w)),
    embedding=2,
    fusion=Pair(_fusion, lambda w, h: (jnp.tanh(h @ w[0]) @ w[1])[:, None]),
)
# What travels in a round of 5 rows of 3 parties, with embeddings of 2 doubles a row: 8 bytes of
# seed, then derivatives of 80 bytes; or the fusion network of 21 numbers, all that came up, labels
# and a place. Of 10 numbers TopK(30) sends 3, each with its place in 4 bytes.
LISTINGS = {
    "split_training": (
        SplitTraining(lr=LR),
        lambda world, *run: splitting.split_training(world, LR, *run),
        (80, 88),
    ),
    "ef_vfl": (
        EFVFL(KEPT, lr=LR),
        lambda world, *run: splitting.ef_vfl(world, LR, *run, 30),
        (36, 88),
    ),
    "cvfl": (
        CVFL(KEPT, lr=LR, local_steps=3),
        lambda world, *run: splitting.cvfl(world, LR, *run, 30, 3),
        (36, 8 + 21 * 8 + 3 * 36 + 5 * 8 + 4),
    ),
}


def simulate(method, problem, rounds=ROUNDS, **options):
    settings = {"batch_size": BATCH, "precision": "float64", "eval_every": rounds, "metrics": ()}
    return fl.simulate(method, problem, PARTIES, rounds=rounds, **settings | options)


def close(got, expected, tolerance=1e-12):
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", LISTINGS)
def test_a_method_follows_its_listing_with_the_bytes_that_it_says_on_both_engines(name, double):
    method, listing, (up, down) = LISTINGS[name]
    result = simulate(method, FUSED)
    w, xs = listing(splitting.Fused(DATA), ROUNDS, BATCH)
    for party, x in zip(NAMES, xs, strict=True):
        close(result.model[party]["network"], x)
    for got, expected in zip(result.model["label party"], w, strict=True):
        close(got, expected)
    assert result.final["bytes_up"] == ROUNDS * DATA.n * up
    assert result.final["bytes_down"] == ROUNDS * DATA.n * down
    network = InProcess(method, FUSED, PARTIES, batch_size=BATCH, precision="float64")
    for _ in range(ROUNDS):
        network.step()
    jax.tree.map(close, network.hub, result.state.hub)
    for site, state in zip(network.sites, result.state.clients, strict=True):
        jax.tree.map(close, site.state, jax.tree.map(lambda leaf: leaf[0], state))
    assert (network.bytes_up, network.bytes_down) == (
        result.final["bytes_up"],
        result.final["bytes_down"],
    )


@pytest.mark.parametrize("name", LISTINGS)
def test_error_feedback_ends_at_the_solution_and_compression_alone_does_not(name, double):
    method, listing, _ = LISTINGS[name]
    close(
        np.concatenate([simulate(method, SUMMED).model[party] for party in NAMES]),
        np.concatenate(listing(splitting.Summed(DATA), ROUNDS, BATCH)[1]),
    )
    far = simulate(method, SUMMED, rounds=4000, batch_size=None).model
    distance = np.linalg.norm(np.concatenate([far[party] for party in NAMES]) - DATA.ridge())
    assert distance > 0.05 if name == "cvfl" else distance < 1e-12


def test_all_are_split_training_where_nothing_is_compressed_and_steps_are_single(double):
    plain = simulate(SplitTraining(lr=LR), FUSED).model
    for method in (CVFL(Identity(), lr=LR, local_steps=1), EFVFL(TopK(100), lr=LR)):
        jax.tree.map(close, simulate(method, FUSED).model, plain)


def test_an_optimiser_remembers_over_rounds_and_over_a_resumption(tmp_path, double):
    method = SplitTraining(lr=LR, optimiser=fl.optimisers.Momentum(momentum=0.9, clip=1e6))
    simulate(method, SUMMED, rounds=2, batch_size=None).save(tmp_path / "half")
    half = fl.load(tmp_path / "half")
    found = simulate(method, SUMMED, batch_size=None, resume=half).model
    a, x, m = DATA.whole, np.zeros(sum(DATA.widths)), np.zeros(sum(DATA.widths))
    for _ in range(ROUNDS):
        m = 0.9 * m + a.T @ (a @ x - DATA.b) + DATA.l2 * x
        x = x - LR * m
    close(np.concatenate([found[party] for party in NAMES]), x)


def test_what_does_not_fit_is_refused_in_words():
    with pytest.raises(fl.FedloomError, match="SplitTraining, CVFL or EFVFL"):
        simulate(EGVFL(step=0.1), FUSED)
    with pytest.raises(fl.FedloomError, match="network must compute the same in training"):
        fl.problems.Vertical(network=fl.models.MLP(hidden=(), dropout=0.5))
    with pytest.raises(fl.FedloomError, match="fusion network takes the outputs of the parties'"):
        fl.problems.Vertical(fusion=fl.models.MLP())
    with pytest.raises(fl.FedloomError, match="'residual' is for methods whose hub keeps"):
        simulate(SplitTraining(lr=LR), SUMMED, metrics=("residual",))
    named = fl.data.from_parties(dict(zip(["label party", *NAMES], DATA.blocks)), DATA.b)  # noqa: B905
    with pytest.raises(fl.FedloomError, match="may be called 'label party'"):
        fl.simulate(SplitTraining(lr=LR), FUSED, named)
