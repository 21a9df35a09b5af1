"""Fetch the folder of a run, and complete it to what `fedloom run` would have left."""

from pathlib import Path

from fedloom.checksums import write_json
from fedloom.experiments.addresses import beside, networks
from fedloom.experiments.explaining import NOTED, of_the_hub
from fedloom.experiments.folder import RunFolder
from fedloom.experiments.known_code import remember
from fedloom.federation.people.records import Record
from fedloom.federation.people.session import Session
from fedloom.files import write_bytes
from fedloom.measuring.result import Result
from fedloom.reports import page

REPORT = "report.html"


def bring(session: Session, record: Record, job: str, out: Path) -> Result:
    """Fetch the result of a job, and add the settings, coefficients and a report."""
    result = session.fetch(job, out, lambda told: record.end(job, told))
    return whole(result, record, out)


def whole(result: Result, record: Record, out: Path) -> Result:
    """Make a fetched folder whole; one of a run without known settings stays as it is.

    Networks of files go along, so that the folder predicts wherever it is taken.
    """
    if record.settings is None:
        return result
    folder = RunFolder(out, {"settings": record.settings})
    if record.text:
        folder.write_settings(record.text, record.settings)
    else:  # it came from Python
        write_json(out / "settings.json", record.settings, shared=True)
    for network in networks(record.settings):
        if (file := Path(network["file"])).is_file():
            write_bytes(beside(network, out), file.read_bytes(), shared=True)
    result.about["settings"] = record.settings
    remember(record.settings)  # which this person submitted
    if table := of_the_hub(result):
        result.about[NOTED] = table
    folder.finish(result)
    page.report([out], out / REPORT)
    return result
