"""The files of a job, as FLARE wants them, and that a job has no others.

FLARE takes whatever lies in a job's folder: configurations in formats that can include files and
packages, variables of the environment in their texts, folders that stay on the disk of a site. So
server and sites take a job with the files that `write_job` writes, byte for byte, and no other job.
"""

import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from fedloom import version
from fedloom.errors import RefusedError
from fedloom.federation.job import Job
from fedloom.files import write_text

SERVER_CLASS = "fedloom.federation.components.ServerSide"
SITE_CLASS = "fedloom.federation.components.SiteSide"
CLASSES = (
    "nvflare.collab.runtime.controller.CollabController",
    "nvflare.collab.runtime.executor.CollabExecutor",
    SERVER_CLASS,
    SITE_CLASS,
)
_SYNC_SECONDS = 60  # within which every site of a job must have started its part
_META = "meta.json"
_SERVER = "config/config_fed_server.json"
_SITE = "config/config_fed_client.json"
_SIGNATURES = (".__nvfl_sig.json", ".__nvfl_submitter.crt")  # which FLARE puts into each folder
_PLAIN = re.compile(r"[\w.+-]{1,40}")  # a version, in which FLARE finds no variable
_MOST = 2**30  # bytes of a job, unpacked


def write_job(job: Job, folder: Path, sites: tuple[str, ...] | None, min_sites: int) -> None:
    """Write the folder that FLARE takes as a job; FLARE waits until enough sites are there."""
    where = ["@ALL"] if sites is None else ["server", *sites]
    write_text(folder / _META, _meta(job.run, where, min_sites))
    write_text(folder / "app" / _SERVER, _server(job.text(), version.__version__))
    write_text(folder / "app" / _SITE, _site())


def check_job(data: bytes) -> None:
    """Refuse a job, as it comes to the server, that is another than `write_job` writes."""
    whole = _unpacked(data)
    if len({path.parts[:1] for path in whole}) != 1:
        raise _refusal("is not one folder")
    files = {PurePosixPath(*path.parts[1:]): text for path, text in whole.items()}
    _check_names(files, (_META, f"app/{_SERVER}", f"app/{_SITE}"))
    meta = _object(files[PurePosixPath(_META)])
    name, least, where = (meta.get(key) for key in ("name", "min_clients", "deploy_map"))
    places = where.get("app") if isinstance(where, dict) else None
    if not isinstance(places, list) or not all(isinstance(text, str) for text in (name, *places)):
        raise _refusal("does not say how it is called, or to which sites it goes")
    if type(least) is not int:
        raise _refusal("does not say how many sites it needs")
    _check_same(files, _META, _meta(str(name), places, least))
    _check_server(files, f"app/{_SERVER}")
    _check_same(files, f"app/{_SITE}", _site())


def check_app(data: bytes) -> None:
    """Refuse the part of a job that comes to a site if it is another than `write_job` writes."""
    files = _unpacked(data)
    _check_names(files, (_SERVER, _SITE))
    _check_same(files, _SITE, _site())


def _check_server(files: Mapping[PurePosixPath, bytes], name: str) -> None:
    parts = _object(files[PurePosixPath(name)]).get("components")
    told = parts[0] if isinstance(parts, list) and parts else None
    given = told.get("args") if isinstance(told, dict) else None
    job, made = (given.get(key) if isinstance(given, dict) else None for key in ("job", "version"))
    if not isinstance(job, str) or not isinstance(made, str) or not _PLAIN.fullmatch(made):
        raise _refusal("does not say what is to be run, and with which version")
    _object(job.encode())  # which begins with a brace, and so stands for no variable
    _check_same(files, name, _server(job, made))


def _unpacked(data: bytes) -> dict[PurePosixPath, bytes]:
    """The files of an archive, by their names."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if sum(entry.file_size for entry in entries) > _MOST:
                raise _refusal(f"is larger than {_MOST} bytes")
            files = {PurePosixPath(entry.filename): archive.read(entry) for entry in entries}
            if len(files) < len(entries):
                raise _refusal("has a file twice")
            return files
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError) as error:
        raise _refusal("is no archive") from error


def _check_names(files: Mapping[PurePosixPath, bytes], names: tuple[str, ...]) -> None:
    wanted = {PurePosixPath(name) for name in names}
    folders = {parent for path in wanted for parent in path.parents}
    for path in files:
        if path not in wanted and (path.name not in _SIGNATURES or path.parent not in folders):
            raise _refusal(f"has a file {str(path)[:200]!r}")
    if not wanted <= files.keys():
        raise _refusal("lacks a file")


def _check_same(files: Mapping[PurePosixPath, bytes], name: str, text: str) -> None:
    if files[PurePosixPath(name)] != text.encode():
        raise _refusal(f"says something of its own in {name}")


def _object(data: bytes) -> dict[str, Any]:
    try:
        told = json.loads(data)
    except ValueError as error:
        raise _refusal("has a text that is no JSON") from error
    if not isinstance(told, dict):
        raise _refusal("has a text that is no object of JSON")
    return told


def _refusal(why: str) -> RefusedError:
    return RefusedError(
        f"the job {why}, and jobs that `fedloom submit` did not write are not taken. Submit the "
        f"run with fedloom, of the version that server and sites have."
    )


def _text(content: Any) -> str:
    return json.dumps(content, indent=2)


def _meta(name: str, where: list[str], min_sites: int) -> str:
    return _text(
        {
            "name": name,
            "resource_spec": {},
            "min_clients": min_sites,
            "deploy_map": {"app": where},
        }
    )


def _server(job: str, made: str) -> str:
    return _text(
        {
            "format_version": 2,
            "task_data_filters": [],
            "task_result_filters": [],
            "components": [
                {"id": "_server", "path": SERVER_CLASS, "args": {"job": job, "version": made}}
            ],
            "workflows": [
                {
                    "id": "controller",
                    "path": CLASSES[0],
                    "args": {"server_obj_id": "_server", "sync_task_timeout": _SYNC_SECONDS},
                }
            ],
        }
    )


def _site() -> str:
    return _text(
        {
            "format_version": 2,
            "task_data_filters": [],
            "task_result_filters": [],
            "components": [{"id": "_client", "path": SITE_CLASS, "args": {}}],
            "executors": [
                {
                    "tasks": ["*"],
                    "executor": {"path": CLASSES[1], "args": {"client_obj_id": "_client"}},
                }
            ],
        }
    )
