"""The walks of `tools/walks.py` do not grow in silence."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = {"fl.simulate": 29, "fedloom run": 56, "a submitted run": 63}


@pytest.fixture(scope="module")
def drawn():
    """The modules of each walk, in a process of its own: what ran before would shorten them."""
    line = [sys.executable, "-m", "tools.walks"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    parts = re.split(r"^(\S.*): \d+ modules, \d+ functions\n", done.stdout, flags=re.M)[1:]
    return {
        name: [line.split()[0] for line in lines.splitlines()]
        for name, lines in zip(parts[::2], parts[1::2], strict=True)
    }


@pytest.mark.parametrize("walk", MOST)
def test_a_walk_enters_no_more_modules_than_before(drawn, walk):
    assert len(drawn[walk]) <= MOST[walk], (
        f"{walk} enters {len(drawn[walk])} modules, and {MOST[walk]} are the most. Let the common "
        f"case ask where it stands whether it needs the new one, which only some runs may; see "
        f"'Three walks' in docs/design.md. Entered: {', '.join(drawn[walk])}."
    )


def test_a_plain_run_leaves_out_what_others_need(drawn):
    special = {"on_disk", "divided_rows", "rounds/crew"}
    special |= {f"simulator/{name}" for name in ("hosts", "lanes", "all_cores", "handing_over")}
    assert not special & {*drawn["fl.simulate"]}
    assert {"simulator/run", "rounds/mapping", "algorithms/averaging/fedavg"} <= {
        *drawn["fl.simulate"]
    }
