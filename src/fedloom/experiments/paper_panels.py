"""What a panel of a reproduction's picture shows, as `reproductions/papers/*.toml` say it."""

from fedloom.parameters import Rule, flag, names, one_of, param, parametrised
from fedloom.pictures.labels import AXES
from fedloom.rules import number, text, title

PRODUCTS = "products"  # of the parties' columns with a vector, counted from iterations


@parametrised
class Panel:
    """A metric against a cost, for some of the methods."""

    metric: str | None = param(text("accuracy").or_none("the main one"), "the metric", default=None)
    against: str | None = param(
        one_of(*AXES, PRODUCTS).or_none("that of [compare]"), "the cost", default=None
    )
    methods: tuple[str, ...] = param(names(), "the methods; none: all", default=())
    title: str = param(title, "what stands over the panel", default="")
    target: float | None = param(
        number.or_none("the target of [compare] for the main metric"),
        "a level to be drawn",
        default=None,
    )
    early: bool = param(
        flag, "whether first rounds are to be seen: on a logarithmic axis of costs", default=False
    )


panels = Rule(
    lambda v: isinstance(v, list | tuple) and all(isinstance(panel, Panel) for panel in v),
    "a list of tables, one for each panel",
    (),
)
