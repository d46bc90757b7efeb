"""Every Python block of the README and the docs runs, and every name on them exists."""

import ast
import doctest
import importlib
import importlib.util
import inspect
import json
import math
import re
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import anchored

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = [
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "src").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    blocks = re.findall(
        r"^(?:<!-- needs (\w+) -->\n)?```python\n(.*?)^```",
        page.read_text(),
        re.DOTALL | re.MULTILINE,
    )
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    space: dict = {}
    for package, block in blocks:
        if package and importlib.util.find_spec(package) is None:
            continue
        exec(compile(block, str(page), "exec"), space)


def named(dotted):
    """What a dotted name such as ``anchored.gp.twin`` is the name of."""
    found = importlib.import_module("anchored")
    for i, part in enumerate(dotted.split(".")[1:], start=2):
        if not hasattr(found, part):
            importlib.import_module(".".join(dotted.split(".")[:i]))
        found = getattr(found, part)
    return found


def dotted_names(text):
    """Names of this package between backticks or after ``import``, calls without their brackets."""
    names = re.findall(r"`(anchored(?:\.\w+)+)", text)
    names += re.findall(r"^\s*(?:from|import) (anchored(?:\.\w+)+)", text, re.MULTILINE)
    return sorted(set(names))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_names_on_pages_exist_and_are_public(page):
    text = page.read_text(encoding="utf-8")
    for name in dotted_names(text):
        named(name)
        assert "._" not in name, name
    for path in re.findall(r"\b(?:src|tests|benchmarks|examples)/[\w/]+\.\w+", text):
        assert (ROOT / path).exists(), f"{page.name} names {path}"


def test_names_in_docstrings_and_messages_exist_and_are_public():
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for name in re.findall(r"`(anchored(?:\.\w+)+)", node.value):
                    named(name)
                    assert "._" not in name, f"{path.name}: {name}"
                modules = re.findall(r"`_(\w+)`", node.value)
                assert not any(list((ROOT / "src").rglob(f"_{m}.py")) for m in modules), path.name


def called(block, space):
    """Code objects in the order in which running a block first calls them."""
    seen = {}

    def watch(frame, event, _):
        if event == "call":
            seen.setdefault(frame.f_code, len(seen))

    sys.setprofile(watch)
    try:
        exec(block, space)
    finally:
        sys.setprofile(None)
    return seen


