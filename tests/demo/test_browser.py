"""The demo in a real browser: what a person does there, and what the page then shows.

Screenshots are kept in the folder ANCHORED_ARTEFACTS, else in pytest's own.
"""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import numpy as np
import pytest

from anchored.exact import rms

playwright = pytest.importorskip("playwright.sync_api", reason="NO PLAYWRIGHT: pip install it")

FLAGS = [
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
]
SIZE = {"width": 1200, "height": 750}
PATIENCE = 60.0  # seconds, for busy machines


@pytest.fixture(scope="module")
def address(chromium, tmp_path_factory):
    """One server for all tests of this file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["demo", "--no-browser", "--port", str(port)]
    command = [sys.executable, "-c", "from anchored.cli import app; app()", *words]
    url = f"http://127.0.0.1:{port}/"
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as server,
    ):
        try:
            _wait_for_server(url, server, log)
            yield url
        finally:
            server.terminate()


def _wait_for_server(url, server, log):
    until = time.monotonic() + 60
    opener = build_opener(ProxyHandler({}))
    while True:
        try:
            opener.open(url, timeout=5).close()
            return
        except OSError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def browser(chromium):
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=chromium, args=FLAGS, headless=True)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory):
    folder = os.environ.get("ANCHORED_ARTEFACTS")
    made = Path(folder) if folder else tmp_path_factory.mktemp("demo")
    made.mkdir(parents=True, exist_ok=True)
    return made


PAINTED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"


class Visit:
    """One page, and the few things tests do on it."""

    def __init__(self, page, address, artefacts):
        self.page, self.address, self.artefacts = page, address, artefacts
        self.complaints = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._heard)

    def _heard(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self, fragment=""):
        self.page.goto(self.address + fragment)
        self.wait("window.anchoredDemo?.frame")
        return self

    def part(self, test_id):
        return self.page.get_by_test_id(test_id)

    def read(self, expression):
        return self.page.evaluate(expression)

    def wait(self, expression, patience=PATIENCE):
        """Until the expression holds; asked from outside, as the page forbids `eval`."""
        until = time.monotonic() + patience
        while not (value := self.read(expression)):
            assert time.monotonic() < until, f"waited for {expression}; frame {self.summary()}"
            time.sleep(0.05)
        self.read(PAINTED)  # what has come is also drawn by then
        return value

    def summary(self):
        frame = self.frame() or {}
        return {name: frame.get(name) for name in ("problem", "step", "status", "settings")}

    def frame(self):
        return self.read("anchoredDemo.frame")

    def state(self):
        return self.read("anchoredDemo.state")

    def points(self):
        state = self.state()
        return state[state["tab"]]["points"]

    def where(self, x, y):
        return self.read(f"anchoredDemo.where({x}, {y})")

    def click(self, x, y, **options):
        self.page.mouse.click(*self.where(x, y), **options)

    def train(self, steps):
        """Start, wait for so many more steps, pause."""
        tab = self.state()["tab"]
        goal = self.frame()["step"] + steps
        self.part(f"{tab}-run").click()
        self.wait(f"anchoredDemo.frame.step >= {goal}")
        self.part(f"{tab}-run").click()
        self.wait("!anchoredDemo.frame.running")

    def tab(self, name):
        self.part(f"tab-{name}").click()
        answered = "posterior" if name == "rms" else "problem"
        self.wait(f"anchoredDemo.frame?.{answered}")

    def picture(self, name, **options):
        shot = self.artefacts / f"{name}.png"
        self.page.screenshot(path=shot, **options)
        assert shot.stat().st_size > 10_000

    def deviation(self, x):
        """Of the networks at x, without noise."""
        frame = self.frame()
        return float(np.interp(x, frame["x"], frame["epistemic"]))


@pytest.fixture
def visit(browser, address, artefacts):
    """A page with a fresh profile, which must have had nothing to complain about."""
    with browser.new_context(viewport=SIZE, reduced_motion="reduce") as context:
        made = Visit(context.new_page(), address, artefacts)
        yield made
        assert made.complaints == []


def test_a_point_narrows_the_band_there_and_only_there(visit):
    visit.open("#tab=regression&points=&x=-2,2&y=-2,2")
    before = {x: visit.deviation(x) for x in (-1.8, 0.5)}
    visit.click(0.5, 0.6)
    visit.wait("anchoredDemo.frame.n_points == 1")
    (point,) = visit.points()
    assert point == pytest.approx([0.5, 0.6], abs=0.02)  # a pixel or two
    visit.train(1_000)
    visit.picture("regression_one_point")
    looks = []  # the rate is constant, so networks keep moving a little
    for _ in range(5):
        visit.train(200)
        looks.append((visit.deviation(0.5), visit.deviation(-1.8)))
    there, elsewhere = np.median(looks, axis=0)
    assert there < before[0.5] / 5
    assert elsewhere > before[-1.8] / 3
    assert elsewhere > 3 * there
    frame = visit.frame()
    assert np.interp(0.5, frame["x"], frame["mean"]) == pytest.approx(0.6, abs=0.15)
    assert float(visit.part("regression-number-kl-to-exact").inner_text()) == pytest.approx(
        frame["kl"], rel=0.01
    )


def test_points_are_dragged_and_deleted_by_mouse(visit):
    visit.open()
    assert len(visit.points()) == 6
    mouse = visit.page.mouse
    mouse.move(*visit.where(*visit.points()[0]))
    mouse.down()
    mouse.move(*visit.where(-1.0, 1.0), steps=4)
    mouse.up()
    assert visit.points()[0] == pytest.approx([-1.0, 1.0], abs=0.02)
    visit.click(-1.0, 1.0, click_count=2)
    visit.wait("anchoredDemo.frame.n_points == 5")
    assert len(visit.points()) == 5
    visit.part("regression-clear").click()
    visit.wait("anchoredDemo.frame.n_points == 0")
    visit.part("regression-preset").select_option("sine-gap")
    visit.wait("anchoredDemo.frame.n_points == 24")
    assert visit.frame()["settings"]["noise_var"] == 0.01


def test_loss_activation_and_buttons(visit):
    visit.open()
    visit.part("regression-step").click()
    visit.wait("anchoredDemo.frame.step == 100")
    start = visit.frame()
    visit.part("regression-method").select_option("regularised")
    visit.wait("anchoredDemo.frame.settings.method == 'regularised'")
    assert visit.frame()["step"] >= 100  # networks go on
    anchors = visit.frame()["weights"]["anchors"]
    visit.part("regression-method").select_option("anchored")
    visit.wait("anchoredDemo.frame.settings.method == 'anchored'")
    assert visit.frame()["weights"]["anchors"] == start["weights"]["anchors"] != anchors
    visit.part("regression-anchors").click()
    visit.wait(f"String(anchoredDemo.frame.weights.anchors[0]) != '{_js(start, 0)}'")
    visit.part("regression-reset").click()
    visit.wait("anchoredDemo.frame.step == 0")
    visit.part("regression-activation").select_option("relu")
    visit.wait("anchoredDemo.frame.settings.activation == 'relu'")
    visit.part("regression-method").select_option("unconstrained")  # no prior, no exact answer
    visit.wait("anchoredDemo.frame.gp === null")
    assert visit.part("regression-number-kl-to-exact").inner_text() == "\N{EN DASH}"
    slide = visit.part("regression-noise_var")
    slide.focus()
    slide.press("End")
    visit.wait("anchoredDemo.frame.settings.noise_var == 1")


def _js(frame, i):
    return ",".join(f"{v:g}" for v in frame["weights"]["anchors"][i])


def test_a_copied_link_brings_everything_back(visit, browser):
    context = visit.page.context
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit.open()
    visit.click(1.2, -1.0)
    visit.part("regression-activation").select_option("relu")
    visit.part("regression-show-members").uncheck()
    visit.part("regression-show-gp").select_option("beside")
    visit.wait("anchoredDemo.frame.settings.activation == 'relu'")
    visit.part("copy-link").click()
    visit.wait("document.getElementById('status').textContent.startsWith('Link copied')")
    link = visit.read("navigator.clipboard.readText()")
    other = Visit(context.new_page(), link, visit.artefacts)
    other.open()
    assert {**other.state()["regression"], "preset": 0} == {
        **visit.state()["regression"],
        "preset": 0,
    }
    assert other.frame()["members"] == pytest.approx(np.array(visit.frame()["members"]), abs=1e-3)
    other.picture("regression_from_link")
    assert other.complaints == []


def test_a_damaged_link_is_read_as_far_as_it_can_be(visit):
    link = "#tab=regression&width=1e9&method=<b>x</b>&points=0,0;1,nan&seed=-1&first_var=3&gp=off"
    visit.open(link)
    words = visit.part("status").inner_text()
    assert words.endswith("Left out: method, width, seed, points.")
    mine = visit.state()["regression"]
    assert (mine["settings"]["first_var"], mine["settings"]["width"], mine["gp"]) == (3, 100, "off")
    assert len(mine["points"]) == 6


def test_links_are_read_back_as_written(visit):
    """States of all tabs, with the page's own modules."""
    visit.open()
    wrong = visit.read(
        """async () => {
          const { encode, decode, firstState } = await import("/static/state.js");
          const hello = { ...window.anchoredDemo.hello };
          const states = ["regression", "classification", "rms"].map((tab, k) => {
            const state = { ...firstState(hello), tab };
            if (tab === "rms") state.rms = { ...state.rms, mean: [-1.25, 0.5], correlation: -0.3 };
            else state[tab] = { ...state[tab], seed: 7 + k, preset: null, pair: [1, 2] };
            return state;
          });
          return states.filter((state) => {
            const { state: back, wrong } = decode(encode(state), hello);
            return wrong.length || JSON.stringify(back) !== JSON.stringify(state);
          });
        }"""
    )
    assert wrong == []


