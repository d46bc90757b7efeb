"""``anchored serve``: predictions over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from anchored.cli._common import fail, model_errors


def serve(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file that `anchored fit` wrote.")
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default is this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8766,
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows in one request.")] = 50_000,
    max_bytes: Annotated[int, typer.Option(min=1_024, help="Most bytes in one request.")] = 8 << 20,
    max_requests: Annotated[
        int, typer.Option(min=1, help="Most requests to answer at the same time.")
    ] = 256,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Most seconds that a request may take to arrive.")
    ] = 10.0,
    window: Annotated[
        float,
        typer.Option(
            min=0,
            max=1_000,
            help="Milliseconds to wait for other requests, to predict all of them together.",
        ),
    ] = 0.0,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Host name that clients may use for this server; repeat the option for several."
        ),
    ] = None,
) -> None:
    """Answer requests for predictions, as JSON or Arrow, until Ctrl-C."""
    with model_errors(model):
        from anchored.model import runtime
        from anchored.serving.batches import as_predictor
        from anchored.serving.limits import Limits

        as_predictor(runtime.load(model))
    try:
        from anchored.serving.server import serve as run
        from anchored.tables.arrow import pyarrow

        pyarrow()
    except ModuleNotFoundError:
        fail("serving needs packages that are not installed: pip install 'anchored[serve]'.")
    limits = Limits(max_bytes, max_rows, max_requests, body_seconds=timeout)
    try:
        run(
            model,
            host,
            port,
            limits=limits,
            window=window / 1e3,
            allow_hosts=allow_host or (),
            on_listen=lambda url: typer.echo(f"Serving {model} at {url} (Ctrl-C stops it)."),
        )
    except OSError as error:
        fail(f"cannot listen on {host}:{port}: {error.strerror or error}. Try another --port.")
    typer.echo("The service has stopped.")
