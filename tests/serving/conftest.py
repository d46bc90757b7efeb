"""Models that the tests of serving share: a regressor and a classifier of flats."""

import pytest
from benchmarks.serving_engines import fitted, flats

from anchored import AnchoredClassifier


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    """The file of a regressor."""
    path = tmp_path_factory.mktemp("serving") / "model.safetensors"
    fitted(path, 400, n_members=3, hidden=(10,), epochs=10)
    return path


@pytest.fixture(scope="session")
def classes_path(tmp_path_factory):
    """The file of a classifier."""
    frame = flats(300)
    labels = ["dear" if price > 3 else "cheap" for price in frame["price"]]
    model = AnchoredClassifier(n_members=2, hidden=(5,), epochs=5, random_state=0)
    model.fit(frame[["size", "town"]], labels)
    path = tmp_path_factory.mktemp("serving") / "classes.safetensors"
    model.save(path)
    return path
