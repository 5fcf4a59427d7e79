"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AsJson",
    "Dataset",
    "Engine",
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


ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO.toml", help="Network, protocol, workload, duration.")]
Sample = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Sampling period. Default: 0.1 s, at most a tenth of the duration."),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PROTOCOL, CLAIM or SECTION]...", help="Which claims. Default: all."),
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
