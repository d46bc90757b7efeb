"""The source folder that Sphinx reads: the site's own pages and those of docs/, links adapted.

    python site/anchored_site/assemble.py build/site/source

The pages under docs/ stay where they are, so links on a code host keep working. Here each page is
copied to its place on the site, together with other files. Links between pages are adapted, and
long tables of results are folded."""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from anchored_site import api, live, picture, running, summary
from anchored_site.places import ROOT, Place, places

PAGES = ROOT / "site" / "pages"
LONG_TABLE = 12  # rows; longer tables of results are folded
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def assemble(target: Path) -> None:
    """Fill ``target`` with everything that Sphinx reads."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(PAGES, target)
    shutil.copytree(ROOT / "docs" / "images", target / "images")
    known = places()
    for place in known:
        write(target / f"{place.page}.md", adapted(place, known, target))
    for page in target.glob("*/index.md"):
        mine = [place for place in known if place.section == page.parent.name]
        write(page, page.read_text(encoding="utf-8").replace("<!-- pages -->", listed(mine)))
    write(target / "contributing" / "house.svg", picture.house())
    filled = (target / "results/index.md").read_text(encoding="utf-8")
    write(target / "results/index.md", summary.filled(filled))
    for name, text in api.pages().items():
        write(target / "api" / f"{name}.md", text)
    live.write_models(target.parent / "static" / "live")
    with tempfile.TemporaryDirectory() as folder:
        running.run(PAGES / "start.md", Path(folder))
        shutil.copy(Path(folder) / "flats.png", target / "images" / "start.png")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def listed(section: list[Place]) -> str:
    """The list of a section's pages that readers see, and the one that Sphinx needs."""
    stems = [place.page.split("/")[1] for place in section]
    seen = [f"- [](./{s}.md): {p.answers}" for s, p in zip(stems, section, strict=True)]
    seen = [line.removesuffix(": ") for line in seen]
    return "\n".join([*seen, "", "```{toctree}", ":hidden:", "", *stems, "```"])


def adapted(place: Place, known: list[Place], target: Path) -> str:
    """A page's text with links that hold on the site; long tables of results are folded."""
    text = (ROOT / place.source).read_text(encoding="utf-8")
    text = outside_code(text, lambda part: _LINK.sub(lambda m: link(m, place, known, target), part))
    return outside_code(text, folded) if place.section == "results" else text


def outside_code(text: str, change) -> str:
    """``change`` applied to all but fenced code."""
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def link(match: re.Match, place: Place, known: list[Place], target: Path) -> str:
    """One link, seen from the page's place on the site."""
    image, words, address = match.groups()
    if re.match(r"[a-z]+:|#", address):
        return match.group()
    path, _, anchor = address.partition("#")
    there = os.path.normpath(f"{Path(place.source).parent}/{path}")
    here = Path(place.page).parent
    for other in known:
        if other.source == there:
            return f"{image}[{words}]({page_link(other.page, here)}{'#' * bool(anchor)}{anchor})"
    if there == "README.md":
        return f"[{words}]({page_link('index', here)})"
    if not (ROOT / there).is_file():
        return words  # a folder: there is nothing to open
    copied = target / "files" / there
    copied.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / there, copied)
    return f"{image}[{words}]({os.path.relpath(f'files/{there}', here)})"


def page_link(page: str, here: Path) -> str:
    return os.path.relpath(f"{page}.md", here)


def folded(text: str) -> str:
    """Tables of more than LONG_TABLE rows behind a line that opens them."""
    blocks = re.split(r"(\n{2,})", text)
    return "".join(fold(block) for block in blocks)


def fold(block: str) -> str:
    lines = block.strip("\n").split("\n")
    is_table = len(lines) > 2 and lines[0].startswith("|") and re.match(r"^\|[\s|:-]+\|$", lines[1])
    if not is_table or len(lines) - 2 <= LONG_TABLE:
        return block
    head = [cell.strip().replace("`", "") for cell in lines[0].strip("|").split("|")]
    columns = ", ".join(cell for cell in head[1:4] if cell) + (", ..." if len(head) > 4 else "")
    summary_line = f"Table of {len(lines) - 2} rows: {columns}"
    head = f'<details class="fold">\n<summary>{summary_line}</summary>'
    return f"{head}\n\n{block.strip()}\n\n</details>"


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
