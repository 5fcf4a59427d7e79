"""`ecc node`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ecc.cli.app import FAILED, INTERRUPTED, app
from ecc.cli.options import AsJson
from ecc.cli.output import complain, print_json
from ecc.cli.parsing import quantity_or_none
from ecc.cli.work import begin_work, end_work

__all__ = ["run_node"]


@app.command(name="node", short_help="Run one machine's part of a scenario on a real network.")
def run_node(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.toml", help="The same on all machines.")],
    machine: Annotated[int, typer.Argument(metavar="MACHINE", help="Number of this machine.")],
    link: Annotated[
        list[str],
        typer.Option(
            metavar="MACHINE=INTERFACE,ADDRESS",
            help="Another machine, the interface here, and the MAC address there: 1=eth1,52:54:00:12:34:56."
            " Once for each that packets go to or come from.",
        ),
    ],
    token_file: Annotated[
        Path,
        typer.Option(metavar="FILE", help="A secret of at least 16 characters, new for each run; on all machines."),
    ],
    machines: Annotated[
        str,
        typer.Option(metavar="NODES", help="Live nodes of each machine, as in 0,1/2 (0, 1: hosts; 2, ...: routers)."),
    ] = "hosts/routers",
    slow: Annotated[float, typer.Option(metavar="K", help="Seconds of real time for one of the scenario.")] = 1.0,
    exact: Annotated[bool, typer.Option("--exact", help="Frames carry headers in full precision, too.")] = False,
    wait: Annotated[
        str, typer.Option(metavar="TIME", help="How long a machine without senders waits for the first frame.")
    ] = "60 s",
    json: AsJson = False,
) -> int:
    """Run what one machine has of a scenario, over a real interface to others; machines without senders start first."""
    from ecc.live import node
    from ecc.scenario import Scenario

    links: dict[int, tuple[str, str]] = {}
    for assigned in link:
        number, _, rest = assigned.partition("=")
        interface, _, address = rest.rpartition(",")
        if not number.isdecimal() or not interface:
            raise ValueError(f"link must be as in 1=eth1,52:54:00:12:34:56, got {assigned!r}")
        links[int(number)] = (interface, address)
    case, token = Scenario.from_toml(scenario), token_file.read_text(encoding="utf-8").strip()
    begin_work()
    run = node(
        case,
        machine,
        links,
        token,
        machines=machines,
        slow=slow,
        exact=exact,
        wait=quantity_or_none(wait) or 0.0,
        ready=lambda: print("ready", file=sys.stderr, flush=True),
    )
    end_work()
    if json:
        print_json(run.to_dict())
    else:
        print(run)
    if run.stopped != "completed":
        complain(f"the run ended at {run.simulated:g} of {case.duration:g} s: {run.stopped}")
    return 0 if run.stopped == "completed" else INTERRUPTED if run.stopped == "interrupted" else FAILED
