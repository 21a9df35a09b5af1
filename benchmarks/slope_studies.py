"""Studies for `python -m benchmarks.slopes`: small problems in which one thing is varied.

A series is a line of a table: the same thing measured at several values of what is varied, for
several seeds where there are draws. The slopes that papers state are of upper bounds, so that a
measured one below them agrees with the theory.
"""

from benchmarks import (
    composite_studies,
    minimax_studies,
    personal_collapse,
    personal_studies,
    robust_iterations,
    robust_seconds,
    vertical_head,
    vertical_studies,
)

STUDIES = {
    **personal_studies.STUDIES,
    **personal_collapse.STUDIES,
    **vertical_head.STUDIES,
    **vertical_studies.STUDIES,
    **robust_iterations.STUDIES,
    **robust_seconds.STUDIES,
    **composite_studies.STUDIES,
    **minimax_studies.STUDIES,
}
