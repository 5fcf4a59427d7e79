"""`ecc dissector`."""

from __future__ import annotations

import typer

from ecc.cli.app import app

__all__ = ["print_dissector"]


@app.command(name="dissector")
def print_dissector() -> int:
    """Print a Wireshark dissector (Lua) for the congestion headers in captures."""
    from ecc.packet.dissector import dissector

    typer.echo(dissector(), nl=False)
    return 0
