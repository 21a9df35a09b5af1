"""The report in a real browser: what a person does with it, without a network."""

import re
import time
from pathlib import Path

import pytest

from fedloom.reports.page import report
from reports import studies
from reports.browser import launching

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

PATIENCE = 120_000  # milliseconds, for machines that have much else to do
playwright.expect.set_options(timeout=PATIENCE)
# Containers may have little shared memory, and let nobody make a sandbox.
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def address(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    robust, sparse = studies.robust(folder / "robust"), studies.sparse(folder / "sparse")
    report([robust, sparse], folder / "report.html")
    return (folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as manager:
        driver = Path(playwright.__file__).parents[1] / "driver"
        try:
            chosen = launching(driver, Path(manager.chromium.executable_path))
            browser = manager.chromium.launch(**chosen, args=ARGUMENTS, timeout=PATIENCE)
        except (LookupError, playwright.Error) as error:
            pytest.skip(f"no browser: {error}")
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def opened(browser, address):
    """Open the page; in the end nothing may have been complained of, asked for or popped up."""
    contexts, complaints, requests = [], [], []

    def open_page(**options):
        context = browser.new_context(offline=True, **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        page.wait_for_selector("html[data-ready=yes]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints
    assert all(url.startswith(("file:", "blob:", "data:")) for url in requests)


@pytest.fixture(scope="module")
def page(opened):
    return opened(viewport={"width": 1280, "height": 800})


def until(page, condition):
    """Wait until an expression holds; the page's own rules forbid the browser to ask by itself."""
    ends = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < ends, condition
        page.wait_for_timeout(50)


def section(page, title, number=0):
    return page.locator("section", has=page.get_by_role("heading", name=title)).nth(number)


def axis_title(part, axis="x"):
    return part.locator(f".{axis}title").text_content()


def test_each_study_shows_the_sections_whose_data_exist(page):
    robust, sparse = page.locator("article").all()
    shared = ["Progress", "How the clients fare", "Who holds what"]
    last = "How to get these numbers again"
    headings = robust.get_by_role("heading", level=3).all_text_contents()
    assert headings == [*shared, "Weights of the clients", last]
    headings = sparse.get_by_role("heading", level=3).all_text_contents()
    extra = ["Which coefficients are kept", "Coefficients", "Sizes of the clients' models"]
    first = ["What was tried", "Progress", "Distance to the solution"]
    assert headings == [*first, *shared[1:], *extra, last]
    assert page.locator(".plot .main-svg").count() >= 10


def test_switching_axis_metric_and_scale_redraws(page):
    part = section(page, "Progress")
    assert (axis_title(part), axis_title(part, "y")) == ("Rounds", "Accuracy, mean over clients")
    for label in ("Bytes sent", "Seconds"):
        part.get_by_text(label, exact=True).click()
        assert axis_title(part) == label
    part.get_by_role("combobox").select_option("loss_worst")
    assert axis_title(part, "y") == "Loss, worst client"
    before = part.locator(".ytick").all_text_contents()
    part.get_by_text("Log", exact=True).click()
    assert part.locator(".ytick").all_text_contents() != before


def test_the_trials_of_a_sweep_stand_against_each_parameter(page):
    part = section(page, "What was tried")
    assert (axis_title(part), axis_title(part, "y")) == ("lr", "Loss, held-out rows")
    assert part.locator(".scatterlayer .point").count() == 3  # the fourth diverged
    part.get_by_role("combobox").select_option("solver")
    assert axis_title(part) == "solver"
    part.get_by_text("Table of the trials").click()
    assert part.get_by_role("cell", name="diverged").is_visible()
    assert part.get_by_role("rowheader", name=studies.HOSTILE).first.is_visible()


def test_hovering_shows_values_and_names(page):
    part = section(page, "Progress")
    part.get_by_text("Rounds", exact=True).first.click()
    part.locator(".nsewdrag").hover()
    playwright.expect(part.locator(".hoverlayer")).to_contain_text(re.compile(r"FedAvg.*\d\.\d"))
    clients = section(page, "How the clients fare")
    clients.get_by_text("Distribution", exact=True).click()
    clients.locator(".trace.boxes .point").nth(2).hover(force=True)
    playwright.expect(clients.locator(".hoverlayer")).to_contain_text(studies.HOSTILE)
    clients.get_by_text("Each client", exact=True).click()
    assert sorted(clients.locator(".ytick").all_text_contents()) == [
        "</script><img src=x…",
        "north",
        "south",
        "west",
    ]


def test_coefficients_stand_by_their_names_with_those_of_sites(page):
    part = page.locator("section", has=page.get_by_role("heading", name="Coefficients", exact=True))
    assert sorted(part.locator(".ytick").all_text_contents()) == [f"x{j}" for j in range(6)]
    assert part.locator(".legendtext").all_text_contents() == [studies.HOSTILE, "south", "hub"]
    part.get_by_text("Table of the coefficients").click()
    columns = part.locator("thead th").all_text_contents()
    assert columns[:2] == ["Feature", "Coefficient"] and "Odds ratio" in columns
    assert "Positive" in columns and part.locator("tbody tr").count() == 7


KEEP = """() => {
  const contents = new Map(), address = URL.createObjectURL;
  window.saved = [];
  URL.createObjectURL = (blob) => {
    const url = address(blob);
    contents.set(url, blob);
    return url;
  };
  HTMLAnchorElement.prototype.click = function () {
    window.saved.push(contents.get(this.href).arrayBuffer()
      .then((content) =>
        [this.download, Array.from(new Uint8Array(content.slice(0, 8))), content.byteLength]));
  };
}"""


def test_every_picture_can_be_saved(opened):
    page = opened(viewport={"width": 1280, "height": 800})
    first = page.locator(".picture").first
    with page.expect_download() as download:
        first.get_by_role("button", name="PNG").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
    page.evaluate(KEEP)  # the browser's own saving is seen once; the others are what it would get
    for number, part in enumerate(page.locator(".picture").all()):
        for format, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
            part.get_by_role("button", name=format).click()
            until(page, "window.saved.length == 1")
            name, content, size = page.evaluate("() => window.saved.pop()")
            assert bytes(content).startswith(start) and size > 2000, number
            assert name.endswith(f".{format.lower()}")


def test_the_theme_follows_the_system_and_the_button(page):
    def grounds():
        return page.evaluate(
            "[getComputedStyle(document.body), document.querySelector('.plot .main-svg').style]"
            ".map((style) => style.backgroundColor)"
        )

    light = grounds()
    page.emulate_media(color_scheme="dark")
    playwright.expect(page.get_by_role("button", name="Light")).to_be_visible()
    dark = grounds()
    assert light[0] != dark[0] and light[1] != dark[1]
    page.get_by_role("button", name="Light").click()
    assert grounds() == light


def test_paper_gets_light_pictures_that_it_has_room_for(opened):
    page = opened(color_scheme="dark")
    look = (
        "[...document.querySelectorAll('.plot .main-svg:first-child')]"
        ".map((svg) => [svg.clientWidth, svg.style.backgroundColor])"
    )
    screen = page.evaluate(look)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(look) == [[620, "rgb(255, 255, 255)"]] * len(screen)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(look) == screen and screen[0][0] > 620
    assert page.evaluate("document.documentElement.dataset.theme") is None


def test_pictures_follow_the_width_of_the_window(opened):
    page = opened()
    sizes = (
        "[...document.querySelectorAll('.plot')]"
        ".map((plot) => [plot.scrollWidth, plot.offsetHeight])"
    )
    before = page.evaluate(sizes)
    page.set_viewport_size({"width": 700, "height": 800})
    drawn = (  # while a picture is drawn anew it has no lines for a moment
        "[...document.querySelectorAll('.plot')]"
        ".every((plot) => plot.querySelector('.main-svg')?.clientWidth < 700)"
    )
    until(page, drawn)
    after = page.evaluate(sizes)
    assert all(width < 700 for width, _ in after)
    assert [height for _, height in after] == [height for _, height in before]


def test_marks_at_one_value_are_all_seen(page):
    part = section(page, "How the clients fare")
    part.get_by_text("Each client", exact=True).click()
    places = part.locator(".scatterlayer .point").evaluate_all(
        "(points) => points.map((point) => point.getAttribute('transform'))"
    )
    assert len(places) == 8 and len(set(places)) == 8


def test_a_phone_needs_no_sideways_scrolling(opened):
    page = opened(**PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_names_are_text(page):
    assert page.locator("img").count() == 0
    page.get_by_text("Table of the clients").first.click()
    assert page.get_by_role("rowheader", name=studies.HOSTILE).first.is_visible()
