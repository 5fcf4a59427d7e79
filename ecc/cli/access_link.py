"""`ecc access-link`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecc.cli.app import INTERRUPTED, app, examples
from ecc.cli.options import AsJson
from ecc.cli.output import complain, print_json, print_text, progress_bar
from ecc.cli.parsing import settings_of
from ecc.cli.work import begin_work, end_work

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from ecc.comparison.access_link import AccessLink
    from ecc.contract.protocol import Protocol

__all__ = ["access_link"]


@app.command(
    name="access-link",
    short_help="Compare queue disciplines on an access link.",
    epilog=examples(
        'ecc access-link --rate "50 Mb/s" --rtt 20ms:80ms',
        'ecc access-link --rate "10 Mb/s" --rtt 30ms --mix cubic:4,web:0.2,nada --out report',
        'ecc access-link --rate "50 Mb/s" --rtt 20ms --discipline CoDel --discipline CoDel:target=20ms',
        'ecc access-link --rate "50 Mb/s" --up cubic,call --up-rate "5 Mb/s"',
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
            " share of the rate, as in web:0.1, and call, game, nada, gcc or cloud, whose delays are measured. At"
            " least one download is needed.",
        ),
    ] = "cubic:2,bbr,web,call",
    up: Annotated[
        str,
        typer.Option(
            metavar="NAME:N,...", help="Traffic in the other direction, as for --mix, without web. Default: none."
        ),
    ] = "",
    up_rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Rate of the uplink, which ACKs cross next to --up. Default: that of the link with --up, otherwise"
            " ACKs do not queue.",
        ),
    ] = None,
    discipline: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE]",
            help="Discipline, with parameters, as CAKE:rate=47.5Mb/s; may be given again. Default: DropTail, CoDel,"
            " PIE, FQCoDel, DualPI2 and CAKE at 95 % of the rate.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Number of runs of each discipline.")] = 5,
    buffer: Annotated[str, typer.Option(metavar="TIME", help="Delay of a full buffer.")] = "200ms",
    duration: Annotated[
        str, typer.Option(metavar="TIME", help="Duration of a run; its first quarter is not measured.")
    ] = "20s",
    aggregation: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="ACKs of downloads wait for others up to this time, as in Wi-Fi; 0s: they do not wait."
        ),
    ] = "0s",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for results.csv (all runs) and figure.html.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Compare queue disciplines on an access link that downloads share with web pages and a call.

    Prints the delay that the link adds to packets of each call or game, the load times of web pages, the fairness of
    the downloads and the utilization: means over the runs, with 95 % confidence intervals. Ctrl-C prints the results
    of the runs that have ended.
    """
    from ecc._support.files import make_folder
    from ecc._support.quantity import as_delay
    from ecc.comparison.access_link import AccessLink, default_disciplines, measured, summary
    from ecc.plot.access_link import access_link_figure

    low, colon, high = rtt.partition(":")
    try:
        rtts = as_delay(low, "rtt"), as_delay(high if colon else low, "rtt")
    except ValueError as error:
        raise ValueError(f"{error}; a range is MIN:MAX, for example 20ms:80ms") from None
    link = AccessLink(rate, rtts, mix, buffer, duration, aggregation, up, up_rate)
    named = _named(discipline) if discipline else default_disciplines(float(link.rate))
    if out is not None:
        make_folder(out)
    rows: list[tuple[str, int, dict[str, dict[str, float]]]] = []
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
    if out is not None:
        _write(out, rows, access_link_figure(table, link.title(_counted(table["runs"]))), link)
    notes = link.notes(named)
    if json:
        scenario = link.settings | {"seeds": seeds}
        print_json({"scenario": scenario, "notes": notes, "access_link": table.reset_index().to_dict("records")})
        return INTERRUPTED if interrupted else 0
    print_text("\n\n".join([link.title(_counted(table["runs"])), _text(table, [*named]), *notes]) + "\n")
    if out is not None:
        print(f"runs: {out / 'results.csv'}\nfigure: {out / 'figure.html'}")
    return INTERRUPTED if interrupted else 0