def test_the_walk_through_names_what_is_called_in_order(tmp_path, monkeypatch):
    page = (ROOT / "docs/walk_through.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    setup, *paths = re.split(r"^## ", page, flags=re.MULTILINE)
    space: dict = {}
    (block,) = re.findall(r"^```python\n(.*?)^```", setup, re.DOTALL | re.MULTILINE)
    exec(block, space)
    assert len(paths) == 4
    for path in paths:
        (block,) = re.findall(r"^```python\n(.*?)^```", path, re.DOTALL | re.MULTILINE)
        order = called(block, space)
        names = re.findall(r"^\d+\. `([\w.]+)`", path, re.MULTILINE)
        assert len(names) >= 7
        places = [order.get(inspect.unwrap(named(name)).__code__) for name in names]
        assert None not in places, f"not called: {names[places.index(None)]}"
        assert places == sorted(places), [n for _, n in sorted(zip(places, names, strict=True))]


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    failures, tested = doctest.testmod(importlib.import_module(name))
    assert tested > 0
    assert failures == 0


def test_every_metric_is_on_its_page():
    from anchored import metrics

    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    functions = [name for name, value in vars(metrics).items() if inspect.isfunction(value)]
    assert len(functions) > 20
    assert [name for name in functions if f"| `{name}(" not in page] == []


def test_the_readme_s_speed_is_the_recorded_one():
    lines = json.loads((ROOT / "benchmarks/results/speed.json").read_text())["lines"]
    ratio = next(x["value"] for x in lines if x["name"] == "faster than the PyTorch loop")
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{ratio:.0f} times as fast, step for step, as a plain PyTorch loop" in readme


def test_the_demo_s_speed_is_the_recorded_one():
    from benchmarks import demo

    page = " ".join((ROOT / "docs/demo.md").read_text(encoding="utf-8").split())
    assert demo.words(json.loads(demo.RECORD.read_text())) in page


def test_the_page_on_serving_is_the_recorded_one():
    from benchmarks import large_predictions, serving
    from benchmarks.sections import with_section

    records = (json.loads(b.RECORD.read_text()) for b in (serving, large_predictions))
    text = serving.PAGE.read_text(encoding="utf-8")
    assert with_section(text, serving.section(*records)) == text


def test_the_page_on_scale_is_the_recorded_one():
    from benchmarks import scale_page

    text = scale_page.PAGE.read_text(encoding="utf-8")
    assert scale_page.page(text) == text


def test_the_memory_of_a_plan_is_the_recorded_one():
    from benchmarks import large_fits, memory

    from anchored.tables.memory import PLAIN_BYTES, RAMPED_BYTES, UNREAD_ROW_BYTES

    bytes_, fits = (json.loads(module.RECORD.read_text()) for module in (memory, large_fits))
    assert memory.constants(bytes_, fits) == (RAMPED_BYTES, PLAIN_BYTES, UNREAD_ROW_BYTES)


def test_the_page_on_own_networks_is_the_recorded_one():
    from benchmarks import own_priors
    from benchmarks.sections import with_section

    text = own_priors.PAGE.read_text(encoding="utf-8")
    record = json.loads(own_priors.RECORD.read_text())
    assert with_section(text, own_priors.section(record)) == text


def test_where_error_bars_are_weaker_is_the_recorded_one():
    from benchmarks import weak_spots

    page = (ROOT / "docs/how_to_choose.md").read_text(encoding="utf-8")
    assert weak_spots.words(json.loads(weak_spots.RECORD.read_text())) in page


def test_the_page_of_benchmarks_is_the_recorded_one():
    from benchmarks import uci_page

    assert uci_page.page() == uci_page.PAGE.read_text(encoding="utf-8")


def test_the_readme_s_counts_are_those_of_the_page():
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    counts = re.findall(r"NLL is lower than ([^.]+?) on (\d) of (\d) data sets", page)
    by_name = {name: (int(n), int(of)) for name, n, of in counts}
    for name, words in (
        ("the paper's anchored 5x 50", "than the paper's tuned ensemble"),
        ("Deep Ensembles as published", "than published Deep Ensembles"),
        ("the best seen", "than the best published number we know"),
    ):
        n, of = by_name[name]
        assert f"{words} on {n} of {of}" in readme


def test_the_page_of_own_tables_is_the_recorded_one():
    from benchmarks import own_tables

    assert own_tables.page() == own_tables.PAGE.read_text(encoding="utf-8")


def test_the_page_of_real_tables_is_the_recorded_one():
    from benchmarks import real_page

    assert real_page.page() == real_page.PAGE.read_text(encoding="utf-8")


def test_the_readme_s_real_tables_are_those_of_the_page():
    page = " ".join((ROOT / "docs/real_tables.md").read_text(encoding="utf-8").split())
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())

    def counted(task, rival, score):
        found = re.search(
            rf"{task}: anchored is better than {rival} in [^.]*{score} on (\d+ of \d+)", page
        )
        return found[1]

    score = "90 % interval score"
    assert f"better than CatBoost's on {counted('regression', 'catboost', score)} tables" in readme
    conformal = counted("regression", "catboost-conformal", score)
    assert f"better than conformal CatBoost's on {conformal}." in readme
    assert f"log loss is lower on {counted('classification', 'catboost', 'log loss')} " in readme


def assert_section_is_recorded(bench):
    from benchmarks.sections import with_section

    record, text = json.loads(bench.RECORD.read_text()), bench.PAGE.read_text(encoding="utf-8")
    assert with_section(text, bench.section(record)) == text
    assert record["settings"] == bench.SETTINGS


def test_the_section_on_thompson_sampling_is_the_recorded_one():
    from benchmarks import thompson

    assert_section_is_recorded(thompson)


def test_thompson_sampling_ends_where_the_page_says():
    """With noise by evidence no better than at random; with known noise better, `rms` last."""
    from benchmarks import thompson

    record = json.loads(thompson.RECORD.read_text())
    blind, known = (
        [np.median(thompson.regrets(record, method, noise)[:, -1]) for method in thompson.METHODS]
        for noise in thompson.NOISES
    )
    at_random = np.median(thompson.regrets(record, "random", "")[:, -1])
    assert min(blind) > at_random > max(known)
    assert known[0] > known[1]


