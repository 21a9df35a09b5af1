"""The documentation: its examples run, its site builds, its links lead somewhere."""

import ast
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import markdown
import pytest

import fedloom as fl
from fedloom.algorithms.catalogue import CATALOGUE
from fedloom.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
MADE = ("reproductions/index.md", "changelog.md")  # and pages of methods: docs/hooks/pages.py
LONG_NUMBER = re.compile(r"-?\d\.\d{12,}")  # its last digits are those of a machine
FENCE = re.compile(r'```(\w+)(?: title="([^"]+)")?\n(.*?)```', re.DOTALL)


@pytest.mark.parametrize(
    "name",
    [
        *("index.md", "guide.md", "settings.md", "choosing.md", "metrics.md", "own-data.md"),
        *("writing-a-method.md", "checking.md", "extending.md", "taking-away.md", "networks.md"),
    ],
)
def test_the_examples_of_a_page_run_in_their_order(name, tmp_path, monkeypatch, capsys):
    if name == "networks.md":
        pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")  # as wide as the pages show what commands print
    namespace, told = {}, []
    for language, title, code in FENCE.findall((ROOT / "docs" / name).read_text()):
        if title:
            Path(title).write_text(code)
        elif language == "sh":
            for line in code.strip().splitlines():
                program, *arguments = shlex.split(line)
                assert program == "fedloom" and main(arguments) == 0, line
        elif language == "python":
            exec(compile(code, name, "exec"), namespace)
        elif language == "text":
            told.append(code)
    printed = LONG_NUMBER.sub("", capsys.readouterr().out)
    assert all(LONG_NUMBER.sub("", text) in printed for text in told)
    if name == "guide.md":
        made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
        assert {"both.html", "runs/methods/report.html", "pictures", "loss.pdf"} <= made


def test_writing_a_method_explains_every_name_that_it_uses():
    text = (ROOT / "docs" / "writing-a-method.md").read_text()
    code = "\n".join(code for language, _, code in FENCE.findall(text) if language[:2] == "py")
    used = set(re.findall(r"\b(?:fl|fed|f|replies|result|comparison|search)\.\w[\w.]*\w", code))
    table = text.partition("## Every name on this page")[2].partition("\n## ")[0]
    explained = set(re.findall(r"`([^`]+)`", table))
    known = {name for name in used if any(name.startswith(entry) for entry in explained)}
    assert len(used) > 25 and used == known


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        target = unquote(urlsplit(link).path)
        made = target.startswith(("algorithms/", "../algorithms/")) or target in MADE
        if target and not urlsplit(link).scheme and not made:
            assert (page.parent / target).exists(), f"{page.name}: {link}"


class Links(HTMLParser):
    """What a page links to, loads and names."""

    def __init__(self, page):
        super().__init__()
        self.links, self.loads, self.names = [], [], set()
        self.in_text, self.text_links = False, []  # those of the page itself, not of its frame
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.names |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        self.in_text = self.in_text or tag == "article"
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
            self.text_links += [attributes["href"]] if self.in_text else []
        elif tag in ("script", "img", "link") and attributes.get("rel") != "canonical":
            self.loads += filter(None, [attributes.get("src"), attributes.get("href")])

    def handle_endtag(self, tag):
        self.in_text = self.in_text and tag != "article"


def pages_at(page, links):
    """The pages of the site that links of a page lead to."""
    paths = {unquote(urlsplit(link).path) for link in links if not urlsplit(link).scheme}
    return {(page.parent / path).resolve() for path in paths if path.endswith(".html")}


@pytest.fixture(scope="module")
def site(tmp_path_factory, described_once):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")
    out = tmp_path_factory.mktemp("site")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    # In this process, which has described the methods for the tests of `explain` already.
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(out), strict=True))
    return out


def test_every_method_has_a_page_and_is_linked(site):
    index = Links(site / "algorithms" / "index.html").links
    for key, entry in CATALOGUE.items():
        page = (site / "algorithms" / f"{key}.html").read_text()
        assert entry.name in page and "Messages of a round" in page
        assert f'class="nc">{entry.name}</span>' in page and "#source" in page
        assert f"{key}.html" in index
        text = page.partition('<h2 id="listing')[2].partition('<h2 id="source')[0]
        assert "<math" in page.partition('<p class="formula">')[2].partition("</p>")[0]
        assert "<math" in text and "&lt;-" not in text


def test_the_table_of_needs_names_methods_of_every_family(site):
    linked = {Path(link).stem for link in Links(site / "choosing.html").links}
    families = {entry.family for key, entry in CATALOGUE.items() if key in linked}
    assert families == {entry.family for entry in CATALOGUE.values()}


def test_every_page_is_in_the_navigation_and_within_reach_of_the_index(site):
    pages = {page for page in site.rglob("*.html") if page.name != "404.html"}
    index = site / "index.html"
    assert pages_at(index, Links(index).links) | {index} >= pages
    linked = pages_at(index, Links(index).text_links)
    assert linked >= {page for page in site.glob("*.html") if page in pages} - {index}
    found, reached = {index}, set()
    while found - reached:
        page = (found - reached).pop()
        reached.add(page)
        found |= pages_at(page, Links(page).text_links)
    assert pages - reached == set()


def test_the_reference_has_every_public_name(site):
    for page in ("protocol", "cohorts", "local", "problems", "models", "data", "deploy"):
        names = Links(site / "reference" / f"{page}.html").names
        room = getattr(fl, page)
        documented = {name.rpartition(".")[2] for name in names if name.startswith("fedloom.")}
        assert set(room.__all__) <= documented, page
    running = (site / "reference" / "running.html").read_text()
    running += (site / "reference" / "result.html").read_text()
    rooms = {name for name in fl.__all__ if isinstance(getattr(fl, name), ModuleType)}
    assert all(f"fl.{name}" in running for name in set(fl.__all__) - rooms)


def test_the_links_of_the_site_lead_somewhere_and_nothing_is_fetched(site):
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if not parts.scheme:
                target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
                target = target / "index.html" if target.is_dir() else target
                assert target.exists(), f"{page.name}: {link}"
                if parts.fragment and target in pages:
                    assert unquote(parts.fragment) in pages[target].names, f"{page.name}: {link}"
        for load in found.loads:
            parts = urlsplit(load)
            assert not parts.netloc, f"{page.name} loads {load}"
            if not parts.scheme:
                assert (page.parent / unquote(parts.path)).exists(), f"{page.name}: {load}"


def test_the_tests_that_the_page_on_security_names_exist():
    cited = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "security.md").read_text()))
    written = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    assert len(cited) > 50
    assert not [name for name in cited if f"def {name}(" not in written]


def test_no_star_of_a_formula_becomes_emphasis():
    """As in (f(x) - f*) / (f(0) - f*), which has to stand in backticks."""
    texts = {str(page): page.read_text() for page in PAGES}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_":
                texts[f"{path}:{node.lineno}"] = ast.get_docstring(node) or ""
    begins, ends = r"<em>[()|\[\],.=/][^<]*</em>", r"<em>[^<]*\W[a-z]</em>"
    lost = {
        place: re.findall(f"{begins}|{ends}", markdown.markdown(prose, extensions=["tables"]))
        for place, text in texts.items()
        if "*" in (prose := re.sub("```.*?```", "", text, flags=re.DOTALL))
    }
    assert not {place: parts for place, parts in lost.items() if parts}
