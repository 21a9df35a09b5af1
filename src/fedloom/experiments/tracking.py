"""Send each evaluation of a run to a tracker: TensorBoard, MLflow."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fedloom.hints import needs

Row = dict[str, float]
Tracking = contextlib.AbstractContextManager[Callable[[Row], None] | None]
_COSTS = ("bytes_up", "bytes_down", "seconds")


class Tracker(Protocol):
    """Whoever keeps the numbers of one run."""

    def log(self, row: Row) -> None:
        """Keep a row of the history."""

    def close(self, done: bool) -> None:
        """The run has ended, well or not."""


@contextlib.contextmanager
def tracking(
    names: Sequence[str], out: Path, run: str, facts: Mapping[str, Any]
) -> Iterator[Callable[[Row], None] | None]:
    """Open trackers for a run; what is yielded takes each row of its history.

    Args:
        names: Keys of TRACKERS; none: nothing is tracked.
        out: The run folder. TensorBoard's files go to a folder beside it, so that one viewer shows
            all runs; MLflow has its own place (MLFLOW_TRACKING_URI).
        run: The name of the run.
        facts: What the run was, for trackers that keep it.
    """
    open_ones = [TRACKERS[name](out, run, facts) for name in names]
    done = False

    def log(row: Row) -> None:
        for tracker in open_ones:
            tracker.log(row)

    try:
        yield log if open_ones else None
        done = True
    finally:
        for tracker in open_ones:
            tracker.close(done)


class TensorBoard:
    """Event files in `tensorboard/` beside the run folder: `tensorboard --logdir` shows them."""

    def __init__(self, out: Path, run: str, facts: Mapping[str, Any]):
        needs("tensorboardX", "tensorboard")
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(out.parent / "tensorboard" / run))
        self._writer.add_text("run", "\n".join(f"{k}: {v}  " for k, v in facts.items()))

    def log(self, row: Row) -> None:
        """One scalar for each column."""
        for name, value in row.items():
            if name != "round" and value is not None:
                group = "cost" if name in _COSTS else name.partition("_")[0]
                self._writer.add_scalar(f"{group}/{name}", value, int(row["round"]))

    def close(self, done: bool) -> None:
        """Write what is left."""
        self._writer.close()


class MLflow:
    """A run of the experiment "fedloom", wherever MLFLOW_TRACKING_URI says."""

    def __init__(self, out: Path, run: str, facts: Mapping[str, Any]):
        needs("mlflow", "mlflow")
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient()
        known = self._client.get_experiment_by_name("fedloom")
        experiment = known.experiment_id if known else self._client.create_experiment("fedloom")
        self._run = self._client.create_run(experiment, run_name=run).info.run_id
        parameters = [Param(name, str(value)) for name, value in facts.items()]
        self._client.log_batch(self._run, params=parameters)

    def log(self, row: Row) -> None:
        """All columns in one call."""
        import time

        from mlflow.entities import Metric

        now, step = int(time.time() * 1000), int(row["round"])
        kept = [
            Metric(n, float(v), now, step) for n, v in row.items() if n != "round" and v is not None
        ]
        self._client.log_batch(self._run, metrics=kept)

    def close(self, done: bool) -> None:
        """Say how the run ended."""
        self._client.set_terminated(self._run, "FINISHED" if done else "FAILED")


TRACKERS: Mapping[str, Callable[[Path, str, Mapping[str, Any]], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
}
