"""The site's pages before Sphinx reads them: places, links, folds, code and the picture."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from anchored_site import assemble, picture, running, summary
from anchored_site.places import ROOT, places

GALLERY = sorted((ROOT / "examples" / "gallery").glob("*.py"))
PAGES = sorted(assemble.PAGES.rglob("*.md"))


def test_every_page_of_the_docs_has_one_place():
    known = places()
    assert {place.source for place in known} >= {
        f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")
    }
    assert len({place.page for place in known}) == len(known)
    for place in known:
        assert (assemble.PAGES / place.section / "index.md").is_file(), place


def test_links_follow_the_pages(tmp_path):
    known = places()
    place = next(p for p in known if p.source == "docs/your_table.md")
    text = assemble.adapted(place, known, tmp_path)
    assert "](metrics.md)" in text
    assert "](../how/infinite_width.md)" in text
    assert "](../files/docs/schemas/fit.json)" in text
    assert (tmp_path / "files/docs/schemas/fit.json").is_file()


def test_links_keep_anchors_and_lose_folders(tmp_path):
    known = places()
    place = next(p for p in known if p.source == "CONTRIBUTING.md")

    def changed(text):
        return assemble._LINK.sub(lambda m: assemble.link(m, place, known, tmp_path), text)

    assert changed("[a](docs/data.md#images)") == "[a](../guides/data.md#images)"
    assert changed("[records](benchmarks/results)") == "records"
    assert changed("[the paper](https://example.org)") == "[the paper](https://example.org)"


def test_long_tables_are_folded_and_short_ones_are_not():
    def table(n):
        return "| a | b |\n| --- | --- |\n" + "\n".join(f"| {i} | 0 |" for i in range(n))

    text = f"Before.\n\n{table(3)}\n\n{table(30)}\n\nAfter.\n"
    folded = assemble.folded(text)
    assert folded.count("<details") == folded.count("</details>") == 1
    assert "<summary>Table of 30 rows: b</summary>" in folded
    assert folded.startswith("Before.\n\n| a | b |")
    assert folded.endswith("\n\nAfter.\n")


def test_code_is_left_as_it_is():
    text = "x\n```python\nx = 1\n```\nx\n"
    assert assemble.outside_code(text, str.upper) == "X\n```python\nx = 1\n```\nX\n"


def test_the_summary_finds_its_numbers():
    text = summary.filled("{{ summary }}")
    assert len(re.findall(r"\*\*\d+\*\* \| of \d+", text)) == 6
    with pytest.raises(ValueError, match="which is gone"):
        summary._found("no such words", "a page")


def test_the_house_is_the_linter_s_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = contracts["contracts"][0]["layers"]
    rooms = re.findall(r"<text[^>]*>([^<]+)</text>", picture.house())
    wanted = [part.strip().removeprefix("anchored.") for part in "|".join(layers).split("|")]
    assert rooms == wanted
    heights = re.findall(r'<rect x="[\d.]+" y="(\d+)"', picture.house())
    assert len(set(heights)) == len(layers)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(assemble.PAGES)))
def test_pictures_have_alt_texts(page):
    for words in re.findall(r"!\[(.*?)\]\(", page.read_text(encoding="utf-8")):
        assert len(words) > 10, page


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(assemble.PAGES)))
def test_only_the_start_page_has_code_that_must_run(page):
    """The build executes the start page; the front page shows two lines of it."""
    languages = [name for name, _ in running.blocks(page.read_text(encoding="utf-8"))]
    assert "python" not in languages or page.name in ("start.md", "index.md")


def test_the_front_page_s_lines_run(tmp_path, monkeypatch):
    import numpy as np

    import anchored

    ((_, code),) = running.blocks((assemble.PAGES / "index.md").read_text(encoding="utf-8"))
    rng = np.random.default_rng(0)
    frame = rng.normal(size=(30, 2))
    quick = anchored.AnchoredRegressor(n_members=2, epochs=2, noise_var=0.1, random_state=0)
    monkeypatch.setattr(anchored, "AnchoredRegressor", lambda: quick)
    space = {"frame": frame, "price": frame[:, 0], "new": frame[:3]}
    exec(code, space)
    assert np.all(space["low"] < space["high"])


@pytest.mark.slow
def test_the_start_page_runs(tmp_path):
    running.run(assemble.PAGES / "start.md", tmp_path)
    assert (tmp_path / "flats-model/report.html").is_file()
    assert (tmp_path / "flats.png").is_file()


def test_the_gallery_has_enough_examples_that_draw():
    assert len(GALLERY) >= 12
    for path in GALLERY:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        words = ast.get_docstring(tree) or ""
        assert re.match(r"^\S.*\n=+\n\n\S", words), f"{path.name} needs a title and words"
        assert "plt.show()" in path.read_text(encoding="utf-8"), path.name


def test_settings_of_the_site_are_read():
    """The settings import, and name every extension that they need."""
    space = {"__file__": str(ROOT / "site" / "conf.py")}
    pytest.importorskip("sphinx_gallery")
    exec((ROOT / "site" / "conf.py").read_text(encoding="utf-8"), space)
    assert space["release"] == __import__("anchored").__version__
    assert space["html_math_renderer"] == "mathml"
    assert Path(space["sphinx_gallery_conf"]["examples_dirs"][0]).is_dir()
