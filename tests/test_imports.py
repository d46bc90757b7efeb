"""``import anchored`` is light, and nothing heavy comes in by a side door."""

import subprocess
import sys
from importlib import resources

import pytest

import anchored

# Packages of the extras and of the commands: loaded when they are used.
OPTIONAL = {
    "PIL",
    "blackjax",
    "duckdb",
    "gymnasium",
    "gymnasium_robotics",
    "matplotlib",
    "mujoco",
    "onnx",
    "onnxruntime",
    "optuna",
    "pandas",
    "polars",
    "pooch",
    "pyarrow",
    "pyspark",
    "ray",
    "rich",
    "starlette",
    "typer",
    "uvicorn",
    "websockets",
}


def run(code):
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return result.stdout.split()


def loaded(code, before="pass"):
    """Packages that are not Python's own and that ``code`` loads after ``before``."""
    names = "{n.partition('.')[0] for n in sys.modules}"
    known = f"{names} | sys.stdlib_module_names"
    return set(run(f"import sys; {before}; known = {known}\n{code}\nprint(*{names} - known)"))


def test_import_loads_no_other_package(capsys):
    code = (
        "import time, jax; a = time.process_time(); import anchored; print(time.process_time()-a)"
    )
    with capsys.disabled():
        print(f" [import anchored: {float(*run(code)):.3f} s above jax] ", end="")
    assert loaded("import anchored") == {"anchored"}  # not even jax


def test_names_load_nothing_optional():
    """scikit-learn itself loads pandas and pyarrow where they are installed."""
    ours = loaded("from anchored import *", before="import sklearn.base")
    assert "jax" in ours
    assert not ours & OPTIONAL


def test_commands_start_without_jax():
    """So that JAX meets the settings of `anchored.cli.compile_cache`."""
    assert not loaded("import anchored.cli") & {"jax", "numpy", "sklearn"}


def test_every_public_name_loads_and_is_documented():
    names = [*anchored.__all__, *anchored._MODULES]
    assert sorted(names) == [n for n in dir(anchored) if not n.startswith("__")]
    for name in names:
        assert getattr(anchored, name).__doc__, f"{name} has no docstring"
    with pytest.raises(AttributeError, match="has no attribute 'Regressor'"):
        _ = anchored.Regressor


def test_types_are_shipped():
    assert resources.files("anchored").joinpath("py.typed").is_file()


def test_64_bit_mode_is_not_switched_on():
    code = "import anchored.exact.gp, jax.numpy as jnp; print(jnp.zeros(1).dtype)"
    assert run(code) == ["float32"]
