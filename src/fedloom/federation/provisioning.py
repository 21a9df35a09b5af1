"""From PROJECT.toml to kits: certificates of one authority, and a folder for each participant.

name = "hospitals"
organisation = "example"
sites = ["berlin", "lyon", "torino"]

[server]
host = "fl.example.org"
port = 8002

[people]
"anna@example.org" = "lead"

[policy]                      # what each site's kit proposes to its owner
methods = ["fedavg", "scaffold"]
problems = ["logistic"]
"""

import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedloom.errors import FederationError, SettingsError
from fedloom.federation.kits import Kit
from fedloom.federation.policy import POLICY
from fedloom.federation.policy_file import policy_text
from fedloom.files import make_private, writable_folder, write_bytes, write_text
from fedloom.hints import closest, needs
from fedloom.parameters import Rule, at_least, names, param, parametrised
from fedloom.rules import text

AUTHORITY = "authority"  # the folder with the project's own certificate authority: keep it secret
CERTIFICATES = "fedloom.federation.certificates.Certificates"
ROLES = ("lead", "project_admin", "org_admin", "member")
_sites = Rule(lambda v: names().holds(v) and len(v) > 0, "a list of names", ["berlin", "lyon"])
_people = Rule(
    lambda v: isinstance(v, Mapping),
    "a table that gives each person a role",
    {"lead@example.org": "lead"},
)
_policy = Rule(lambda v: isinstance(v, Mapping), "a table", {"methods": ["fedavg"]})


@parametrised
class Project:
    """Who takes part in a federation."""

    name: str = param(text("trial"), "name of the project")
    sites: tuple[str, ...] = param(_sites, "names of the sites")
    people: Any = param(_people, "the people, by name or address, each with a role")
    host: str = param(
        text("localhost"),
        "host name or address at which sites reach the server",
        default="localhost",
    )
    port: int = param(at_least(1), "the server's port", default=8002)
    organisation: str = param(
        text("fedloom"), "name of the organisation, for the certificates", default="fedloom"
    )
    policy: Any = param(
        _policy.or_none("that of a site where nothing is allowed"),
        "what the sites' kits propose to their owners",
        default=None,
    )

    def __post_init__(self) -> None:
        for name, role in dict(self.people).items():
            if role not in ROLES:
                raise SettingsError(
                    f"people.{name} must be one of {', '.join(ROLES)}; got {role!r}. "
                    f"{closest(str(role), ROLES)}"
                )


def read_project(path: Path) -> Project:
    """Read PROJECT.toml."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: there is no such project file. Check the path.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}. Correct the file.") from error
    known = ("name", "sites", "organisation", "server", "people", "policy")
    for key in tables:
        if key not in known:
            raise SettingsError(f"{path}: there is no setting {key!r}. {closest(key, known)}")
    for key in ("name", "sites", "people"):
        if key not in tables:
            raise SettingsError(f"{path}: a project needs {key}. Add it.")
    return Project(**tables.pop("server", {}), **tables)


def provision(project: Project, out: Path, *, renew: bool = False) -> list[Kit]:
    """Write the kits that are not there yet; a later call with more sites adds theirs.

    With `renew` the kits that are there get new certificates for the same names and keys, and keep
    everything else. Returns the kits that were written to.
    """
    needs("nvflare", "federate")
    writable_folder(out)
    out = out.resolve()  # the processes of a kit have working directories of their own
    if renew and not (out / AUTHORITY).exists():
        raise FederationError(
            f"{out / AUTHORITY} is not there, and no other authority can renew certificates. Give "
            f"--out the folder in which the kits were made."
        )
    if not out.exists():
        out.mkdir(0o700, parents=True)  # all kits lie in it until they are handed out
    made = _build(project, out / AUTHORITY, renew)
    kits = [Kit(out / "server", "server", project.host, project.organisation, project.name)]
    kits += [Kit(out / n, "site", n, project.organisation, project.name) for n in project.sites]
    kits += [
        Kit(out / name, "person", name, project.organisation, project.name, role)
        for name, role in dict(project.people).items()
    ]
    fresh = [kit for kit in kits if not kit.path.exists()]
    for kit in fresh:
        make_private(made / kit.name)
        shutil.move(made / kit.name, kit.path)
        kit.write_card()
        if kit.role == "site":
            write_text(kit.path / POLICY, policy_text(project.policy or {}))
    renewed = [kit for kit in kits if kit not in fresh] if renew else []
    for kit in renewed:
        for file in _certificates(made / kit.name):
            write_bytes(kit.path / "startup" / file.name, file.read_bytes())
    shutil.rmtree(made)
    return fresh + renewed


def _certificates(kit: Path) -> list[Path]:
    """What of a kit expires."""
    return [*(kit / "startup").glob("*.crt"), kit / "startup" / "rootCA.pem"]


def _build(project: Project, authority: Path, renew: bool) -> Path:
    """Let FLARE make the kits; returns the folder that holds them."""
    from nvflare.lighter.constants import CtxKey
    from nvflare.lighter.prov_utils import prepare_builders
    from nvflare.lighter.provision import prepare_project
    from nvflare.lighter.provisioner import Provisioner

    description = _description(project, renew)
    authority.mkdir(0o700, parents=True, exist_ok=True)  # before there are keys in it
    try:
        builders = prepare_builders(description)
        context = Provisioner(str(authority), builders).provision(
            prepare_project(description), logger=_Quiet()
        )
    except (ValueError, RuntimeError) as error:
        raise FederationError(
            f"project {project.name!r} cannot be provisioned: {error}. Correct the project file."
        ) from error
    if context.get(CtxKey.BUILD_ERROR):
        raise FederationError(
            f"project {project.name!r} cannot be provisioned: FLARE failed. See above."
        )
    make_private(authority)
    return Path(context[CtxKey.CURRENT_PROD_DIR])


def _description(project: Project, renew: bool) -> dict[str, Any]:
    """The project as FLARE wants it."""
    common = {"org": project.organisation}
    server = {"name": project.host, "type": "server", "fed_learn_port": project.port, **common}
    sites = [{"name": name, "type": "client", **common} for name in project.sites]
    people: Mapping[str, str] = project.people
    admins = [{"name": n, "type": "admin", "role": r, **common} for n, r in people.items()]
    impl = "nvflare.lighter.impl"
    return {
        "api_version": 3,
        "name": project.name,
        "description": f"fedloom: {project.name}",
        "participants": [server, *sites, *admins],
        "builders": [
            {"path": f"{impl}.workspace.WorkspaceBuilder", "args": {}},
            {
                "path": f"{impl}.static_file.StaticFileBuilder",
                "args": {"config_folder": "config", "scheme": "tcp"},
            },
            {"path": CERTIFICATES, "args": {"renew": renew}},
            {"path": f"{impl}.signature.SignatureBuilder", "args": {}},
        ],
    }


class _Quiet:
    """FLARE's provisioner wants to tell what it does."""

    def debug(self, text: str) -> None:
        """Nothing."""

    info = warning = debug

    def error(self, text: str) -> None:
        """What went wrong must be seen."""
        print(text)
