"""Numbers that fit no secure sum: that there are some is told, and nothing of whose they are."""

import numpy as np
import pytest

from federation.harness import federation, settings
from federation.members import Members, summing, sums_before_judging
from fedloom.errors import UnopenedError
from fedloom.exchange.site import Site
from fedloom.federation.site.protection import protect
from fedloom.federation.site.rows import RowsAtSite

VECTORS = np.random.default_rng(3).normal(size=(7, 40)) * 100


@pytest.mark.parametrize("unfit", [{4}, {0, 2}, set(range(7))], ids=["one", "two", "all"])
@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e12])
def test_whose_numbers_do_not_fit_is_not_told(value, unfit, monkeypatch, tmp_path, caplog):
    """For each site a hub could find out whether they fit, and by bisection how large they are."""
    vectors = VECTORS.copy()
    vectors[list(unfit), 3] = value
    seen = sums_before_judging(monkeypatch)
    transport = Members(tmp_path, vectors, {})
    with pytest.raises(UnopenedError, match=r"the sum could not be opened.* below 3.07e"):
        summing(transport, range(7), 40)
    for phase in ("masked", "agree", "unmask"):
        assert set(transport.seen[phase]) == set(range(7))
    assert len({len(data) for data in transport.seen["masked"].values()}) == 1
    assert caplog.text.count("noise is sent in its place") == len(unfit)
    # Nor is there a sum of those that fit: what is opened is noise in every place.
    fitting = vectors[sorted(set(range(7)) - unfit)].sum(0)
    assert np.abs(seen[0] - fitting).min() > 1


def test_what_does_not_fit_is_the_same_noise_when_asked_again(tmp_path):
    """Differences of two would be what others have said."""
    vectors = VECTORS[:4].copy()
    vectors[1] = np.nan
    parts = []
    for _ in range(2):
        with pytest.raises(UnopenedError, match="the sum could not be opened"):
            summing(Members(tmp_path, vectors, {}), range(4), 40)
        parts.append((tmp_path / "s1" / "sum-1-1").read_bytes())
    assert parts[0] == parts[1]


def test_a_clipped_reply_that_is_not_finite_is_no_zero_in_a_sum(tmp_path):
    """With zeros for all but one, the sum would be the reply of that one."""
    chosen = settings(
        algorithm={"key": "fedavg", "lr": 1e39, "local_steps": 1},
        run={"rounds": 2, "eval_every": 2, "metrics": []},
        federation={"secure_aggregation": True},
    )
    conductor, _ = federation(tmp_path, chosen, clip=1.0)
    conductor.run()
    assert sum("the sum could not be opened" in note for note in conductor.notes) == 2
    reply = {"w": np.array([np.nan, 6e5])}
    assert np.isnan(protect(reply, 0.1, None, summed=True)["w"]).any()
    # Noise makes up for what a reply tells, and that it did not fit would be beyond the budget.
    assert np.isfinite(protect(reply, 0.1, 1.0, summed=True)["w"]).all()


@pytest.mark.parametrize(
    "owner,name", [(Site, "answer"), (RowsAtSite, "measure")], ids=["reply", "metrics"]
)
def test_no_site_tells_that_its_part_failed(owner, name, tmp_path, monkeypatch, caplog):
    """With which words it failed, and that it did, follows from its rows and the hub's model."""
    chosen = settings(
        algorithm={"key": "fedavg", "lr": 0.5, "local_steps": 2},
        run={"rounds": 2, "eval_every": 1},
        federation={"secure_aggregation": True},
    )
    conductor, wires = federation(tmp_path, chosen)
    usual = getattr(owner, name)

    def fail(self, *arguments):
        if self in (wires["lyon"].service._site, wires["lyon"].service._held):
            raise ValueError("could not convert 'Anna Muster'")
        return usual(self, *arguments)

    monkeypatch.setattr(owner, name, fail)
    conductor.run()
    notes = "\n".join(conductor.notes)
    assert "the sum could not be opened" in notes
    assert "lyon" not in notes and "Muster" not in notes
    assert "Anna Muster" in caplog.text  # in the site's own log
