"""`ecc` without a command, and `ecc --version`."""

from __future__ import annotations

from typing import Annotated

import typer

from ecc import __version__
from ecc.cli.app import app

__all__ = []


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=lambda wanted: _version(wanted), help="Print the version."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ecc {__version__}")
        raise typer.Exit()
