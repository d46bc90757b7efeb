"""The ``anchored`` command: parses, calls, prints. One module for each of its commands."""

from typing import Annotated

import typer

from anchored.cli import compile_cache
from anchored.cli._inputs import OLD_NAMES
from anchored.cli.demo import demo
from anchored.cli.export import export
from anchored.cli.fit import fit
from anchored.cli.predict import predict
from anchored.cli.report import report
from anchored.cli.reproduce import reproduce
from anchored.cli.serve import serve
from anchored.cli.tune import tune

app = typer.Typer(
    help="Error bars for neural networks that you can check.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(context_settings=OLD_NAMES)(fit)
app.command()(predict)
app.command()(report)
app.command()(export)
app.command()(serve)
app.command()(reproduce)
app.command(context_settings=OLD_NAMES)(tune)
app.command()(demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        from anchored import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and stop.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Error bars for neural networks that you can check."""
    compile_cache.switch_on()
