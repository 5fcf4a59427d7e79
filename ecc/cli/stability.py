"""`ecc stability`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ecc.cli.app import app, examples
from ecc.cli.options import AsJson, MeanRtt, Time
from ecc.cli.output import complain, print_json, print_text, progress_bar
from ecc.cli.parsing import (
    dumbbell_or_chain,
    number_or_text,
    pair_of,
    pair_with_settings,
    protocol_of,
    settings_of,
)
from ecc.errors import LinearizationError

__all__ = ["stability"]


_LONG_RTT = 5.0
"""Seconds: an RTT from here on that has no unit may have been meant in milliseconds."""


@app.command(
    short_help="Print stable intervals, verdicts and margins.",
    epilog=examples(
        "ecc stability FAST",
        "ecc stability RCP --rtt 100ms",
        "ecc stability CUBIC --links PI2 --rtt 100ms",
        "ecc stability NewReno --rtt 100ms --buffer 100kB",
        "ecc stability my_protocol.py:Mine --rtt 20ms --set alpha=0.2",
    ),
)
def stability(
    protocol: Annotated[
        str,
        typer.Argument(
            metavar="PROTOCOL or SCENARIO.toml",
            help="Name of a protocol; module:Class or file.py:Class of your own; or a scenario file with protocol and"
            " network.",
        ),
    ],
    rtt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TIME",
            help="Propagation RTT of a flow; once for each flow, or once for all flows of a chain of links.",
        ),
    ] = None,
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RATE",
            help="Capacity of the bottleneck. Default: 100 Mb/s. Several times: a chain of links; flow 0"
            " crosses all, each other flow one.",
        ),
    ] = None,
    buffer: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Buffer of each link. Default: no limit."),
    ] = None,
    links: Annotated[
        str | None,
        typer.Option(metavar="DISCIPLINE", help="Queue discipline of the links. Default: the protocol's own routers."),
    ] = None,
    network: Annotated[
        Path | None, typer.Option(metavar="SCENARIO.toml", help="Scenario file that gives links and flows.")
    ] = None,
    parameter: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Parameter whose stable interval is computed. Default: the main gain of the protocol."
        ),
    ] = "",
    time: Annotated[
        list[Time] | None,
        typer.Option(metavar="<continuous|discrete|hybrid>", help="Linear model; may be given again. Default: all."),
    ] = None,
    mean_rtt: Annotated[
        MeanRtt | None, typer.Option(help="A router's mean RTT is over its flows or packets. Default: flows.")
    ] = None,
    clocking: Annotated[
        str | None,
        typer.Option(
            metavar="<ack|rate>",
            help="Of windows: 'ack' (clocked by ACKs) or 'rate' (paced: queues integrate rates). Default: 'ack', with"
            " the verdict of the other.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Value of a parameter; with --links, flows.NAME or links.NAME. May be given again.",
        ),
    ] = None,
    json: AsJson = False,
) -> int:
    """Print the stable interval of a parameter, the verdicts and the margins of a protocol's linear models.

    A protocol without linear models has its limit cycle instead, and how fast deviations from it decay.

    Without --rtt and a scenario: the verdicts of all linear models on the protocol's reference network.
    """
    from dataclasses import replace

    from ecc.models import Protocol
    from ecc.scenario import Scenario
    from ecc.stability import analyze

    if network is not None and protocol.endswith(".toml"):
        raise ValueError(f"network must not be given beside a scenario, which has its own, got {network}")
    scenario = network or (Path(protocol) if protocol.endswith(".toml") else None)
    if scenario is None and not rtt:
        of_networks = {
            "capacity": capacity,
            "buffer": buffer,
            "links": links,
            "parameter": parameter,
            "mean-rtt": mean_rtt,
            "clocking": clocking,
        }
        if unused := [f"--{name}" for name, value in of_networks.items() if value]:
            raise ValueError(
                "rtt must be given for each flow (--rtt 100ms), or a network (--network SCENARIO.toml), with "
                f"{unused[0]}"
            )
        return _print_verdicts(protocol, settings or (), None if time is None else [str(name) for name in time], json)
    if scenario is not None and (rtt or capacity or buffer):
        raise ValueError(
            f"rtt, capacity and buffer must not be given beside a scenario, which has its own, got {scenario}"
        )
    if links is not None and protocol.endswith(".toml"):
        raise ValueError(f"links must not be given beside a scenario with its own protocol, got {scenario}")
    case = None if scenario is None else Scenario.from_toml(scenario)
    if case is not None and protocol.endswith(".toml"):
        chosen: Any = case.protocol
        if isinstance(chosen, Protocol):
            chosen = replace(chosen, **settings_of(type(chosen), settings or ()))
        else:
            chosen = pair_with_settings(chosen, settings or ())
    elif links is not None:
        chosen = pair_of(protocol, links, settings or ())
    else:
        chosen = protocol_of(protocol, settings or ())
    over = dumbbell_or_chain(rtt or (), capacity or ("100 Mb/s",), buffer) if case is None else case.network
    for text in rtt or ():
        if isinstance(number_or_text(text), float) and float(text) >= _LONG_RTT:
            complain(f"note: an RTT of {text} is {text} s; for milliseconds: --rtt {text}ms")
    times = None if time is None else [str(name) for name in time]
    with progress_bar() as bar:
        task = bar.add_task("", total=None)
        assigned: dict[str, Any] = {"assignment": case.assigned} if case and case.assignment is not None else {}
        assigned |= {"mean_rtt": mean_rtt.value} if mean_rtt else {}
        assigned |= {"clocking": clocking} if clocking else {}
        try:
            analysis = analyze(
                chosen, over, parameter, times, progress=lambda what: bar.update(task, description=what), **assigned
            )
        except LinearizationError as error:
            raise LinearizationError(str(error).replace("clocking='rate'", "--clocking rate")) from None
    if json:
        print_json(analysis.to_dict())
    else:
        print_text(str(analysis))
    return 0


def _print_verdicts(name: str, settings: Sequence[str], times: Sequence[str] | None, json: bool) -> int:
    """Print the verdicts of all linear models of a protocol on its reference network."""
    from ecc.stability import verdicts
    from ecc.stability.verdict_text import records, table_text

    chosen = protocol_of(name, settings)
    with progress_bar() as bar:
        task = bar.add_task("", total=None)
        table = verdicts(chosen, progress=lambda what: bar.update(task, description=what))
    if times is not None:
        attrs, table = table.attrs, table[table.time.isin(["", *times])]
        table.attrs.update(attrs)
        if table.empty:
            raise ValueError(f"time must be one of a linear model of {attrs['protocol']}, got {', '.join(times)}")
    if json:
        print_json(records(table))
    else:
        print_text(table_text(table))
    return 0
