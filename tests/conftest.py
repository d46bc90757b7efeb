"""Fixed seeds, key reuse checked, no network; a browser and the UCI tables if they are there.

Compiled programs are kept between runs, as the commands keep them (`anchored.cli.compile_cache`).
"""

import gc
import os
import shutil
from pathlib import Path

from anchored.cli import compile_cache

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # or scikit-learn skips two of its checks
compile_cache.switch_on()  # before JAX is imported

import jax
import numpy as np
import pytest
from hypothesis import settings

from anchored import Data

MOST_MAPS = 20_000
jax.config.update("jax_debug_key_reuse", True)
settings.register_profile("anchored", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("anchored")


@pytest.fixture(scope="session", autouse=True)
def offline(tmp_path_factory):
    """No test downloads but from its own server, or reads what was downloaded before."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        for scheme in ("http", "https"):
            patch.setenv(f"{scheme}_proxy", "http://127.0.0.1:9")  # nobody listens there
        patch.setenv("no_proxy", "127.0.0.1")
        patch.setattr("pooch.os_cache", lambda project: cache / project)
        yield


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Programs are dropped before they need more memory maps than Linux gives a process.

    That is 65,530 by default. A process that has no more is ended by JAX in the midst of a test.
    """
    yield
    maps = Path("/proc/self/maps")
    if maps.is_file() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def line_data():
    """Forty noisy points on a plane: x [40, 3], y [40]."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 3))
    return Data.make(x, x @ [1.0, -0.5, 0.2] + 0.1 * rng.normal(size=40))


@pytest.fixture(scope="session")
def uci_folder():
    """Folder of the UCI tables: ANCHORED_DATA, or shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("ANCHORED_DATA", beside))
    if not (folder / "boston.txt").is_file():
        pytest.skip("no UCI tables: set ANCHORED_DATA to a folder that has boston.txt")
    return folder


@pytest.fixture(scope="session")
def chromium():
    """Path of a Chromium, such as `make test` installs where it may."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("NO CHROMIUM FOUND: nothing was tried in a browser (apt-get install chromium)")
    return found
