"""Tables and pictures of docs/reproductions from raw results: `python -m tools.reproductions`.

A page has a table and its picture between `<!-- table NAME -->` and `<!-- end -->`, made anew from
docs/reproductions/raw/NAME.jsonl, which `fedloom reproduce NAME --raw FILE` writes; where that file
is not there, the place says what would make it and what that costs. Between `<!-- h200 TASK -->`,
`<!-- slopes NAME -->` or `<!-- steps NAME -->` and `<!-- end -->` it has a table of
`benchmarks.personal_gpu`, `benchmarks.slopes` or `benchmarks.vertical_steps`. Pictures go to
images/NAME.png, and images/made-from.json says from which raw results each was drawn.
"""

import json
import re
from pathlib import Path

from benchmarks.slope_studies import STUDIES
from fedloom import checksums
from fedloom.experiments import paper_tables, papers, raw_results, reproduction_table, settings
from fedloom.files import write_text
from fedloom.pictures.picture import Picture
from tools import personal_tables, slope_pictures, slope_tables, step_tables
from tools.reproduction_pictures import draw

PAGES = Path(__file__).parents[1] / "docs" / "reproductions"
RAW = PAGES / "raw"
PICTURES = PAGES / "images" / "made-from.json"
_PLACE = re.compile(r"(<!-- (table|h200|slopes|steps) (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def tables_of(page: str) -> str:
    """A page with all its tables made anew."""
    made = {
        "table": table,
        "h200": personal_tables.table,
        "slopes": slope_tables.table,
        "steps": step_tables.table,
    }
    return _PLACE.sub(lambda found: f"{found[1]}{made[found[2]](found[3])}{found[5]}", page)


def table(name: str) -> str:
    """What stands on a page in the place of a reproduction."""
    one = papers.facts(name)
    if not (RAW / f"{name}.jsonl").exists():
        command = f"fedloom reproduce {name} --raw docs/reproductions/raw/{name}.jsonl"
        return f"*No raw results yet: `{command}` makes them (about {papers.took(one)}).*\n"
    raw = raw_results.read(RAW / f"{name}.jsonl")
    target = settings.read(papers.available()[name]).compare.target
    rows = reproduction_table.rows(raw, one, target)
    text = paper_tables.formatted(rows, reproduction_table.cells(rows), "markdown")
    said = reproduction_table.caption(raw, one, target)
    made = f"`{raw.about['command']}`, {raw.about['date']}, {raw.about['seconds_in_rounds']} s "
    made += f"in rounds, {raw.about['machine']}, JAX {raw.about['versions']['jax']}"
    picture = f"![{one.shows}](images/{name}.png)"
    return f"{text}\n*{said} {made}; [raw results](raw/{name}.jsonl).*\n\n{picture}\n"


def sources() -> dict[str, str]:
    """The digest of the raw results from which each picture is to be drawn."""
    studies = [RAW / f"{name}.json" for name in STUDIES]
    files = sorted([*RAW.glob("*.jsonl"), *(path for path in studies if path.exists())])
    return {f"{path.stem}.png": checksums.digest(path.read_bytes()) for path in files}


def picture(name: str) -> Picture:
    """The picture of a reproduction, or of a study of slopes."""
    if name in STUDIES:
        return slope_pictures.draw(name)
    setup = settings.read(papers.available()[name])
    raw = raw_results.read(RAW / f"{name}.jsonl")
    return draw(raw, setup.compare, papers.facts(name), setup.algorithms)


def main() -> None:
    """Make all tables, and the pictures whose raw results have changed."""
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (made := tables_of(text)) != text:
            write_text(page, made, shared=True)
            print(f"{page.name}: tables made anew")
    known = json.loads(PICTURES.read_text(encoding="utf-8")) if PICTURES.exists() else {}
    for file, digest in sources().items():
        if known.get(file) != digest:
            picture(Path(file).stem).save(PAGES / "images" / file)
            print(f"{file}: drawn")
    write_text(PICTURES, json.dumps(sources(), indent=2) + "\n", shared=True)


if __name__ == "__main__":
    main()