def test_classification(visit):
    visit.open("#tab=classification&points=")
    visit.click(-1.5, -1.0)
    visit.page.keyboard.down("Shift")
    visit.click(1.5, 1.0)
    visit.page.keyboard.up("Shift")
    visit.part("classification-class-b").check()
    visit.click(1.5, 0.5)
    visit.wait("anchoredDemo.frame.n_points == 3")
    assert [point[2] for point in visit.points()] == [0, 1, 1]
    visit.train(400)
    visit.picture("classification_three_points", full_page=True)
    frame = visit.frame()
    axis = np.linspace(*frame["extent"], frame["side"])

    def at(field, x, y):
        rows = np.reshape(frame[field], (frame["side"], frame["side"]))
        return rows[np.abs(axis - y).argmin(), np.abs(axis - x).argmin()]

    assert at("probability", -1.5, -1.0) < 0.3 < 0.7 < at("probability", 1.5, 1.0)
    known, unknown = (at("mutual_information", x, y) for x, y in ((1.5, 1.0), (-2.5, 2.5)))
    assert 0 <= known < unknown / 2


def test_why_it_works(visit):
    """The table holds the closed forms, before and after the likelihood is dragged."""
    visit.open()
    visit.tab("rms")
    _check_rms(visit)
    mouse = visit.page.mouse
    mouse.move(*visit.where(*visit.state()["rms"]["mean"]))
    mouse.down()
    mouse.move(*visit.where(-1.0, 0.5), steps=4)
    mouse.up()
    assert visit.state()["rms"]["mean"] == pytest.approx([-1.0, 0.5], abs=0.05)
    visit.part("rms-correlation").focus()
    visit.part("rms-correlation").press("Home")
    assert visit.state()["rms"]["correlation"] == -0.999
    visit.wait("anchoredDemo.frame.likelihood.correlation < -0.99")
    _check_rms(visit)
    visit.picture("why_it_works")
    visit.part("rms-example-one-unknown").click()
    visit.wait("anchoredDemo.frame.likelihood.correlation == 0")
    assert re.search("and 9[89] % of the true variances", visit.part("rms-verdict").inner_text())


