"""`ecc access-link`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecc.cli.app import INTERRUPTED, app, examples
from ecc.cli.options import AsJson
from ecc.cli.output import complain, print_json, print_text, progress_bar
from ecc.cli.parsing import number_or_text, settings_of
from ecc.cli.work import begin_work, end_work

if TYPE_CHECKING:
    import pandas as pd

    from ecc.contract.protocol import Protocol

__all__ = ["access_link"]


@app.command(
    name="access-link",
    short_help="Compare queue disciplines on an access link.",
    epilog=examples(
        'ecc access-link --rate "50 Mb/s" --rtt 20ms:80ms',
        'ecc access-link --rate "10 Mb/s" --rtt 30ms --mix cubic:4,web:0.2,nada --out report',
        'ecc access-link --rate "50 Mb/s" --rtt 20ms --discipline CoDel --discipline CoDel:target=20ms',
    ),
)
def access_link(
    rate: Annotated[str, typer.Option(metavar="RATE", help='Rate of the link, for example "50 Mb/s".')],
    rtt: Annotated[
        str, typer.Option(metavar="MIN:MAX", help="RTTs without queues, for example 20ms:80ms, or one RTT.")
    ] = "20ms:80ms",
    mix: Annotated[
        str,
        typer.Option(
            metavar="NAME:N,...",
            help="Traffic: cubic, newreno, bbr and prague downloads, web and stream (constant rate) with their"
            " share of the rate, as in web:0.1, and call, game or nada, whose delays are measured.",
        ),
    ] = "cubic:2,bbr,web,call",
    discipline: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE]",
            help="Discipline, with parameters; may be given again. Default: DropTail, CoDel, PIE, FQCoDel, DualPI2 and"
            " CAKE at 95 % of the rate.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Number of runs of each discipline. Default: 5.")] = 5,
    buffer: Annotated[str, typer.Option(metavar="TIME", help="Delay of a full buffer. Default: 200ms.")] = "200ms",
    duration: Annotated[str, typer.Option(metavar="TIME", help="Duration of a run. Default: 20s.")] = "20s",
    aggregation: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="ACKs of downloads wait for others up to this time, as in Wi-Fi. Default: 0s, never."
        ),
    ] = "0s",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for results.csv (all runs) and figure.html.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Compare queue disciplines on an access link that downloads share with web pages and a call.

    Prints the delay that the link adds to the call's packets, the load times of web pages, the fairness of the
    downloads and the utilization: means over the runs, with 95 % confidence intervals. Ctrl-C prints what is computed.
    """
    from ecc._support.files import make_folder
    from ecc.comparison.access_link import AccessLink, default_disciplines, measured, summary

    low, _, high = rtt.partition(":")
    rtts = (number_or_text(low), number_or_text(high or low))
    link = AccessLink(number_or_text(rate), rtts, mix, *map(number_or_text, (buffer, duration, aggregation)))
    named = _named(discipline) if discipline else default_disciplines(float(link.rate))
    if out is not None:
        make_folder(out)
    rows: list[tuple[str, int, dict[str, float]]] = []
    interrupted = False
    begin_work()
    with progress_bar() as bar:
        task = bar.add_task("runs", total=len(named) * seeds)
        runs = measured(link, named, range(seeds), os.cpu_count() or 1)
        try:
            for row in runs:
                rows.append(row)
                bar.update(task, advance=1, description=f"{row[0]}, seed {row[1]}")
        except KeyboardInterrupt:
            interrupted = True
        finally:
            end_work()
            runs.close()
    rows = sorted((row for row in rows if row[2]), key=lambda row: ([*named].index(row[0]), row[1]))
    if interrupted:
        complain(f"interrupted after {len(rows)} of {len(named) * seeds} runs" + ("; results:" if rows else ""))
    if not rows:
        return INTERRUPTED
    table = summary(rows)
    if json:
        print_json({"access_link": table.reset_index().to_dict("records")})
    else:
        print_text(_text(table))
    if out is not None:
        _write(out, rows, table)
    return INTERRUPTED if interrupted else 0


def _named(texts: list[str]) -> dict[str, Protocol]:
    """Return the disciplines of --discipline, by their text."""
    from ecc.queues import all_disciplines

    kinds = {name.lower(): kind for name, kind in all_disciplines().items()}
    named: dict[str, Protocol] = {}
    for text in texts:
        name, *settings = text.split(":")
        kind = kinds.get(name.lower().replace("-", ""))
        if kind is None:
            raise ValueError(f"discipline must be one of {', '.join(all_disciplines())}, got {name!r}")
        values = settings_of(kind, settings, "--discipline")
        if "mark" in getattr(kind, "__dataclass_fields__", {}):
            values = {"mark": True} | values
        named[text] = kind(**values)
    return named


def _text(table: pd.DataFrame) -> str:
    """Return the table of means with their intervals."""
    from ecc.comparison.access_link import COLUMNS

    heads = ["discipline", *(_HEADS[name] for name in COLUMNS)]
    lines = [heads]
    for name, row in table.iterrows():
        lines.append([str(name), *(_cell(row[column], row[f"{column} ±"]) for column in COLUMNS)])
    widths = [max(len(line[k]) for line in lines) for k in range(len(heads))]
    rows = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    text = "\n".join(f"  {row}".rstrip() for row in rows)
    n = int(table["runs"].min())
    return (
        f"{text}\n\nMeans of {n} runs with 95 % confidence intervals. The delay is the time that packets or frames"
        " of the call wait in addition to the RTT without queues.\n"
    )


_HEADS = {
    "delay_50": "delay 50 % [ms]",
    "delay_95": "95 %",
    "delay_99": "99 %",
    "lost": "lost [%]",
    "web_50": "page 50 % [ms]",
    "web_99": "99 %",
    "fairness": "fairness",
    "utilization": "used [%]",
}


def _cell(value: float, error: float) -> str:
    """Return a mean with its interval."""
    if value != value:
        return "-"
    return f"{value:.3g}" + ("" if error != error else f" ± {error:.2g}")


def _write(folder: Path, rows: list[Any], table: pd.DataFrame) -> None:
    """Write all runs and the figure."""
    import pandas as pd

    from ecc.plot.access_link import access_link_figure
    from ecc.plot.look import as_html

    runs = pd.DataFrame([{"discipline": name, "seed": seed, **values} for name, seed, values in rows])
    runs.to_csv(folder / "results.csv", index=False)
    (folder / "figure.html").write_text(as_html(access_link_figure(table)), encoding="utf-8")
    print(f"runs: {folder / 'results.csv'}\nfigure: {folder / 'figure.html'}")
