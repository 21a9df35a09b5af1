"""The pictures of the README, from what `fedloom demo` left: `python -m tools.pictures demo`."""

import argparse
import shutil
import sys
from pathlib import Path

from playwright import sync_api

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
WINDOW = {"width": 1080, "height": 1560}
DRAWING = 2000  # milliseconds in which the page draws its pictures


def main() -> None:
    """Copy the curves of a stop, and take a picture of the page."""
    parser = argparse.ArgumentParser(prog="tools.pictures")
    parser.add_argument("demo", type=Path, help="the folder that `fedloom demo` filled")
    demo = parser.parse_args().demo
    shutil.copyfile(demo / "averaging.png", IMAGES / "digits.png")
    sys.path.insert(0, str(ROOT / "tests"))
    from reports.browser import launching

    with sync_api.sync_playwright() as manager:
        driver = Path(sync_api.__file__).parents[1] / "driver"
        chosen = launching(driver, Path(manager.chromium.executable_path))
        browser = manager.chromium.launch(**chosen, args=["--no-sandbox"])
        page = browser.new_page(viewport=WINDOW)
        page.goto((demo / "report.html").resolve().as_uri())
        page.wait_for_timeout(DRAWING)
        page.screenshot(path=IMAGES / "report.png")
        browser.close()


if __name__ == "__main__":
    main()