def _check_rms(visit):
    mine = visit.state()["rms"]
    deviations = np.sqrt(mine["variances"])
    shape = np.array([[1, mine["correlation"]], [mine["correlation"], 1]])
    precision = np.linalg.inv(deviations[:, None] * shape * deviations)
    prior = rms.Normal(np.zeros(2), np.diag(mine["prior_variances"]))
    given = (prior, precision, precision @ mine["mean"])
    for name, cov in (
        ("posterior", rms.posterior(*given).cov),
        ("anchored", rms.anchored_posterior(*given).cov),
        ("mean_field", rms.mean_field_posterior(*given).cov),
    ):
        wanted = (cov[0, 0], cov[1, 1], rms.correlation(cov)[0, 1])
        for cell, value in zip(("var1", "var2", "cor"), wanted, strict=True):
            shown = visit.part(f"rms-{name}-{cell}").inner_text().replace("\N{MINUS SIGN}", "-")
            assert float(shown) == pytest.approx(value, rel=0.006, abs=1e-6), (name, cell)


def test_everything_can_be_done_with_keys(visit):
    visit.open("#tab=regression&points=&x=-1.5,1.5&y=-2,2")
    press = visit.page.keyboard.press
    visit.part("tab-regression").focus()
    press("ArrowRight")
    visit.wait("anchoredDemo.state.tab == 'classification'")
    press("ArrowLeft")
    visit.wait("anchoredDemo.frame?.problem == 'regression'")
    press("Tab")
    press("Tab")  # past the panel's first button, Start
    focused = "document.activeElement.dataset.testid"
    assert visit.read(focused) == "regression-step"
    press("Enter")
    visit.wait("anchoredDemo.frame.step == 100")
    for _ in range(4):
        press("Tab")
    assert visit.read(focused) == "regression-plot"
    press("Shift+ArrowRight")
    press("ArrowUp")
    press("Enter")
    assert visit.points() == [pytest.approx([0.25, 4 / 60], abs=1e-3)]
    assert visit.part("status").inner_text().startswith("Point 1 added at 0.25")
    visit.picture("keyboard")
    press("Enter")  # lift it
    press("ArrowLeft")
    press("Enter")  # and put it down
    press("ArrowLeft")
    assert visit.points() == [pytest.approx([0.2, 4 / 60], abs=1e-3)]
    press("n")
    press("Delete")
    assert visit.points() == []
    visit.wait("anchoredDemo.frame.n_points == 0")