def _named(texts: list[str]) -> dict[str, Protocol]:
    """Return the disciplines of --discipline, by their text."""
    from ecc._support.quantity import RATE, TIME
    from ecc.queues import all_disciplines

    units = {TIME: "ms", RATE: "Mb/s"}
    kinds = {name.lower(): kind for name, kind in all_disciplines().items()}
    named: dict[str, Protocol] = {}
    for text in texts:
        name, *settings = text.split(":")
        kind = kinds.get(name.lower().replace("-", "").replace("_", ""))
        if kind is None:
            raise ValueError(f"discipline must be one of {', '.join(all_disciplines())}, got {name!r}")
        values = settings_of(kind, settings, "--discipline")
        for key, value in values.items():
            unit = units.get(kind.dimensions[key]) if key in kind.dimensions else None
            if unit and isinstance(value, float) and value:
                raise ValueError(f"{key} of {name} must have a unit such as {unit}, got {value:g}")
        if "mark" in getattr(kind, "__dataclass_fields__", {}):
            values = {"mark": True} | values
        named[text] = kind(**values)
    return named


def _counted(runs: pd.Series[int]) -> str:
    """Return a number of runs, or its range over the disciplines."""
    low, high = int(runs.min()), int(runs.max())
    if low < high:
        return f"{low} to {high} runs"
    return "1 run" if high == 1 else f"{high} runs"


def _text(table: pd.DataFrame, disciplines: list[str]) -> str:
    """Return the table of means with their intervals."""
    from ecc.comparison.access_link import COLUMNS, MEDIA, OF_APPLICATION, UP

    several = table["application"].nunique() > 1
    columns = [name for name in COLUMNS if name != "utilization_up" or table[name].notna().any()]
    heads = ["discipline", *(["application"] if several else []), *(_HEADS[name] for name in columns)]
    lines, repeated = [heads], table.index.duplicated()
    for (name, row), again in zip(table.iterrows(), repeated, strict=True):
        cells = [
            "" if again and column not in OF_APPLICATION else _cell(column, row[column], row[f"{column} ±"])
            for column in columns
        ]
        lines.append(["" if again else str(name), *([row["application"]] if several else []), *cells])
    widths = [max(len(line[k]) for line in lines) for k in range(len(heads))]
    rows = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    text = "\n".join(f"  {row}".rstrip() for row in rows)
    counts = table["runs"][~repeated]
    count = _counted(counts)
    means = {"1 run": "Values of one run; with --seeds 2 or more there are confidence intervals."}.get(
        count, f"Means of {count} with 95 % confidence intervals."
    )
    if counts.nunique() > 1:
        means += f" Runs: {', '.join(f'{name} {n}' for name, n in counts.items())}."
    if missing := [name for name in disciplines if name not in counts.index]:
        means += f" No run has ended of {', '.join(missing)}."
    spread = ""
    if table["application"].str.removesuffix(UP).isin(MEDIA).any():
        spread = " That of a frame includes the time over which the sender spreads its packets."
    both = " Packets of calls and games wait in both directions." if "utilization_up" in columns else ""
    return (
        f"{text}\n\n{means} The delay is the time that packets (call, game) or frames (nada, gcc, cloud) wait in"
        f" addition to the RTT without queues and the transmission time of a packet.{spread}{both}"
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
    "utilization_up": "up [%]",
}


def _cell(column: str, value: float, error: float) -> str:
    """Return a mean with its interval; times of 1000 ms or more in s."""
    if value != value:
        return "-"
    in_seconds = column.startswith(("delay", "web")) and value >= 999.5
    scale, unit = (1e-3, " s") if in_seconds else (1.0, "")
    # The second conversion avoids exponents such as 1.2e+02
    mean, half = (f"{float(f'{scale * number:.{digits}g}'):g}" for number, digits in ((value, 3), (error, 2)))
    return mean + ("" if error != error else f" ± {half}") + unit


def _write(folder: Path, rows: list[Any], figure: go.Figure, link: AccessLink) -> None:
    """Write all runs and the figure."""
    import pandas as pd

    from ecc.plot.look import as_html

    runs = pd.DataFrame(
        [
            {"discipline": name, "seed": seed, "application": application, **values, **link.settings}
            for name, seed, applications in rows
            for application, values in applications.items()
        ]
    )
    runs.to_csv(folder / "results.csv", index=False)
    (folder / "figure.html").write_text(as_html(figure), encoding="utf-8")
