"""``anchored export``: a saved model for other programs."""

import importlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from anchored.cli._common import fail, model_errors


def export(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file that `anchored fit` wrote.")
    ],
    onnx: Annotated[Path, typer.Option("--onnx", help="ONNX file to write.")],
    network: Annotated[
        str | None,
        typer.Option(help="Your own network, as package.module:name in Python."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Write the networks as ONNX: mean, deviations and interval, or probabilities."""
    given = None if network is None else _imported(network)
    with model_errors(model):
        from anchored.model import file

        fitted = file.load(model)
    try:
        _write(model, fitted, onnx, given)
    except ImportError:
        fail("ONNX needs a package that is not installed: pip install 'anchored[onnx]'.")
    except (ValueError, TypeError, OSError) as error:
        fail(f"cannot export {model}: {' '.join(str(error).split())}")
    names = [] if fitted.encoder is None else list(fitted.encoder.feature_names)
    if as_json:
        record = {"schema": 1, "model": str(model), "onnx": str(onnx), "inputs": names}
        typer.echo(json.dumps(record))
    else:
        typer.echo(f"ONNX model: {onnx} (inputs: {', '.join(names) or 'as fitted'})")


def _write(model: Path, fitted: Any, onnx: Path, network: Any) -> None:
    """Write the graph with NumPy alone if that is enough, otherwise with JAX."""
    from anchored.model.onnx import write
    from anchored.model.runtime import COVERAGE

    coverage = fitted.provenance.get("coverage", COVERAGE)
    if fitted.members.network.is_dense or fitted.sampled is not None:
        write(fitted, onnx, coverage)
        return
    from anchored.estimators.loading import load

    load(model, network=network).export_onnx(onnx, coverage)


def _imported(name: str) -> Any:
    """What a module of Python has under a name."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, "")  # as `python -m` does
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        fail(f"--network must name a Python object as package.module:name; got {name}: {error}.")
    finally:
        sys.path.remove("")
