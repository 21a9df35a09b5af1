"""The file `policy.toml` of a kit: how it is read, proposed, and told where the rows are."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedloom.errors import ParameterError, SettingsError
from fedloom.federation.policy import POLICY, Policy
from fedloom.files import write_text
from fedloom.hints import closest


def read_policy(kit: Path) -> Policy:
    """The policy of a kit."""
    path = kit / POLICY
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(
            f"{path}: a site needs its policy. Write one; docs/federation.md shows how."
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}. Correct the file.") from error
    known = Policy.__dataclass_fields__
    for key in table:
        if key == "columns":
            raise SettingsError(
                f"{path}: columns is no longer a setting. Say features = [...] for the columns "
                f"that may be learned from, and labels = {{ NAME = [VALUES] }} for those that may "
                f"be predicted."
            )
        if key not in known:
            raise SettingsError(f"{path}: there is no setting {key!r}. {closest(key, known)}")
    try:
        return Policy(**table)
    except ParameterError as error:
        raise SettingsError(f"{path}: {error}") from error


def set_policy(kit: Path, **changes: Any) -> None:
    """Change settings of a policy; the owner's other lines stay."""
    path = kit / POLICY
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    tables = (place for place, line in enumerate(lines) if re.match(r"\s*\[", line))
    end = next(tables, len(lines))  # what stands behind [labels] would be a label
    own, rest = lines[:end], lines[end:]
    for key, value in changes.items():
        if value is not None:
            own = [line for line in own if not re.match(rf"\s*{key}\s*=", line)]
            own.append(_line(key, value))
    write_text(path, "\n".join([*own, *rest]) + "\n")


def set_data(kit: Path, data: Path, test: Path | None = None) -> None:
    """Note in the policy where the site's rows are."""
    set_policy(kit, data=str(data), test=None if test is None else str(test))


def policy_text(proposal: Mapping[str, Any]) -> str:
    """The policy that a fresh kit holds: the project's proposal, for the owner to change."""
    Policy(**proposal)  # a proposal that is none should fail here, not at the sites
    head = "# What this site allows. It is its owner's to change; docs/federation.md says how."
    table = {"methods": [], "problems": [], "features": [], "labels": {}, **proposal}
    return "\n".join([head, *(_line(key, value) for key, value in table.items())]) + "\n"


def _line(key: str, value: Any) -> str:
    return f"{key} = {_in_toml(value)}"


def _in_toml(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = (f"{json.dumps(key)} = {_in_toml(entry)}" for key, entry in value.items())
        return "{ " + ", ".join(entries) + " }"
    return json.dumps(value)  # texts, numbers and lists look the same in TOML
