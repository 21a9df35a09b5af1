"""What is asked of the run of a vertical model: predictions for new people, and coefficients.

A simulation has all shares, with how each party's columns became features, in its run folder. Over
a network they stay with the parties.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.checksums import understood
from fedloom.deploy import by_party
from fedloom.deploy.joint import predicted_together
from fedloom.deploy.shares import SHARE, Share, shares_of
from fedloom.errors import DataError
from fedloom.experiments.taking import problem_of
from fedloom.measuring.result import Result
from fedloom.preparation.files import named_files
from fedloom.problems import Problem
from fedloom.problems.vertical import LABEL_PARTY

if TYPE_CHECKING:
    import polars as pl


def predicted_people(
    result: Result,
    where: str,
    tables: Any,
    *,
    problem: Problem | None,
    site: str | None,
    keep: Sequence[str],
    trust: Sequence[str],
) -> "tuple[pl.DataFrame, list[str]]":
    """The predictions for new people, and remarks on the tables.

    Args:
        result: Of a vertical run.
        where: What messages call it.
        tables: A folder or pattern of files that are named as the parties' are, or each party's
            file or frame by the party's name.
        problem: The problem that was solved; None: that of the run's settings.
        site: Refused: there is one model.
        keep: At most the id, which stands before the predictions in any case.
        trust: Code that may be executed although its settings were not run here.
    """
    _refuse_site(site, where)
    unprepared = (
        f"{where} does not say how tables become features: its run was on arrays, or with an older "
        f"fedloom. Use fl.save_shares and, with arrays of features, fl.joint_predict, or run it "
        f"anew on tables."
    )
    shares = _shares(result, where, unprepared)
    if not isinstance(tables, Mapping):
        tables = named_files(str(tables), "predict: DATA")
    if set(tables) != set(result.client_names):
        raise DataError(
            f"{where} is of a vertical run, which needs a table of each of its parties, "
            f"{', '.join(result.client_names)}, as new people are joined by their ids; got "
            f"{', '.join(tables)}. Give a folder, or a pattern in quotes such as 'new/*.csv', of "
            f"files that are named as the parties are."
        )
    tables = {name: tables[name] for name in result.client_names}
    first = shares[next(iter(tables))].preparation
    for name in keep:
        if first is None or name != first.id:
            raise DataError(
                f"predict: keep may name the id alone, which comes first in any case, as the "
                f"columns of a vertical run lie in several tables; got {name!r}. Join the "
                f"predictions with the tables by the id."
            )
    solved: Any = problem or problem_of(result, where, trust)
    return predicted_together(solved, tables, shares, where)


def coefficients_by_party(
    result: Result, where: str, *, site: str | None, local: bool, trust: Sequence[str]
) -> "pl.DataFrame":
    """The coefficients of a linear vertical model, by party and column.

    Args:
        result: Of a vertical run.
        where: What messages call it.
        site: Refused: there is one model.
        local: Refused: no party has labels and all columns.
        trust: Code that may be executed although its settings were not run here.
    """
    _refuse_site(site, where)
    if local:
        raise DataError(
            f"{where} is of a vertical run, in which no party alone has the columns and labels for "
            f"a model. Leave out --local."
        )
    solved: Any = problem_of(result, where, trust)
    by_party.check_linear(solved)
    unnamed = (
        f"{where} does not say what the columns of its parties are called: its run was on arrays, "
        f"or with an older fedloom. fl.load(FOLDER).model has each party's coefficients in the "
        f"order of its columns; for names, run it anew on tables."
    )
    return by_party.coefficients(solved, _shares(result, where, unnamed))


def _shares(result: Result, where: str, unprepared: str) -> dict[str, Share]:
    """All shares, of parties with tables; `unprepared` is said where their features had none."""
    if result.about.get("engine") == "federation":
        run = result.about.get("run", "RUN")
        raise DataError(
            f"{where} is of a federation, whose parties keep their shares: each has its own in its "
            f"kit, shares/{run}/{SHARE}, and the label party's is in that of the server. If all "
            f"agree, bring them to FOLDER/PARTY/{SHARE} and FOLDER/{LABEL_PARTY}/{SHARE}, and use "
            f"fl.joint_predict."
        )
    with understood(Path(where)):
        shares = shares_of(result)
    if LABEL_PARTY not in shares or shares[LABEL_PARTY].labels is None:
        raise DataError(unprepared)
    return shares


def _refuse_site(site: str | None, where: str) -> None:
    if site is not None:
        raise DataError(
            f"{where} is of a vertical run, whose parties have one model together; got the site "
            f"{site!r}. Leave it out."
        )
