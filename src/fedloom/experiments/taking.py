"""Take models on their own from the folders of runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedloom.checksums import understood
from fedloom.data.clients import Clients
from fedloom.data.normalising import Normalisation
from fedloom.deploy import hub_model, take
from fedloom.deploy.deployed import Deployed
from fedloom.errors import DataError, FedloomError
from fedloom.experiments import building, same_rows, settings
from fedloom.experiments.addresses import CODE, beside, networks
from fedloom.experiments.known_code import admitted
from fedloom.experiments.locations import Admission, Location
from fedloom.experiments.settings import Settings
from fedloom.hints import closest
from fedloom.loading import load
from fedloom.measuring.result import Result
from fedloom.preparation import Preparation
from fedloom.problems import Problem
from fedloom.problems.vertical import LABEL_PARTY

_ALIGNMENT = "alignment"  # of `Result.about`: how the tables of parties were joined


def taken(
    model: Result | Deployed | str | Path,
    *,
    site: str | None = None,
    problem: Problem | None = None,
    trust: Sequence[str] = (),
) -> Deployed:
    """The hub's model of a run, or the one that a site would use.

    The model of a site needs the run's data, as some methods make it from the site's own rows.

    Args:
        model: A result, the folder of a run, or the file of a packed model.
        site: The site's name; None: the hub's model.
        problem: The problem that was solved; by default that of the run's settings.
        trust: Code that may be executed although its settings were not run here.
    """
    found, where = opened(model)
    if isinstance(found, Deployed):
        if site is not None:
            raise DataError(f"{where} is a single model. Give the folder of its run, or no site.")
        return found
    if is_vertical(found):
        raise DataError(
            f"{where} is of a vertical run, whose model consists of a share for each party, and "
            f"not of one that could be taken or exported. Use fedloom predict, or fl.save_shares "
            f"and fl.joint_predict."
        )
    if site is not None:
        return _of_site(found, where, site, trust)
    problem = problem or problem_of(found, where, trust)
    preparation = preparation_of(found)
    if preparation is not None:
        shape = (len(preparation.features),)
        return hub_model(problem, found.model, shape, preparation.classes, preparation)
    # Older folders do not say it, and those of federations.
    rows = found.about.get("kind of rows") or clients_of(found, where, trust).described()
    with understood(Path(where)):
        scaled = Normalisation.from_dict(rows["normalisation"])
        return hub_model(problem, found.model, rows["shape"], rows["labels"], None, scaled)


def opened(model: Result | Deployed | str | Path) -> tuple[Result | Deployed, str]:
    """What is meant, read where it is a path, and what messages call it."""
    return (load(model), str(model)) if isinstance(model, str | Path) else (model, "the result")


def is_vertical(result: Result) -> bool:
    """Whether parties with columns made the model together: from tables, a dataset or arrays."""
    model = result.model if isinstance(result.model, dict) else {}
    parties = set(model) - {LABEL_PARTY}
    # Over a network the parties keep their shares; but then their tables were joined.
    return _ALIGNMENT in result.about or (bool(parties) and parties == set(result.client_names))


def preparation_of(result: Result) -> Preparation | None:
    """How tables become the rows of a run; None where its data were no tables of sites."""
    saved = result.about.get("preparation") or result.about.get("encoding")
    return None if saved is None else Preparation.from_dict(saved)


def problem_of(result: Result, where: str, trust: Sequence[str] = ()) -> Problem:
    """The problem of a run's settings."""
    tables, admit = _tables(result, where, trust)
    place = Location(where, "", ("settings", "problem"), admit)
    return building.problem(tables["problem"], place)


def clients_of(result: Result, where: str, trust: Sequence[str] = ()) -> Clients:
    """The data of a run, read and divided anew as its settings say."""
    clients: Any = _settings(result, where, trust).clients_of(result.about["seed"])
    names = tuple(result.client_names)
    if tuple(clients.names) != names:
        raise DataError(
            f"{where} was run on the sites {', '.join(names)}; its data are now of "
            f"{', '.join(clients.names)}. Put the files back, or give no site."
        )
    if others := same_rows.changed(result.about, same_rows.noted(clients)):
        raise DataError(
            f"{where}: the data have changed since this run: {others}. Put back the data of the "
            f"run, or run its settings anew."
        )
    return clients


def _of_site(result: Result, where: str, site: str, trust: Sequence[str]) -> Deployed:
    names = list(result.client_names)
    if site not in names:
        raise DataError(f"{where} has no site {site!r}. {closest(site, names)}")
    if result.about.get("engine") == "federation":
        raise DataError(
            f"{where} is of a federation, whose sites keep their models: each has its own in its "
            f"kit, models/{result.about.get('run', 'RUN')}.safetensors. Give that file."
        )
    chosen = _settings(result, where, trust)
    methods = {repr(method): method for method in chosen.algorithms.values()}
    method = methods.get(result.about["algorithm"])
    if method is None:
        raise DataError(
            f"{where} was run with {result.about['algorithm']}, which its settings do not have. "
            f"Use fl.deploy.take."
        )
    clients = clients_of(result, where, trust)
    return take(method, chosen.problem, clients, result, names.index(site))


def _settings(result: Result, where: str, trust: Sequence[str]) -> Settings:
    told, admit = _tables(result, where, trust)
    tables = {name: table for name, table in told.items() if name != CODE}
    try:
        return settings.parse(tables, Location(where, "", admit=admit))
    except FedloomError as error:
        raise DataError(f"{where}: its settings cannot be used here: {error}") from error


def _tables(result: Result, where: str, trust: Sequence[str]) -> tuple[dict[str, Any], Admission]:
    """The settings of a run, and which code may be loaded because they name it."""
    tables = result.about.get("settings")
    if not isinstance(tables, dict) or "problem" not in tables:
        raise DataError(
            f"{where} does not say which problem was solved: it has no settings. "
            f"In Python, pass problem=..."
        )
    tables, admit = admitted(tables, where, trust)
    for table in networks(tables):
        kept = beside(table, Path(where))
        if not Path(table["file"]).is_file() and kept.is_file():
            table["file"] = str(kept)  # which the SHA-256 in the settings must fit
    return tables, admit
