"""``import anchored`` is light, and nothing heavy comes in by a side door."""

import subprocess
import sys

import pytest

import anchored


def run(code):
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return result.stdout.split()


def test_import_loads_nothing_heavy():
    heavy = ["sklearn", "matplotlib", "pandas", "optax", "pooch", "rich", "typer", "scipy.stats"]
    code = f"import sys, anchored; print(*[m for m in {heavy} if m in sys.modules])"
    assert run(code) == []


def test_estimators_do_not_load_plotting_or_the_command_line():
    heavy = ["matplotlib", "rich", "typer"]
    code = (
        "import sys; from anchored import AnchoredRegressor;"
        f"AnchoredRegressor(n_members=2, epochs=1, prior=1.0, noise_var=1.0);"
        f"print(*[m for m in {heavy} if m in sys.modules])"
    )
    assert run(code) == []


def test_every_public_name_loads_and_is_documented():
    assert sorted(anchored.__all__) == [n for n in dir(anchored) if not n.startswith("__")]
    for name in anchored.__all__:
        assert getattr(anchored, name).__doc__, f"{name} has no docstring"
    with pytest.raises(AttributeError, match="has no attribute 'Regressor'"):
        _ = anchored.Regressor


def test_64_bit_mode_is_not_switched_on():
    code = "import anchored.exact.gp, jax.numpy as jnp; print(jnp.zeros(1).dtype)"
    assert run(code) == ["float32"]
