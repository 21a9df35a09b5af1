"""One law tried on one case, whatever comes of it."""

from fedloom.checking.authors import line_of_error, meaning
from fedloom.checking.case import Case
from fedloom.checking.laws import Law
from fedloom.checking.verdicts import BrokenLawError, InapplicableError


def broken(law: Law, case: Case) -> tuple[BrokenLawError | None, str]:
    """How a case breaks a law (None if it does not), and what the law looked at.

    An error that comes out of the method's code breaks the law as well, at the author's line.

    Raises:
        InapplicableError: The law says nothing of this method; the message says why.
    """
    try:
        return None, law.holds(case)
    except (InapplicableError, KeyboardInterrupt):
        raise
    except BrokenLawError as error:
        return error, ""
    except Exception as error:
        found = BrokenLawError(meaning(error), line=line_of_error(error, case.method))
        found.__cause__ = error
        return found, ""
