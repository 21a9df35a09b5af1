"""A party that holds columns of people whom other parties hold too: its join, share and metrics.

Its columns and its share of the model stay with it. For metrics it sends its part of the scores,
as it does in the method's own messages.
"""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedloom.data.alignment import places, texts
from fedloom.data.intersection import reply_to
from fedloom.data.parties import Parties
from fedloom.deploy.shares import SHARE, Share, write_share
from fedloom.errors import RefusedError, WireError
from fedloom.exchange import wire
from fedloom.exchange.site import Site
from fedloom.experiments import building
from fedloom.experiments.settings import Settings
from fedloom.federation.policy import Policy
from fedloom.federation.roster import PartyRoster, packed, unpacked
from fedloom.federation.site.protection import protect
from fedloom.operators.blocks import block
from fedloom.population import Fed, Party
from fedloom.preparation import Joining
from fedloom.types import Array

Facts = dict[str, Any]


class ColumnsAtSite:
    """A party's own columns, in a run."""

    def __init__(self, name: str, kit: Path, policy: Policy, settings: Settings):
        self.secure = settings.federation.secure_aggregation
        self.measured = settings.metrics != () and not self.secure
        if self.measured:
            policy.check_exact("all metrics of a vertical run are")
        self.policy = policy
        self.problem: Any = settings.problem
        self.precision = settings.run.precision
        self.batch_size = settings.run.options()["batch_size"]
        self.joining = joining_of(settings)
        self.kept = kit / "shares"
        file = policy.data_of(kit)
        policy.check_id(self.joining.id)
        self.frame = self.joining.read(Path(file))
        self.joining.check_id(file, self.frame)
        policy.check_table(self.joining.columns(self.frame))
        self.ids = texts(name, self.frame[self.joining.id].to_list())

    def hello(self) -> Facts:
        """How many people this party knows."""
        return {"people": len(self.ids)}

    def meet(self, facts: Facts, request: bytes) -> tuple[Facts, bytes]:
        """Help the label party find the people in common."""
        if self.joining.join == "plain":
            self.policy.check_plain_ids()
            return {}, packed(self.ids)
        again, own = reply_to(request, self.ids)
        return {"cut": len(again)}, again + own

    def begin(self, id: int, facts: Facts, body: bytes) -> tuple[Parties, Party, Facts]:
        """Take the rows of the people in common, in their order, and prepare the columns."""
        people, roster = unpacked(body), PartyRoster(**facts)
        if not np.isin(people, self.ids).all() or len(np.unique(people)) < len(people):
            raise WireError("the label party names people whom this party does not know, or twice.")
        if roster.rows < 1 or roster.tested < 0 or roster.rows + roster.tested != len(people):
            raise WireError(f"{roster.rows} and {roster.tested} are not {len(people)} people.")
        self.policy.check_rows(roster.rows)
        joined = self.frame[places(self.ids, people)]
        self.parties = roster.names
        self.preparation = self.joining.prepared(joined, np.arange(roster.rows))
        x = self.preparation.encode("this party's table", joined)
        width = x.shape[1]
        # The widths of others change nothing of what is said, and are not told.
        bare = roster._replace(widths=(width,) * len(roster.names)).bare()
        party = Party(
            self.problem,
            block(x[: roster.rows], self.precision),
            block(x[roster.rows :], self.precision) if roster.tested else None,
            self.problem.share_layout(width, roster.classes, self.precision),
            roster.classes,
            (id,),
            self.batch_size,
        )
        return bare, party, {"width": width}

    def measure(self, site: Site, fed: Fed, facts: Facts, body: bytes) -> tuple[Facts, bytes]:
        """This party's part of the scores, and what its share adds to the objective."""
        if self.secure:
            raise RefusedError("a part of the scores would tell what secure sums hide.")
        if not self.measured:
            raise RefusedError("the settings of the run name no metrics.")
        share, f = self._share(site, facts), site.group.objective(0)
        parts = {"fitted": f.forward(share)}
        if site.group.test is not None:
            parts["tested"] = f.forward_on(site.group.test, share)
        told = {
            "penalty": float(f.penalty(share)),
            "regularisation": float(
                self.problem.regulariser.value(site.group.layout.unravel(share))
            ),
            "zeros": int((share == 0).sum()),
            "size": int(share.size),
        }
        return told, wire.encode(protect(parts, self.policy.clip, self.policy.noise))

    def keep(self, run: str, site: Site, fed: Fed, facts: Facts, body: bytes) -> None:
        """Write this party's share, and how its columns became features, to a file of its own."""
        model = site.group.layout.unravel(self._share(site, facts))
        share = Share(model, tuple(self.parties), self.preparation)
        write_share(self.kept / run / SHARE, share)

    def _share(self, site: Site, facts: Facts) -> Array:
        state = site.state_after(tuple(facts["after"]))
        # What a party deploys is its own share, whatever the hub's slack is.
        return jnp.asarray(site.algorithm.deployed(jnp.zeros(0), state, site.group.objective(0)))


def joining_of(settings: Settings) -> Joining:
    """What [data] says about the join."""
    return building.construct(Joining, settings.tables["data"], settings.place / "data")
