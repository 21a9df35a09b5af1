"""A browser for the tests of the page: one that is installed, or one that a registry brings.

On x86-64 Linux with npm that is the package @sparticuz/chromium: Chromium's headless shell, with
the libraries and fonts that a bare machine lacks. It needs no root: the archive is checked against
its hash and unpacked by the Node.js inside playwright. Elsewhere playwright gets its own.
"""

import base64
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "153.0.0"
SHA512 = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "msedge")
PATIENCE = 300  # seconds for a download
_INFLATE = """
const { readFileSync, writeFileSync } = require("fs");
for (const path of process.argv.slice(1))
  writeFileSync(path.slice(0, -3), require("zlib").brotliDecompressSync(readFileSync(path)));
"""
_FONTS = "<fontconfig><dir>{}</dir><dir>/usr/share/fonts</dir></fontconfig>"


def launching(driver: Path, own: Path) -> dict:
    """What to launch, for playwright's `launch`.

    Args:
        driver: The folder of playwright's Node.js.
        own: Where playwright keeps a browser of its own, if it has one.

    Raises:
        LookupError: There is no browser, and none could be had; it says why.
    """
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is not None:
        return {"executable_path": found}
    if own.exists():
        return {}
    try:
        npm = shutil.which("npm")
        if npm and sys.platform == "linux" and platform.machine() == "x86_64":
            return _from_npm(npm, driver)
        command = [sys.executable, "-m", "playwright", "install", "chromium"]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        return {}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise LookupError(f"none is installed, nor could one be downloaded: {error}") from None


def _from_npm(npm: str, driver: Path) -> dict:
    folder = Path(__file__).parents[1] / ".cache" / f"chromium-{VERSION}"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            command = [npm, "pack", f"@sparticuz/chromium@{VERSION}", "--silent"]
            subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=PATIENCE)
            (file,) = Path(place).glob("*.tgz")
            archive = file.read_bytes()
            if base64.b64encode(hashlib.sha512(archive).digest()).decode() != SHA512:
                raise ValueError(f"{file.name} is not the file that was expected")
            unpacked = _unpacked(archive, Path(place), driver)
            (unpacked / "fonts.conf").write_text(_FONTS.format(folder / "fonts"))
            try:  # at once, so that an interrupted run leaves nothing half done
                unpacked.rename(folder)
            except OSError:
                if not folder.exists():  # else another process was quicker
                    raise
    files = {"LD_LIBRARY_PATH": folder / "lib", "FONTCONFIG_FILE": folder / "fonts.conf"}
    env = {**os.environ, **{name: str(path) for name, path in files.items()}}
    return {"executable_path": str(folder / "chromium"), "env": env}


def _unpacked(archive: bytes, place: Path, driver: Path) -> Path:
    """The folder in which all parts of the package are, each of them compressed by brotli."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        package.extractall(place, filter="data")
    folder = place / "package" / "bin"
    parts = sorted(folder.glob("*.br"))
    subprocess.run([driver / "node", "-e", _INFLATE, *parts], check=True, timeout=PATIENCE)
    for part in parts:
        part.unlink()
    for part in folder.glob("*.tar"):
        with tarfile.open(part) as inner:
            inner.extractall(folder, filter="data")
        part.unlink()
    (folder / "chromium").chmod(0o755)
    return folder
