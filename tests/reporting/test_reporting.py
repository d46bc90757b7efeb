"""The report: what it says is true, what it shows is well formed, and names cannot break it."""

import dataclasses
import re
import subprocess
import time
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import anchored
from anchored import AnchoredClassifier, AnchoredRegressor, metrics
from anchored.errors import Status
from anchored.metrics import GPComparison
from anchored.prediction.conformal import Conformal
from anchored.reporting import figures, headline
from anchored.reporting.words import counted, number

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a'b\"c&d</svg></style></title>",
    "\x00\x1b[31m\u202egnirts\ud800",
    "long " * 100,
    "日本語の列名",
]
VOID = {"meta", "path", "rect", "circle"}


def hostile_table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, len(HOSTILE))), columns=pd.Index(HOSTILE, dtype=object))
    y = pd.Series(2 * X[HOSTILE[0]] + 0.5 * rng.normal(size=n), name="</title><script>x()</script>")
    return X, y


def quick(estimator, X, y, **settings):
    settings = {"n_members": 3, "epochs": 20, "prior": 1.0, "random_state": 0, **settings}
    return estimator(**settings).fit(X, y)


@pytest.fixture(scope="module")
def regressor():
    return quick(AnchoredRegressor, *hostile_table(60), noise_var=0.25)


@pytest.fixture(scope="module")
def held_out():
    return hostile_table(120, seed=1)


@pytest.fixture(scope="module")
def page(regressor, held_out):
    return anchored.report(
        regressor,
        *held_out,
        about={"<b>file</b>": '"><u>'},
        notes=["<i>a note</i>"],
        gp=GPComparison(0.125, 0.75, 0.0625, 77, 0.81, 1.21),
    )


LABELS = np.array(['<b>"bold"</b>', "plain", "zebra"])


def as_labels(y):
    return LABELS[np.digitize(y, [-1, 1])]


@pytest.fixture(scope="module")
def classifier():
    X, y = hostile_table(90)
    return quick(AnchoredClassifier, X, as_labels(y))


@pytest.fixture(scope="module")
def class_page(classifier, held_out):
    X, y = held_out
    return anchored.report(classifier, X, as_labels(y))