def test_every_control_has_a_name_and_says_what_it_does(visit):
    visit.open()
    nameless = visit.read(
        """() => [...document.querySelectorAll("input, select")]
          .filter((e) => !e.labels.length || !e.labels[0].textContent.trim())
          .map((e) => e.outerHTML)"""
    )
    assert nameless == []
    unexplained = visit.read(
        """() => [...document.querySelectorAll(".controls input, .controls select")].filter((e) => {
          const hint = document.getElementById(e.getAttribute("aria-describedby"));
          return !hint || hint.textContent.trim().length < 10;
        }).map((e) => e.dataset.testid)"""
    )
    assert unexplained == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_does_not_scroll_sideways(browser, address, artefacts, scheme):
    size = {"width": 390, "height": 844}
    options = {"viewport": size, "color_scheme": scheme, "has_touch": True, "is_mobile": True}
    with browser.new_context(**options) as context:
        visit = Visit(context.new_page(), address, artefacts)
        visit.open()
        for name in ("regression", "classification", "rms"):
            visit.tab(name)
            wide = "document.documentElement.scrollWidth"
            assert visit.read(wide) == 390, name
            visit.picture(f"phone_{scheme}_{name}", full_page=True)
        visit.tab("regression")
        visit.part("regression-plot").scroll_into_view_if_needed()
        visit.page.touchscreen.tap(*visit.where(0.4, 1.0))
        visit.wait("anchoredDemo.frame.n_points == 7")
        dark = visit.read("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark == (scheme == "dark")
        assert visit.complaints == []


def test_a_lost_connection_is_found_again_with_everything_kept(visit):
    lines = []

    def pass_on(line):
        line.connect_to_server()
        lines.append(line)

    visit.page.route_web_socket(re.compile("/ws$"), pass_on)
    visit.open()
    visit.click(1.0, 1.0)
    visit.wait("anchoredDemo.frame.n_points == 7")
    drawn = visit.read("anchoredDemo.drawn")
    lines[0].close(code=1001, reason="The demo was stopped.")
    visit.wait("!document.getElementById('connection').hidden")
    assert "are kept" in visit.part("connection").inner_text()
    visit.wait("document.getElementById('connection').hidden")
    visit.wait(f"anchoredDemo.drawn > {drawn}")
    assert visit.frame()["n_points"] == len(visit.points()) == 7


def test_the_picture_can_be_saved(visit, tmp_path):
    visit.open()
    with visit.page.expect_download() as download:
        visit.part("save-picture").click()
    assert download.value.suggested_filename == "anchored-regression.png"
    saved = tmp_path / "saved.png"
    download.value.save_as(saved)
    content = saved.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(content) > 10_000


@pytest.mark.slow
def test_odd_settings_draw_without_complaint(visit):
    """One network, huge steps that diverge, the widest network, a flood of changes."""
    visit.open("#tab=regression&n_members=1&width=4")
    visit.train(200)
    assert visit.read("anchoredDemo.frame.members.length") == 1
    visit.open("#tab=regression&width=1024&learning_rate=0.2&noise_var=1e-5&activation=relu")
    visit.train(200)
    visit.picture("regression_odd")
    box = visit.part("regression-plot").bounding_box()
    visit.page.mouse.move(*visit.where(*visit.points()[0]))
    visit.page.mouse.down()
    for k in range(300):
        visit.page.mouse.move(box["x"] + 100 + k, box["y"] + 150)
    visit.page.mouse.up()
    visit.part("regression-step").click()
    visit.wait(f"anchoredDemo.frame.step > {visit.frame()['step']}")
    assert "messages a second" not in visit.part("status").inner_text()
    assert visit.frame()["n_points"] == 6


@pytest.mark.slow
def test_a_new_point_is_drawn_within_200_ms(visit):
    visit.open()
    visit.train(200)
    visit.part("regression-run").click()
    visit.wait("anchoredDemo.frame.running")
    took = []
    for k in range(10):
        visit.read(WATCH)
        visit.click(-1.3 + 0.05 * k, 0.5)
        took.append(visit.wait("window.took"))
    assert np.median(took) < 200


# Milliseconds from the press of the mouse to the first picture with one more point.
WATCH = """() => {
  window.took = 0;
  const before = anchoredDemo.frame.n_points;
  document.addEventListener("pointerup", () => {
    const start = performance.now();
    const look = () => {
      if (anchoredDemo.frame.n_points > before) window.took = performance.now() - start;
      else requestAnimationFrame(look);
    };
    look();
  }, { once: true, capture: true });
}"""


@pytest.mark.slow
def test_twenty_pictures_a_second(visit):
    """Ten networks of 100 nodes with the exact answer over them."""
    visit.open()
    visit.train(500)
    visit.part("regression-run").click()
    visit.wait("anchoredDemo.frame.running")
    start, drawn = time.monotonic(), visit.read("anchoredDemo.drawn")
    time.sleep(5)
    rate = (visit.read("anchoredDemo.drawn") - drawn) / (time.monotonic() - start)
    assert rate >= 20
