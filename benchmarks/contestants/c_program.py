"""A plain C program on one core (fedavg.c), built where there is a C compiler."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import contest
from benchmarks.workloads import Workload, arrays

FLAGS = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]


def built() -> ctypes.CDLL:
    """The program, in memory."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise SystemExit("no C compiler here")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "fedavg.so"
        source = Path(__file__).with_name("fedavg.c")
        subprocess.run([compiler, *FLAGS, source, "-o", library, "-lm"], check=True)
        return ctypes.CDLL(str(library))


def prepare(w: Workload, cores: int | None):
    if w.is_image:
        raise SystemExit("no C program for networks")
    x, y = arrays(w)
    features = w.features[0]
    sign = np.where(y > 0, 1, -1).astype(np.float32)
    model, v, g, total = np.zeros((4, features), np.float32)
    who = np.zeros(w.clients, np.int32)
    held = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, sign, model, v, g, total, who)]
    sizes = map(ctypes.c_int32, (w.clients, w.rows, features, w.cohort, w.steps, w.batch))
    program, given = built(), [*held, *sizes, ctypes.c_float(w.lr)]

    def run(rounds: int) -> None:
        program.run(*given, ctypes.c_int64(rounds), ctypes.c_uint64(1))

    return run


if __name__ == "__main__":
    contest(prepare)
