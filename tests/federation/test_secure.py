"""Secure sums: exact on their grid whoever drops out, and a single reply says nothing."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from federation.members import letter, members, secure_sum
from fedloom import protocol
from fedloom.algorithms.averaging.fedavg import FedAvg
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.cli.explain import describe
from fedloom.errors import ProtocolError, RefusedError, UnopenedError
from fedloom.exchange.expected import expected_exchanges
from fedloom.exchange.hub import Hub, Letter
from fedloom.exchange.in_process import Local
from fedloom.exchange.secure import grid, masks, shamir
from fedloom.exchange.secure.circle import threshold
from fedloom.exchange.secure.hub import SecureHub
from fedloom.exchange.secure.member import Member
from fedloom.exchange.secure.sums import SummedReplies, sums_of, why_not
from fedloom.exchange.site import Site
from fedloom.population import alone, assemble, know
from fedloom.protocol import Ask, Cohort, Replies
from laws.trials import ALL, BATCH, ROUNDS, run, trial
from tiers import in_turn


@given(st.binary(min_size=32, max_size=32), st.integers(1, 6), st.data())
def test_any_threshold_of_shares_gives_the_secret_back(secret, needed, data):
    members = range(6)
    shares = shamir.split(secret, members, needed)
    some = data.draw(st.sets(st.sampled_from(list(members)), min_size=needed))
    assert shamir.join({id: shares[id] for id in some}, 32) == secret


def test_fewer_shares_do_not():
    secret = masks.new_key()
    shares = shamir.split(secret, range(5), 3)
    few = shamir.join({id: shares[id] for id in (0, 1)}, 66)
    assert few[-32:] != secret


def test_both_owners_of_a_seed_find_it_and_nobody_else():
    one, two, other = masks.new_key(), masks.new_key(), masks.new_key()
    seed = masks.agree(one, masks.public(two), "mask")
    assert seed == masks.agree(two, masks.public(one), "mask")
    assert seed != masks.agree(one, masks.public(two), "share")
    assert seed != masks.agree(other, masks.public(two), "mask")


def test_the_grid_is_fine_and_has_an_end():
    values = np.array([1.5, -2.25, 1e-9, 0])
    assert np.abs(grid.from_ring(grid.to_ring(values)) - values).max() <= 2.0**-33
    largest = np.full(2, np.nextafter(grid.limit(5), 0))
    assert grid.fits(largest, 5)
    total = np.sum([grid.to_ring(largest)] * 5, axis=0, dtype=np.uint64)
    assert grid.from_ring(total) == pytest.approx(5 * largest)
    for bad in (grid.limit(5), -1e10, np.nan, np.inf, -np.inf):
        assert not grid.fits(np.array([0.0, bad]), 5)


VECTORS = np.random.default_rng(3).normal(size=(7, 40)) * 100
DROPS = {
    "nobody": ({}, {0, 1, 2, 3, 4, 5, 6}),
    "one before its answer": ({"masked": {2}}, {0, 1, 3, 4, 5, 6}),
    "two before their answers": ({"masked": {0, 3}}, {1, 2, 4, 5, 6}),
    "one before it shared": ({"shares": {4}}, {0, 1, 2, 3, 5, 6}),
    "one after its answer": ({"agree": {1}}, {0, 1, 2, 3, 4, 5, 6}),
    "two after their answers": ({"agree": {1}, "unmask": {2}}, {0, 1, 2, 3, 4, 5, 6}),
    "one before and one after": ({"masked": {0}, "unmask": {4}}, {1, 2, 3, 4, 5, 6}),
    "one before all": ({"keys": {2}, "masked": {0}}, {1, 3, 4, 5, 6}),
}


@pytest.mark.parametrize("leave,counted", DROPS.values(), ids=DROPS)
def test_the_sum_is_exact_on_the_grid(leave, counted, tmp_path):
    arrived, total, _ = secure_sum(tmp_path, VECTORS, leave)
    assert set(arrived) == counted
    steps = np.rint(VECTORS[sorted(counted)] * 2.0**grid.BITS).astype(np.int64).sum(0)
    np.testing.assert_array_equal(np.rint(total * 2.0**grid.BITS).astype(np.int64), steps)


@pytest.mark.parametrize("phase", ["keys", "shares", "masked", "agree", "unmask"])
def test_with_too_few_left_there_is_no_sum(phase, tmp_path):
    with pytest.raises(UnopenedError, match=r"and a secure sum needs"):
        secure_sum(tmp_path, VECTORS, {phase: {0, 1, 2} if phase != "keys" else {0, 1, 2, 3, 4}})


def test_single_masked_replies_look_uniform(tmp_path):
    """Every byte of a masked reply to a constant is spread evenly, and no two replies are alike."""
    constant = np.full((3, 20_000), 1.0)
    _, total, transport = secure_sum(tmp_path, constant, {})
    np.testing.assert_array_equal(total, 3.0)
    replies = [np.frombuffer(data, np.uint8) for data in transport.seen["masked"].values()]
    for reply in replies:
        for place in range(8):
            counts = np.bincount(reply[place::8], minlength=256)
            assert stats.chisquare(counts).pvalue > 1e-6
        words = reply.view(np.uint64) / 2.0**64
        assert stats.kstest(words, "uniform").pvalue > 1e-6
        assert len(np.unique(words)) == len(words)


def member(folder):
    return members(folder, 1, [1.0], {"round": (("plain",),)}, [lambda letter: np.zeros(2)])[0]


def test_phases_come_in_order_and_once(tmp_path):
    site = member(tmp_path)
    with pytest.raises(RefusedError, match="'unmask' of a secure sum is not due"):
        site.reply_to(letter("unmask"))
    with pytest.raises(RefusedError, match="'' of a secure sum is not due"):
        site.reply_to(letter(""))  # a plain letter would give the reply away
    site.reply_to(letter("keys"))
    with pytest.raises(RefusedError, match="'masked' of a secure sum is not due; it is shares"):
        site.reply_to(letter("masked"))


def test_false_shares_spoil_the_sum_and_not_the_hub(monkeypatch, tmp_path):
    """A wrong share gives a secret that is too long, all but surely."""
    original = Member._unmask

    def lie(self, letter):
        told = json.loads(original(self, letter))
        return json.dumps(
            {id: share * 3**200 % shamir.PRIME for id, share in told.items()}
        ).encode()

    monkeypatch.setattr(Member, "_unmask", lie)
    with pytest.raises(UnopenedError, match="do not fit together"):
        secure_sum(tmp_path, VECTORS, {})


@pytest.mark.parametrize("junk", [b"[]", b"3", b"null", b'"x"', b"{}", b"\xff", b"[" * 5000])
@pytest.mark.parametrize("phase", ["_keys", "_shares", "_unmask"])
def test_a_member_that_sends_junk_drops_out_alone(phase, junk, monkeypatch, tmp_path):
    original = getattr(Member, phase)

    def told(self, letter):
        said = original(self, letter)
        return junk if self.id == 2 else said

    monkeypatch.setattr(Member, phase, told)
    arrived, _, _ = secure_sum(tmp_path, VECTORS, {})
    assert set(arrived) == ({0, 1, 3, 4, 5, 6} if phase != "_unmask" else set(range(7)))


def test_two_members_are_too_few(tmp_path):
    with pytest.raises(UnopenedError, match="2 sites sent their keys, and a secure sum needs 3"):
        secure_sum(tmp_path, VECTORS[:2], {})


def test_two_groups_that_suffice_share_more_than_a_third():
    assert [threshold(n) for n in (3, 4, 5, 6, 7, 10)] == [3, 3, 4, 5, 5, 7]
    for n in range(3, 200):
        assert 2 * threshold(n) - n > n // 3


class Secure(Local):
    """Sites that take part in secure sums, inside one process."""

    def __init__(self, folder, sites, fed, sums):
        super().__init__(sites)
        weights = [float(weight) for weight in fed.weights]
        self.members = members(folder, len(sites), weights, sums, [site.answer for site in sites])

    def send(self, letters):
        return {id: self.members[id].reply_to(letter) for id, letter in letters.items()}


FAMILIES = list(dict.fromkeys(entry.family for entry in ALL))


@pytest.mark.parametrize(
    "family", in_turn(FAMILIES, ["averaging", "minimax", "vertical", "wrappers"])
)
def test_a_method_that_uses_sums_only_has_the_same_trajectory(family, double, tmp_path):
    """One of each family; to which methods it applies at all is quick to find out."""
    obstacles = {}
    for entry in (entry for entry in ALL if entry.family == family):
        tried, algorithm = trial(entry.kind), entry.example()
        whole = assemble(tried.problem, tried.clients, BATCH, "float64")
        obstacles[entry.key] = why_not(algorithm, whole)
        if obstacles[entry.key] is None:
            break
    else:
        pytest.skip(f"secure aggregation applies to none: {obstacles}")
    place = (tried.problem, tried.clients)
    sums, fed, expected = (
        sums_of(algorithm, whole),
        know(*place, "float64"),
        expected_exchanges(algorithm, whole),
    )
    sites = [
        Site(i, algorithm, group, expected, seed=0)
        for i, group in enumerate(alone(*place, BATCH, "float64"))
    ]
    names = tried.clients.names
    hub = SecureHub(
        algorithm, fed, expected, Secure(tmp_path, sites, fed, sums), names=names, sums=sums
    )
    hub.open()
    for _ in range(ROUNDS):
        hub.step()
    simulated = run(entry)
    compare = np.asarray(algorithm.model(simulated.state.hub, fed))
    np.testing.assert_allclose(np.asarray(algorithm.model(hub.state, fed)), compare, atol=1e-7)
    assert hub.bytes_up > simulated.final["bytes_up"]  # what it costs is counted


def test_an_exchange_that_does_not_take_place_sums_to_zero():
    tried, algorithm = trial("smooth"), CATALOGUE["fedavg"].example()
    whole = assemble(tried.problem, tried.clients, BATCH, "float32")
    expected = expected_exchanges(algorithm, whole)
    sums = {"round": (("plain", "weighted"),)}
    hub = SecureHub(algorithm, whole.fed, expected, None, names=tried.clients.names, sums=sums)
    nobody = Ask(np.zeros(3), Cohort(np.arange(4), np.ones(4, bool)), "train", when=False)
    sums = hub._exchange(nobody, expected["round"][0], round=1, exchange=1, ages={})
    for found in (sums.sum(), sums.sum(whole.fed.weights)):
        np.testing.assert_array_equal(found, np.zeros(3))


def test_sums_reduce_as_the_replies_would():
    rng = np.random.default_rng(2)
    weights, value = np.array([0.1, 0.6, 0.05, 0.25]), rng.normal(size=(3, 2))
    cohort = Cohort(np.array([3, 1, 0]), np.array([True, True, False]))
    replies = Replies(value, cohort)
    total = np.asarray(weights[[3, 1]].sum())
    sums = SummedReplies(cohort, replies.sum(), replies.sum(weights), total)
    for way in ("sum", "average", "estimate"):
        np.testing.assert_allclose(
            getattr(sums, way)(weights), getattr(replies, way)(weights), rtol=1e-6
        )


@protocol.algorithm
class Nosy(FedAvg):
    """FedAvg, with a hub that keeps the replies."""

    def round(self, hub, fed, key):
        replies = yield next(super().round(hub, fed, key))
        return hub, replies.value


def test_a_hub_that_looks_at_single_replies_is_found_out():
    tried = trial("smooth")
    whole = assemble(tried.problem, tried.clients, BATCH, "float32")
    assert why_not(CATALOGUE["fedavg"].example(), whole) is None
    with pytest.raises(ProtocolError, match=r"looks at single replies to 'train', by \.value"):
        sums_of(Nosy(lr=0.1), whole)


def test_explain_says_whether_it_applies():
    assert describe(CATALOGUE["fedavg"])["secure_aggregation"] == "applies"
    by_step = describe(CATALOGUE["vertical_gd"])["secure_aggregation"]
    assert by_step.startswith("applies where step is set; otherwise it does not: the hub looks")
    assert describe(CATALOGUE["drfa"])["secure_aggregation"].startswith("does not apply: ")


def test_a_plain_hub_is_not_answered_by_a_secure_site(tmp_path):
    assert issubclass(SecureHub, Hub)
    with pytest.raises(RefusedError):
        member(tmp_path).reply_to(Letter("train", b"", 1, 1, 3, (0, 0)))
