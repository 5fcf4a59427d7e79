"""`ecc check`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ecc.cli.app import REFUTED, app, examples
from ecc.cli.options import AsJson
from ecc.cli.output import print_items, print_json, progress_bar, table_of
from ecc.cli.parsing import pair_of, protocol_of

__all__ = ["check_properties"]


@app.command(
    name="check",
    short_help="Test twelve properties of a protocol on drawn scenarios.",
    epilog=examples("ecc check my_protocol.py:Mine", "ecc check CUBIC --links PI2"),
)
def check_properties(
    protocol: Annotated[
        str,
        typer.Argument(metavar="PROTOCOL", help="Name of a protocol, or module:Class or file.py:Class of your own."),
    ],
    links: Annotated[
        str | None,
        typer.Option(metavar="DISCIPLINE", help="Queue discipline of the links. Default: the protocol's own routers."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Value of a parameter; with --links, flows.NAME or links.NAME. May be given again.",
        ),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME", help="Property to check. Default: all. May be given again."),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=100_000, help="Scenarios for each property. Default: 8."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two scenarios for each property, and less shrinking.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Test a protocol: check its properties on drawn scenarios; exit code 4 if one of them is violated.

    Each property is checked on scenarios within the operating range of the protocol. The smallest scenario that
    violates a property is printed as Python code.
    """
    from ecc._support.reports import Progress
    from ecc.testing import check_protocol

    subject: Any
    if links is None:
        subject = protocol_of(protocol, settings or ())
        if not subject.has_hosts():
            raise ValueError(f"PROTOCOL must have hosts, got {protocol}, a queue discipline: give it with --links")
    else:
        subject = pair_of(protocol, links, settings or ())
    with progress_bar(not json) as bar:
        task = bar.add_task("properties", total=1.0)

        def show(step: Progress) -> None:
            bar.update(task, description=step.text, completed=step.share)

        report = check_protocol(subject, properties or (), examples=examples, quick=quick, progress=show)
    if json:
        print_json(report.to_dict())
    else:
        rows = [(result.name, result.status, result.examples, result.text) for result in report.findings]
        print_items(table_of(f"Properties of {report.protocol}", ("property", "status", "examples", "detail"), rows))
        for finding in report.violated:
            if finding.example:
                print(f"{finding.name}: {finding.example}")
    return 0 if report.passed else REFUTED
