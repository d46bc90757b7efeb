"""``anchored demo``: watch ensembles learn, in the browser."""

import os
import sys
import threading
from typing import Annotated

import typer

from anchored.cli._common import fail


def demo(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8765,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default is this machine alone.")
    ] = "127.0.0.1",
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Click points and watch ensembles learn beside the exact answer, in the browser."""
    from anchored.demo import run

    try:
        run(host, port, open_browser=browser, say=typer.echo)
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "websockets"):
            raise
        fail("the demo needs packages that are not installed: pip install 'anchored[demo]'.")
    except OSError as error:
        fail(f"cannot listen on {host}:{port}: {error.strerror or error}. Try another --port.")
    if any(thread.name.startswith("demo") for thread in threading.enumerate()):
        # A compilation under way cannot be stopped, and nothing is lost by leaving it.
        sys.stdout.flush()
        os._exit(0)
