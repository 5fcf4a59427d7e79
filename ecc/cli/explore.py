"""`ecc explore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ecc.cli.app import app, examples

__all__ = ["explore"]


@app.command(
    short_help="Open a page on which sliders move parameters of a loop.",
    epilog=examples(
        "ecc explore",
        "ecc explore PIQI-RCP --rtt 100ms --rtt 300ms",
        "ecc explore --scenario scenario.toml --port 8000 --no-browser",
    ),
)
def explore(
    protocol: Annotated[
        str, typer.Argument(metavar="PROTOCOL", help="Name of a protocol. Default: PIQI-RCP.", show_default=False)
    ] = "",
    rtt: Annotated[
        list[str] | None,
        typer.Option(metavar="TIME", help="Propagation RTT; once for each flow. Default: the protocol's reference."),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="SCENARIO.toml", help="Scenario file, whose protocols, network and parameters are shown."),
    ] = None,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0: any free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")] = False,
) -> int:
    """Open a page with a block diagram, Nyquist and Bode curves, roots, runs and verdicts, redrawn as sliders move.

    The page is served on 127.0.0.1 until Ctrl-C, and only to those who know its address, which has a random token.
    """
    from ecc.cli.parsing import number_or_text
    from ecc.explorer.server import serve
    from ecc.explorer.view import view_of
    from ecc.scenario import Scenario

    if scenario is not None:
        if protocol or rtt:
            raise ValueError(f"PROTOCOL and --rtt cannot be combined with --scenario, got {protocol or rtt}")
        case = Scenario.from_toml(scenario)
        view = view_of(case.protocol, case.network, case.duration)
    else:
        view = view_of(protocol or "PIQI-RCP", rtts=[number_or_text(text) for text in rtt or ()])
    serve(view, port, not no_browser, lambda address: print(f"{address}\nCtrl-C ends it.", flush=True))
    return 0
