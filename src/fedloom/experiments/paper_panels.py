"""What a panel of a reproduction's picture shows, as `reproductions/papers/*.toml` say it."""

from fedloom.parameters import Rule, anything, flag, one_of, param, parametrised
from fedloom.pictures.labels import AXES

PRODUCTS = "products"  # of the parties' columns with a vector, counted from iterations

_names = Rule(
    lambda v: isinstance(v, list | tuple) and all(isinstance(name, str) for name in v),
    "a list of names",
    (),
)


@parametrised
class Panel:
    """A metric against a cost, for some of the methods."""

    metric: str | None = param(anything, "the metric; none: the main one", default=None)
    against: str | None = param(
        one_of(*AXES, PRODUCTS).or_none("that of [compare]"), "the cost", default=None
    )
    methods: tuple[str, ...] = param(_names, "the methods; none: all", default=())
    title: str = param(anything, "what stands over the panel", default="")
    target: float | None = param(
        anything, "a level to be drawn; none: the target of [compare] for the main metric",
        default=None,
    )  # fmt: skip
    early: bool = param(
        flag, "whether first rounds are to be seen: on a logarithmic axis of costs", default=False
    )


panels = Rule(
    lambda v: isinstance(v, list | tuple) and all(isinstance(panel, Panel) for panel in v),
    "a list of tables, one for each panel",
    (),
)
