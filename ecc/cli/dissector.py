"""`ecc dissector`."""

from __future__ import annotations

import typer

from ecc.cli.app import app, examples

__all__ = ["print_dissector"]


@app.command(
    name="dissector",
    short_help="Print a Wireshark dissector for congestion headers.",
    epilog=examples("ecc dissector > ecc.lua"),
)
def print_dissector() -> int:
    """Print a Wireshark dissector (Lua) for the congestion headers in captures."""
    from ecc.packet.dissector import dissector

    typer.echo(dissector(), nl=False)
    return 0
