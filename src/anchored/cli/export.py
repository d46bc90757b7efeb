"""``anchored export``: a saved model for other programs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from anchored.cli._common import fail, model_errors


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File of `anchored fit`.")],
    onnx: Annotated[Path, typer.Option("--onnx", help="ONNX file to write.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Write the networks as ONNX: mean, epistemic and total deviation, or probabilities."""
    with model_errors(model):
        from anchored.model import runtime

        loaded = runtime.load(model)
    from anchored.model.onnx import export as write_onnx

    try:
        write_onnx(loaded, onnx)
    except ImportError:
        fail("ONNX needs a package that is not installed: pip install 'anchored[onnx]'.")
    except (ValueError, OSError) as error:
        fail(f"cannot export {model}: {error}")
    names = [] if loaded.encoder is None else list(loaded.encoder.feature_names)
    if as_json:
        record = {"schema": 1, "model": str(model), "onnx": str(onnx), "inputs": names}
        typer.echo(json.dumps(record))
    else:
        typer.echo(f"ONNX model: {onnx} (inputs: {', '.join(names) or 'as fitted'})")
