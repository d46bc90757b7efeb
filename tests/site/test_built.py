"""The built site in Chromium, opened from the file system: `make site-check`."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from anchored_site.places import ROOT

import anchored

SITE = ROOT / "build" / "site" / "html"
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
LOOKED_AT = ("index", "start", "live", "gallery/02_noise_that_changes", "api/anchored")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="no site: run `make site`"),
]


class Page(HTMLParser):
    """What a page links to, loads and names."""

    def __init__(self, path: Path):
        super().__init__()
        self.links, self.loads, self.names, self.pictures = [], [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.names |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in ("script", "img", "source") and given.get("src"):
            self.loads.append(given["src"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(given["href"])
        if tag == "img":
            self.pictures.append((given.get("src"), given.get("alt")))


def built():
    """Pages that readers open; what the theme keeps in `_static` is none."""
    return [path for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts]


@pytest.fixture(scope="module")
def pages():
    return {path: Page(path) for path in built()}


def test_links_and_pictures_lead_somewhere(pages):
    assert len(pages) > 60
    for path, page in pages.items():
        for address in page.links + page.loads:
            parts = urlsplit(address)
            if parts.scheme in ("http", "https", "mailto", "data"):
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{path.relative_to(SITE)} leads to {address}"
            if parts.fragment and target.suffix == ".html":
                names = pages[target].names
                assert unquote(parts.fragment) in names, f"{path.relative_to(SITE)}: {address}"


def test_nothing_is_loaded_from_elsewhere(pages):
    for path, page in pages.items():
        for address in page.loads:
            assert not urlsplit(address).scheme or address.startswith("data:"), (path, address)


def test_every_picture_has_an_alt_text(pages):
    for path, page in pages.items():
        for source, words in page.pictures:
            assert words, f"{path.relative_to(SITE)}: {source}"


def test_every_page_says_what_it_was_built_from(pages):
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert f"anchored {anchored.__version__}, built from " in text, path


def test_the_gallery_can_be_downloaded_and_says_how_long_it_takes():
    examples = sorted((ROOT / "examples" / "gallery").glob("*.py"))
    assert len(examples) >= 12
    total = 0.0
    for path in examples:
        text = (SITE / "gallery" / f"{path.stem}.html").read_text(encoding="utf-8")
        assert f"{path.stem}.ipynb" in text
        minutes, seconds = re.search(
            r"running time of the script:</strong> \((\d+) minutes ([\d.]+) seconds\)", text
        ).groups()
        total += 60 * int(minutes) + float(seconds)
    assert 0 < total < 240


def complaints_of(page):
    found = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on(
        "console",
        lambda said: found.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(("file:", "data:")) else found.append(asked.url),
    )
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_pages_open_without_errors_and_fit_the_screen(browser, tmp_path, scheme, size):
    folder = Path(os.environ.get("ANCHORED_ARTEFACTS", tmp_path))
    with browser.new_context(viewport=size, color_scheme=scheme) as context:
        for path in built():
            page = context.new_page()
            complaints = complaints_of(page)
            page.goto(path.as_uri())
            name = path.relative_to(SITE).with_suffix("").as_posix()
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], name
            assert complaints == [], name
            dark = page.evaluate("document.documentElement.dataset.theme") == "dark"
            assert dark == (scheme == "dark")
            if name in LOOKED_AT:
                shot = f"site_{scheme}_{size['width']}_{name.replace('/', '_')}.png"
                page.screenshot(path=folder / shot)
            page.close()


def test_search_works_from_the_file_system(browser):
    page = browser.new_page()
    complaints = complaints_of(page)
    page.goto((SITE / "search.html").as_uri() + "?q=conformal")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li").count() > 2
    assert complaints == []
    page.close()


def test_pages_can_be_used_with_the_keyboard(browser):
    """Every control of the live page is reached by Tab, and what has the focus is visible."""
    page = browser.new_page(viewport=DESK)
    page.goto((SITE / "live.html").as_uri())
    wanted = set(
        page.evaluate(
            """[...document.querySelectorAll(".live input, .live select")].map((e) => e.id)"""
        )
    )
    assert len(wanted) >= 9
    page.keyboard.press("Tab")
    assert "main content" in page.evaluate("document.activeElement.textContent")
    for _ in range(80):
        wanted.discard(page.evaluate("document.activeElement.id"))
        page.keyboard.press("Tab")
    assert wanted == set()
    page.locator("#curve-x").focus()
    before = page.locator("#curve-words").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator("#curve-words").inner_text() != before
    page.close()


def test_every_control_of_the_live_page_has_a_name(browser):
    page = browser.new_page()
    page.goto((SITE / "live.html").as_uri())
    nameless = page.evaluate(
        """[...document.querySelectorAll(".live input, .live select")]
             .filter((e) => !e.labels.length || !e.labels[0].textContent.trim()).map((e) => e.id)"""
    )
    assert nameless == []
    page.close()