def test_thompson_sampling_looks_for_the_lowest_place():
    """Hartmann-6 at its known optimum, and a member whose lowest place in the cube is a corner."""
    from benchmarks import thompson

    best = [[0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573]]
    assert thompson.hartmann(np.array(best))[0] == pytest.approx(thompson.OPTIMUM, abs=1e-5)
    slope = np.array([1, -1, 1, -1, 1, -1], np.float32)
    linear = ({"weight": slope[:, None], "bias": np.zeros(1, np.float32)},)
    cube = np.random.default_rng(0).uniform(size=(200, 6)).astype(np.float32)
    found = thompson.lowest(anchored.MLP(()), linear, np.float32(0.5), np.float32(2.0), cube)
    np.testing.assert_allclose(found, slope < 0, atol=0.01)


def test_the_page_of_infinite_width_is_the_recorded_one():
    from benchmarks import width

    assert_section_is_recorded(width)


def test_wide_ensembles_end_where_the_page_says():
    """All layers trained: at the formula, not at the GP; the last alone: at the GP."""
    from benchmarks import width

    record, wide = json.loads(width.RECORD.read_text()), width.WIDTHS[-1]
    draws = record["settings"]["members"] ** -0.5
    for where in ("inside", "outside"):
        (full, error), (fixed, other) = (
            width.summary(record, method, wide, where, "ratio") for method in width.METHODS
        )
        limit, _ = width.summary(record, "limit", "inf", where, "ratio")
        assert abs(full - limit) < 3 * error
        assert full > 1 + 3 * error
        assert abs(fixed - 1) < 3 * other
    apart, error = width.summary(record, "random-features", wide, "inside", "mean_error")
    assert abs(apart - draws) < 3 * error
    assert width.summary(record, "rms", wide, "inside", "mean_error")[0] > 2 * draws


def test_the_kernels_of_the_page_are_the_library_s():
    from benchmarks import width

    from anchored import MLP, Prior, gp

    problem, network = width.Problem.draw(0), MLP((1,))
    x, places = problem.x, problem.places["inside"]
    prior, _ = width.kernels(places, x)
    gain = np.linalg.solve(width.kernels(x, x)[0] + 0.1 * np.eye(len(x)), problem.y)
    kernel = gp.twin(network, Prior.for_network(network, x, width.SETTINGS["first_var"]))
    exact = gp.condition(kernel, x, problem.y, width.SETTINGS["noise_var"]).predict(places)
    np.testing.assert_allclose(prior @ gain, exact.mean[:, 0], atol=1e-6)


def test_the_tables_nobody_tuned_to_keep_what_was_asked():
    """Coverage within four points of nominal; 10,000 rows of 20 columns within a minute."""
    record = json.loads((ROOT / "docs/benchmarks/defaults/own-tables.json").read_text())
    entries = record["numbers"].values()
    assert len(entries) == 5
    for entry in entries:
        assert abs(entry["coverage"] - record["settings"]["nominal"]) < 0.04
    (large,) = (entry for entry in entries if entry["rows"] >= 10_000)
    assert large["fit_seconds"] < 60


def test_the_readme_s_rows_a_second_are_the_recorded_ones():
    lines = json.loads((ROOT / "benchmarks/results/speed.json").read_text())["lines"]
    speed = next(x["value"] for x in lines if x["unit"] == "rows/s")
    assert f"{round(speed, -3):,.0f} rows a second" in (ROOT / "README.md").read_text()


def test_the_readme_s_coverage_is_the_recorded_one():
    record = json.loads((ROOT / "docs/benchmarks/defaults/table-uci.json").read_text())
    covered = {}
    for label, split in record["numbers"].items():
        dataset, method, _ = label.split("/")
        if method == "anchored-defaults":
            covered.setdefault(dataset, []).append(split["coverage_90"])
    means = [sum(shares) / len(shares) for shares in covered.values()]
    assert len(means) == 10
    least, most = math.floor(100 * min(means)), math.ceil(100 * max(means))
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"cover between {least} and {most} %" in readme


def test_the_readme_s_bands_of_the_function_are_the_recorded_ones():
    record = json.loads((ROOT / "docs/coverage/cpu/table-coverage.json").read_text())
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    told = record["findings"][0]
    shares = {
        name: re.search(rf"{name} (\d+) ± \d+ / (\d+) ±", told).groups()  # type: ignore
        for name in ("estimator, defaults", "anchored")
    }
    for words, name in (
        (
            "covers {} % of their values at inputs like the training rows, and {} % at inputs",
            "estimator, defaults",
        ),
        ("anchors alone, the band covers {} % and {} %", "anchored"),
    ):
        assert words.format(*shares[name]) in readme
