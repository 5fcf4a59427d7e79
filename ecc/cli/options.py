"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AsJson",
    "Clocking",
    "ClockingOfFluid",
    "Dataset",
    "Engine",
    "FluidTime",
    "Fresh",
    "Jobs",
    "Kept",
    "MeanRtt",
    "Names",
    "OnCluster",
    "Out",
    "Sample",
    "ScenarioFile",
    "Simulator",
    "Time",
    "TimeOfFluid",
    "fluid_options",
]


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]


class Engine(StrEnum):
    packet = "packet"
    fluid = "fluid"


class Simulator(StrEnum):
    packet = "packet"
    fluid = "fluid"
    live = "live"


class MeanRtt(StrEnum):
    flows = "flows"
    packets = "packets"


class Time(StrEnum):
    continuous = "continuous"
    discrete = "discrete"
    hybrid = "hybrid"


class FluidTime(StrEnum):
    continuous = "continuous"
    averaged = "averaged"
    discrete = "discrete"


class Clocking(StrEnum):
    ack = "ack"
    rate = "rate"


ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO.toml", help="Network, protocol, workload, duration.")]
Sample = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Sampling period. Default: 0.1 s, at most a tenth of the duration."),
]
TimeOfFluid = Annotated[
    FluidTime | None,
    typer.Option(
        "--time",
        help="Fluid runs: continuous (default); averaged: every action is spread evenly over its interval, as in"
        " continuous linear models; discrete: in steps of an interval, or of an RTT for windows.",
    ),
]
ClockingOfFluid = Annotated[
    Clocking | None,
    typer.Option(
        "--clocking",
        help="Fluid runs of windows: ack (default): ACKs clock them; rate: sent at the window over the RTT.",
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="PROTOCOL|CLAIM|SECTION", help="Claims, by protocol, id or section. Default: all."),
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for report.html, report.md and results.json.")]
Dataset = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder for the findings as a data set: CSV tables and their Frictionless datapackage.json."
    ),
]
Kept = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="SQLite file (of a folder: its results.sqlite) that keeps results. Default: in the user's cache.",
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Ignore stored results and replace them.")]
Jobs = Annotated[int, typer.Option(metavar="N", min=0, max=10_000, help="Worker processes; 0: one a core.")]
OnCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Scheduler of a Dask cluster, as tcp://host:8786, whose workers do the work.",
    ),
]


def fluid_options(engine: StrEnum, time: FluidTime | None, clocking: Clocking | None) -> dict[str, str]:
    """Return the options of a fluid run; refuse them with another engine."""
    chosen = {"time": time, "clocking": clocking}
    options = {name: str(value) for name, value in chosen.items() if value is not None}
    if options and engine != Engine.fluid:
        raise ValueError(f"time and clocking need --engine fluid, got {engine}")
    return options