class Reader(HTMLParser):
    """Tags that are balanced, what attributes say, and the text between."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.attributes, self.words = [], set(), [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes += attrs
        if tag not in VOID or tag == "circle":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID
        self.seen.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())


def text_of(page):
    """What a reader sees, with plain spaces."""
    return Reader(page).text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize("name", ["page", "class_page"])
def test_the_file_is_well_formed_and_stands_alone(name, request):
    page = request.getfixturevalue(name)
    reader = Reader(page)
    allowed = {"html", "head", "meta", "title", "style", "body", "main", "header", "section"}
    allowed |= {"footer", "div", "dl", "dt", "dd", "h1", "h2", "h3", "p", "ul", "li", "b", "i"}
    allowed |= {"strong", "span", "small", "code", "figure", "figcaption", "table", "caption"}
    allowed |= {"thead", "tbody", "tr", "th", "td", "details", "summary"}
    allowed |= {"svg", "g", "path", "rect", "circle", "text"}
    assert reader.seen <= allowed
    for key, value in reader.attributes:
        assert not key.startswith("on")
        assert key not in ("src", "href", "xlink:href")
        assert "url(" not in (value or "")
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in reader.attributes
    page.encode("utf-8")


def test_hostile_names_are_shown_as_text(page, class_page):
    for found in (page, class_page):
        assert "<script" not in found
        assert "<img" not in found
        assert "\x00" not in found
        assert "\u202e" not in found
        assert HOSTILE[0] in text_of(found)
    assert "</title><script>x()</script>" in text_of(page)
    assert "<i>a note</i>" in text_of(page)
    assert "<b>file</b>" in text_of(page)
    assert LABELS[0] in text_of(class_page)


# Regression


def test_numbers_are_those_of_the_metrics(regressor, held_out, page):
    X, y = held_out
    dist, text = regressor.predict_dist(X), text_of(page)
    covered = 100 * metrics.coverage(dist, y, 0.9)
    share = f"{covered:.1f}" if 99 < covered < 100 else f"{covered:.0f}"
    assert f"90 % intervals cover {share} % of 120 held-out rows" in text
    for name, value in [
        ("RMSE", metrics.rmse(dist, y)),
        ("CRPS", metrics.crps(dist, y)),
        ("NLL", metrics.nll(dist, y)),
    ]:
        assert f"{name}{number(value)}" in text
    share = dist.epistemic_var.sum() / dist.variance.sum()
    assert f"{100 * share:.0f} % of the variance is epistemic" in text
    inside = round(covered * len(y) / 100)
    assert f"{inside} of 120 rows lie in their interval" in text
    assert page.count("<circle") >= 120  # a dot each


def test_worst_rows_are_the_most_surprising(regressor, held_out, page):
    X, y = held_out
    dist = regressor.predict_dist(X)
    worst = np.argsort(-np.abs((y - dist.mean) / dist.std))[:10]
    body = page.split("Worst rows</h2>")[1].split("<tbody>")[1].split("</tbody>")[0]
    shown = re.findall(r"<tr><td>(\d+)</td>", body)
    assert shown == [str(i) for i in worst]


def test_a_given_comparison_is_shown_and_none_is_made(page, regressor, held_out, monkeypatch):
    text = text_of(page)
    for shown in ("0.125", "0.750", "0.0625", "77 rows"):
        assert shown in text
    said = (
        "spread is 0.90 times that of exact inference on rows like these, and 1.1 times far from "
        "the data."
    )
    assert said in text
    made = regressor.compare_to_gp(held_out[0])
    own = text_of(anchored.report(regressor, *held_out))
    assert number(made.variance_ratio) in own.split("Beside exact inference")[1]
    assert made.words in own

    def refuse(X, dist):
        raise ValueError("It is <too> large.")

    monkeypatch.setattr(regressor, "compare_to_gp", refuse, raising=False)
    text = text_of(anchored.report(regressor, *held_out))
    assert "There is no comparison with the exact answer" in text
    assert "It is <too> large." in text


def test_classes_have_no_exact_answer_and_no_word_of_it(class_page):
    assert "exact inference" not in text_of(class_page)
    assert "exact answer" not in text_of(class_page)


def test_members_that_did_not_converge_are_told(page, regressor):
    n_converged = int(np.sum(regressor.model_.members.status == Status.CONVERGED))
    assert n_converged < 3
    assert f"{n_converged} of 3 members converged" in text_of(page)
    assert text_of(page).count("still improving at the last step") == 3 - n_converged


@pytest.mark.parametrize("n", [1, 2, 5])
def test_very_few_rows_are_called_too_few(regressor, classifier, held_out, n):
    X, _ = held_out
    near = np.asarray(regressor.predict(X[:n]))  # all in their intervals
    text = text_of(anchored.report(regressor, X[:n], near))
    assert f"of {counted(n, 'held-out row')}".replace("\N{NO-BREAK SPACE}", " ") in text
    assert "too few rows to tell" in text
    told = text_of(anchored.report(classifier, X[:n], classifier.predict(X[:n])))
    assert "too few rows to tell" in told


def test_several_outputs_have_a_chapter_each(held_out):
    X, y = hostile_table(60)
    Y = pd.DataFrame({"<a>": 1e9 * y, "b": 1e-9 * y + 5})
    model = quick(AnchoredRegressor, X, Y, noise_var=[1e17, 1e-19])
    far, y = held_out
    page = anchored.report(model, far, np.c_[1e9 * y, 1e-9 * y + 5])
    Reader(page)
    dist = model.predict_dist(far)
    lower, upper = dist.interval(0.9)
    for i, target in enumerate((1e9 * y, 1e-9 * y + 5)):
        share = np.mean((lower[:, i] <= target) & (target <= upper[:, i]))
        text = text_of(page).split(f"Output {i}")[1]
        assert f"{100 * share:.0f} % of 120 held-out rows" in text.split("should be")[0]
    assert not re.search(r' (d|x|y|cx|cy|width|height)="[^"]*(nan|inf)', page)


def test_a_constant_target_can_be_reported():
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.warns(UserWarning, match="constant"):
        model = quick(AnchoredRegressor, X, np.ones(40), noise_var=0.1)
    Reader(anchored.report(model, X, np.ones(40)))


def test_the_tile_and_the_figures_of_calibration_show_one_distribution(
    regressor, held_out, monkeypatch
):
    """The curve counts intervals, the tile and the histogram use the PIT of the same rows."""
    drawn = {}
    for name in ("calibration", "pit_histogram"):
        draw = getattr(figures, name)
        monkeypatch.setattr(
            figures, name, lambda *a, name=name, draw=draw: drawn.update({name: a}) or draw(*a)
        )
    X, y = held_out
    own = regressor.predict_dist(X)
    correction = Conformal.through([(0.05, -2.5), (0.5, 0.3), (0.95, 1.1)])
    tiles = []
    for dist in (own, dataclasses.replace(own, conformal=correction)):
        text = text_of(anchored.report(regressor, X, y, dist=dist))
        levels, shares, _, nominal, covered = drawn["calibration"]
        (pit,) = drawn["pit_histogram"]
        inside = [np.mean(np.abs(2 * pit - 1) <= level) for level in levels]
        np.testing.assert_allclose(shares, inside, rtol=0, atol=1e-12)
        assert covered == np.mean(np.abs(2 * pit - 1) <= nominal)
        below = [np.mean(pit <= level) for level in levels]
        tiles.append(f"calibration error{number(np.mean(np.abs(below - levels)), 2)}")
        assert tiles[-1] in text
    assert tiles[0] != tiles[1]


def test_a_known_predictive_is_not_computed_again(regressor, classifier, held_out, monkeypatch):
    X, y = held_out
    for model, target in ((regressor, y), (classifier, as_labels(y))):
        dist, asked = model.predict_dist(X), []
        page, first = anchored.report(model, X, target), headline(model, X, target)

        def counted(rows, model=model, asked=asked):
            asked.append(rows is X)
            return type(model).predict_dist(model, rows)

        monkeypatch.setattr(model, "predict_dist", counted)
        assert anchored.report(model, X, target, dist=dist) == page
        assert headline(model, X, target, dist=dist) == first
        assert first in page
        assert len(asked) == 6 * 5  # columns, shuffles
        assert not any(asked)
        asked.clear()
        anchored.report(model, X, target)
        assert sum(asked) == 1


def test_columns_of_frames_are_shuffled_as_they_came(tmp_path):
    """Text and missing cells: three kinds of frames give one page, on which columns are whole."""
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue"], 160)
    size = np.where(rng.random(160) < 0.1, np.nan, rng.normal(size=160))
    X = pd.DataFrame({"colour": colour, "size": size})
    y = 3.0 * (colour == "red") + np.nan_to_num(size) + 0.1 * rng.normal(size=160)
    model = quick(AnchoredRegressor, X[:100], y[:100], noise_var=0.01, epochs=200)
    test = X[100:].reset_index(drop=True)
    page = anchored.report(model, test, y[100:])
    assert "“colour” matters most" in text_of(page)
    labels = re.findall(r'text-anchor="end">(colour|size|[^<]*=[^<]*)</text>', page)
    assert sorted(labels) == ["colour", "colour", "size", "size"]
    worst = page.split("Worst rows</h2>")[1]
    assert "<td>red</td>" in worst
    for other in (pl.from_pandas(test), pa.Table.from_pandas(test)):
        assert anchored.report(model, other, y[100:]) == page
    model.save(tmp_path / "model", held_out=(test, y[100:]))
    again = anchored.load(tmp_path / "model")
    kept = text_of(anchored.report(again, *again.held_out_))  # rows that are encoded already
    assert "“colour” matters most" in kept


# Classes


def test_class_numbers_are_those_of_the_metrics(classifier, held_out, class_page):
    X, y = held_out
    dist, text = classifier.predict_dist(X), text_of(class_page)
    codes = np.searchsorted(classifier.classes_, as_labels(y))
    p = dist.probabilities
    assert f"Right on {100 * np.mean(p.argmax(axis=1) == codes):.0f} % of 120" in text
    assert f"log loss{number(metrics.nll(dist, codes))}" in text
    brier = np.mean(np.sum((p - np.eye(3)[codes]) ** 2, axis=1))
    assert f"Brier score{number(brier)}" in text
    body = class_page.split('class="counts"')[1].split("</table>")[0]
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", body)
    expected = pd.crosstab(codes, p.argmax(axis=1)).reindex(range(3), columns=range(3))
    assert [0 if c == "·" else int(c) for c in cells] == expected.fillna(
        0
    ).to_numpy().ravel().tolist()


def test_many_classes_list_the_commonest_mistakes():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), np.arange(90) % 15
    page = anchored.report(quick(AnchoredClassifier, X, y), X, y)
    Reader(page)
    assert "most frequent mistakes among 15 classes" in text_of(page)


# The whole


@pytest.mark.slow
def test_a_report_takes_three_seconds_of_one_core(regressor):
    X, y = hostile_table(500, seed=2)
    anchored.report(regressor, X[:50], y[:50])  # compile
    start = time.process_time()
    anchored.report(regressor, X, y)
    assert time.process_time() - start < 3


def test_the_file_is_written_whole_and_is_small(regressor, tmp_path):
    X, y = hostile_table(500, seed=2)
    page = anchored.report(regressor, X, y, path=tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == page.encode()
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert len(page.encode()) < 600_000
    assert page == anchored.report(regressor, X, y)  # seeded


def test_arrays_and_given_names(held_out):
    X, y = hostile_table(60)
    model = quick(AnchoredRegressor, X.to_numpy(), y.to_numpy(), noise_var=0.25)
    far, y = held_out
    text = text_of(anchored.report(model, far.to_numpy(), y.to_numpy()))
    assert "column 5" in text
    names = [f"name{i}" for i in range(6)]
    text = text_of(anchored.report(model, far.to_numpy(), y, feature_names=names, title="T<"))
    assert "name5" in text
    assert text.startswith("T<")
    with pytest.raises(ValueError, match="`feature_names` must be 6 names"):
        anchored.report(model, far.to_numpy(), y, feature_names=names[:2])


def test_wrong_arguments_are_named(regressor, classifier, held_out):
    X, y = held_out
    with pytest.raises(TypeError, match="AnchoredRegressor or AnchoredClassifier; got Ridge"):
        anchored.report(type("Ridge", (), {})(), X, y)
    for wrong in (0.0, 1.0, 90, "0.9"):
        with pytest.raises(ValueError, match="`coverage` must be"):
            anchored.report(regressor, X, y, coverage=wrong)
    with pytest.raises(ValueError, match="row 3 is not"):
        anchored.report(regressor, X, np.where(np.arange(120) == 3, np.nan, y))
    with pytest.raises(ValueError, match="`y` must have the predictive's shape"):
        anchored.report(regressor, X, y[:-1])
    with pytest.raises(ValueError, match="not trained on, such as 'zz'"):
        anchored.report(classifier, X, np.array(["zz"] * 120))
    with pytest.raises(ValueError, match="120 labels"):
        anchored.report(classifier, X, np.array(["plain"] * 3))


def test_a_browser_has_nothing_to_complain_about(page, class_page, tmp_path, chromium):
    """Chromium draws the pages without errors on its console, such as numbers it cannot read."""
    flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run "
    flags += "--disable-background-networking --disable-component-update --disable-sync "
    flags += "--enable-logging=stderr --window-size=390,800"
    broken = page.replace('role="img"', 'role="img" width="-1"', 1)
    for name, content, errors in (("a", page, 0), ("b", class_page, 0), ("c", broken, 1)):
        source, shot = tmp_path / f"{name}.html", tmp_path / f"{name}.png"
        source.write_text(content, encoding="utf-8")
        command = [chromium, *flags.split(), f"--user-data-dir={tmp_path / 'profile'}"]
        command += [f"--screenshot={shot}", source.as_uri()]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
        console = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
        assert len(console) == errors, console
        assert shot.stat().st_size > 5_000
