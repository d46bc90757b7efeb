"""Every Python block of the README and the docs runs, and so do the docstrings' examples."""

import doctest
import importlib
import json
import re
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = [
    "anchored.estimators.classification",
    "anchored.estimators.regression",
    "anchored.priors",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    space: dict = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), space)


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    failures, tested = doctest.testmod(importlib.import_module(name))
    assert tested > 0
    assert failures == 0


def test_the_readme_s_speed_is_the_recorded_one():
    lines = json.loads((ROOT / "benchmarks/results/speed.json").read_text())["lines"]
    ratio = next(x["value"] for x in lines if x["name"] == "faster than the PyTorch loop")
    assert (
        f"{ratio:.0f}x faster a step than a plain PyTorch loop" in (ROOT / "README.md").read_text()
    )
