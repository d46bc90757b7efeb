"""The report: what it says is true, what it shows is well formed, and names cannot break it."""

import re
import subprocess
import time
import types
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import anchored
from anchored import AnchoredClassifier, AnchoredRegressor, Predictive, metrics
from anchored.metrics import GPComparison
from anchored.reporting import _importance, _svg, _verdict
from anchored.reporting._importance import Columns
from anchored.reporting._markup import Markup, plain, tag
from anchored.reporting._words import column, counted, level, number, percent

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
        gp=GPComparison(0.125, 0.75, 0.0625, 77),
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


def test_attributes_and_children_are_escaped_once():
    made = tag("p", "a < b", tag("b", "&"), class_='"x"', data_y=None)
    assert made == '<p class="&quot;x&quot;">a &lt; b<b>&amp;</b></p>'
    assert isinstance(made, Markup)
    assert plain("a\n b\tc" + "d" * 300, 10) == "a b cdddd…"


# Regression


def test_numbers_are_those_of_the_metrics(regressor, held_out, page):
    X, y = held_out
    dist, text = regressor.predict_dist(X), text_of(page)
    covered = metrics.coverage(dist, y, 0.9)
    assert f"90 % intervals cover {100 * covered:.0f} % of 120 held-out rows" in text
    for name, value in [
        ("RMSE", metrics.rmse(dist, y)),
        ("CRPS", metrics.crps(dist, y)),
        ("NLL", metrics.nll(dist, y)),
    ]:
        assert f"{name}{number(value)}" in text
    share = dist.epistemic_var.sum() / dist.variance.sum()
    assert f"{100 * share:.0f} % of the variance is epistemic" in text
    inside = round(covered * len(y))
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
    made = regressor.compare_to_gp(held_out[0])
    own = text_of(anchored.report(regressor, *held_out))
    assert number(made.variance_ratio) in own.split("Beside exact inference")[1]

    def refuse(X):
        raise ValueError("too large")

    monkeypatch.setattr(regressor, "compare_to_gp", refuse, raising=False)
    assert "Beside exact inference" not in anchored.report(regressor, *held_out)


def test_members_that_did_not_converge_are_told(page):
    assert "0 of 3 members converged" in text_of(page)
    assert text_of(page).count("still improving at the last step") == 3


def fake(y, std, n=400):
    return Predictive(np.zeros(n), np.zeros(n), np.full(n, std**2))


@pytest.mark.parametrize(
    ("std", "kind", "words"),
    [(1.0, "good", "as they should"), (0.5, "bad", "too narrow"), (2.0, "bad", "wider")],
)
def test_verdict_on_intervals(std, kind, words):
    y = stats.norm.ppf((np.arange(400) + 0.5) / 400)  # a perfect sample
    found = _verdict.of_intervals(fake(y, std), y, 0.9)
    assert found.kind == kind
    assert words in found.headline


def test_verdict_allows_for_chance_as_the_binomial_does():
    n, nominal = 150, 0.9
    low, high = stats.binom.ppf([0.025, 0.975], n, nominal)
    half = stats.norm.ppf(0.95)
    for inside in range(n + 1):
        y = np.where(np.arange(n) < inside, 0.0, 2 * half)
        kind = _verdict.of_intervals(fake(y, 1.0, n), y, nominal).kind
        assert (kind == "good") == (low <= inside <= high)


def test_verdict_names_the_level_to_ask_for():
    y = stats.norm.ppf((np.arange(400) + 0.5) / 400)
    said = _verdict.of_intervals(fake(y, 0.8), y, 0.9).advice.replace("\N{NO-BREAK SPACE}", " ")
    asked = int(re.search(r"On these rows (\d+) % intervals cover 90 %", said).group(1)) / 100
    assert metrics.coverage(fake(y, 0.8), y, asked) >= 0.9
    assert metrics.coverage(fake(y, 0.8), y, asked - 0.01) < 0.9


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
    assert "commonest mistakes among 15 classes" in text_of(page)


def test_band_of_right_answers_against_simulation(rng):
    confidence = rng.uniform(0.6, 1, 80)
    low, high = _verdict.right_band(confidence)
    right = (rng.random((40_000, 80)) < confidence).sum(axis=1)
    # Beyond either end there is at most 2.5 %, and with the end itself more; four standard
    # errors of a share of 40,000 are 0.3 %.
    assert np.mean(right < low) <= 0.025 + 0.003
    assert np.mean(right <= low) >= 0.025 - 0.003
    assert np.mean(right > high) <= 0.025 + 0.003
    assert np.mean(right >= high) >= 0.025 - 0.003


def test_band_of_right_answers_is_the_binomial_of_equal_confidence():
    low, high = _verdict.right_band(np.full(200, 0.9))
    wrong = stats.binom.ppf([0.025, 0.975], 200, 0.1)
    assert (200 - high, 200 - low) == tuple(wrong)


@pytest.mark.parametrize(
    ("confidence", "n_right", "kind", "words"),
    [(0.8, 80, "good", "as it should"), (0.95, 80, "bad", "over-confident"),
     (0.6, 80, "bad", "under-confident")],
)  # fmt: skip
def test_verdict_on_confidence(confidence, n_right, kind, words):
    p = np.tile([confidence, 1 - confidence], (100, 1))
    found = _verdict.of_confidence(p, (np.arange(100) >= n_right).astype(int))
    assert found.kind == kind
    assert words in found.headline


# Importance


