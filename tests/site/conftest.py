"""The site's own modules, and a browser."""

import sys
from pathlib import Path

import pytest

from tests.demo.test_browser import FLAGS, playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "site"))


@pytest.fixture(scope="module")
def browser(chromium):
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=chromium, args=FLAGS, headless=True)
        yield launched
        launched.close()