def test_importance_finds_the_columns_that_matter(rng):
    """A linear model: shuffling a column with slope s raises the squared error by 2 s^2."""
    x = rng.normal(size=(250, 4))
    slopes = np.array([0.0, 1.0, 3.0, 0.0])
    y = x @ slopes + rng.normal(size=250)

    def predict(x):
        mean = x @ slopes
        return Predictive(mean, np.exp(x[:, 3]), np.ones_like(mean))

    def error(dist, rows):
        return float(np.mean((dist.mean - y[rows]) ** 2))

    def epistemic(dist):
        return dist.epistemic_var

    columns = Columns.single(["nothing", "some", "much", "spread"])
    found = _importance.importance(predict, x, columns, error, epistemic)
    rise = found.score.mean(axis=1)
    assert rise[0] == rise[3] == 0
    # The rise is the mean of 250 rows of about 2 s^2 z^2, with z^2 of deviation sqrt 2.
    for i in (1, 2):
        two = 2 * slopes[i] ** 2
        assert abs(rise[i] - two) < 4 * two * np.sqrt(2 / 250)
    assert np.all(found.epistemic[:3] == 0)
    assert np.all(found.epistemic[3] > 0.5)
    again = _importance.importance(predict, x, columns, error, epistemic)
    np.testing.assert_array_equal(found.score, again.score)


def test_features_of_one_column_are_shuffled_together(rng):
    x = rng.normal(size=(100, 1)) * np.ones((1, 2))  # two copies, of which one would suffice
    y = x[:, 0]

    def predict(x):
        return Predictive(np.minimum(x[:, 0], x[:, 1]), np.ones(len(x)), np.ones(len(x)))

    def error(dist, rows):
        return float(np.mean((dist.mean - y[rows]) ** 2))

    def rise(columns):
        return _importance.importance(predict, x, columns, error, lambda d: d.mean).score.mean()

    together = Columns.owning(["c", "c"])
    assert together == Columns(("c",), ((0, 1),))
    assert rise(together) > 1.5 * rise(Columns.single(["a", "b"]))


def test_columns_of_an_encoder_are_used(held_out, regressor):
    X, y = held_out
    owners = ["colour", "colour", "colour", "size", "date", "date"]
    encoder = types.SimpleNamespace(feature_columns=tuple(owners))
    try:
        regressor.encoder_ = encoder
        page = anchored.report(regressor, X, y)
    finally:
        del regressor.encoder_
    labels = re.findall(
        r'<text[^>]*text-anchor="end">(colour|size|date|[^<]*alert[^<]*)</text>', page
    )
    assert sorted(labels) == ["colour", "colour", "date", "date", "size", "size"]


# Pictures and words


def test_ticks_are_round_and_inside(rng):
    for _ in range(300):
        low, span = rng.normal() * 10.0 ** rng.uniform(-8, 8), 10.0 ** rng.uniform(-8, 8)
        scale = _svg.linear([low, low + span])
        places = np.array([place for place, _ in scale.ticks])
        assert 2 <= len(places) <= 8
        assert scale.low <= places.min() + 1e-9 * span
        assert places.max() <= scale.high + 1e-9 * span
        labels = [label for _, label in scale.ticks]
        assert len(set(labels)) == len(labels)
        shown = [float(s.replace("\N{MINUS SIGN}", "-").replace(",", "")) for s in labels]
        np.testing.assert_allclose(shown, places, atol=0.01 * span, rtol=1e-12)


@pytest.mark.parametrize("values", [[3.0], [0.0, 0.0], [np.nan, 1.0], [], [1e300, -1e300]])
def test_scales_of_odd_values_are_finite(values):
    scale = _svg.linear(values)
    assert np.isfinite([scale.low, scale.high]).all()
    assert scale.low < scale.high


def test_marks_are_placed_in_data_units():
    frame = _svg.Frame(_svg.shares(), _svg.shares(), "x", "y")
    wide, high = frame._inner
    (x, y), *_ = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', frame.dots([0.25], [0.75], "one"))
    assert (float(x), float(y)) == pytest.approx((0.25 * wide, 0.25 * high), abs=0.051)
    bar = frame.bars([0.0], [0.5], [0.2], [0.6], "one")
    width, height = re.search(r'width="([\d.]+)" height="([\d.]+)"', bar).groups()
    assert (float(width), float(height)) == pytest.approx((0.5 * wide, 0.4 * high), abs=0.051)
    gap = frame.line([0.0, 0.1, np.nan, 0.3, 0.4], [0.1] * 5, "one")
    assert gap.count("M") == 2


def test_numbers_read_well():
    shown = [number(v) for v in (0, 1236, 0.0123, -5.678e9, np.nan)]
    assert shown == ["0", "1,240", "0.0123", "\N{MINUS SIGN}5.68e9", "none"]
    spaced = [
        percent(v).replace("\N{NO-BREAK SPACE}", " ") for v in (0, 0.907, 0.996, 1, 2.5, 1e-5)
    ]
    assert spaced == ["0 %", "91 %", "99.6 %", "100 %", "250 %", "under 0.1 %"]
    assert level(0.975).replace("\N{NO-BREAK SPACE}", " ") == "97.5 %"
    assert column([1.0, 20.0, 300.0]) == ["1", "20", "300"]
    assert column([-0.00001, 12.346]) == ["0.00", "12.35"]


def test_colours_can_be_read_and_are_told_apart():
    """Contrast by the web's guidelines: 4.5 for text, 3 for marks."""
    css = files("anchored.reporting").joinpath("style.css").read_text("utf-8")
    for block in re.findall(r":root \{([^}]*)\}", css):
        colours = dict(re.findall(r"--(\w+): (#\w{6})", block))
        for ground in ("paper", "panel"):
            for text in ("ink", "soft", "one", "two"):
                assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        assert contrast(colours["muted"], colours["paper"]) >= 2.9


def contrast(a, b):
    def light(colour):
        parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    high, low = sorted([light(a), light(b)], reverse=True)
    return (high + 0.05) / (low + 0.05)


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
