"""The ledger as a data set: tables as CSV, described by a Frictionless data package, with a README."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ecc import __version__
from ecc._support.files import make_folder, replacing
from ecc.claims.ledger import PAPERS, SECTIONS
from ecc.claims.provenance import READ, environment_id
from ecc.claims.report.page import Report
from ecc.claims.report.text import MEANING, again, environments

__all__ = ["TABLES", "write_dataset"]

_COLUMNS = ("value", "reported", "fluid", "live")
_KINDS = {
    "claims": {"question": "boolean"},
    "measurements": {"number": "integer", "half": "number", "met": "boolean"} | dict.fromkeys(_COLUMNS, "number"),
    "assumptions": {"number": "integer"},
}

TABLES: Mapping[str, Mapping[str, str]] = {
    "papers": {"paper": "Short name of a paper.", "reference": "Authors, title, journal or conference, year."},
    "claims": {
        "claim": "Id in the ledger; `ecc reproduce ID` checks it again.",
        "section": f"One of {', '.join(SECTIONS)}.",
        "protocols": "Classes of ecc.models, or other names, separated by spaces.",
        "source": "Place of the claim: short names of papers, with sections, equations, figures.",
        "statement": "The claim or the question.",
        "reported": "Numbers given by the source.",
        "read": f"Kind of text that was read: one of {', '.join(READ)}.",
        "place": "Section, theorem, equation or line of code that was read.",
        "printed": "Places of the numbers in the source.",
        "editions": "Text of each source that was read, with its year.",
        "difference": "Difference between the source's assumptions and those of ecc.",
        "question": "True for a question asked by ecc; its answer judges no source.",
        "verdict": f"One of {', '.join(MEANING)}.",
        "answer": "Answer to a question: yes, no, under conditions, in its model, or open.",
        "reason": "Reason for the verdict or the answer.",
        "command": "Command that checks the claim again.",
        "commit": "Commits of ecc that checked the claim, separated by spaces.",
        "environment": "Short names of the environments that checked the claim; datapackage.json describes them.",
    },
    "sources": {"claim": "Id of a claim.", "paper": "Short name of a paper in the source of the claim."},
    "measurements": {
        "claim": "Id of a claim.",
        "number": "1, 2, ... for each claim.",
        "name": "Computed quantity.",
        "unit": "Unit of value, reported, fluid, live and half; empty for pure numbers or if the name contains it.",
        "value": "Computed value, or value in packet runs.",
        "value_text": "The computed value, if it is not a number.",
        "reported": "Value given by the source.",
        "reported_text": "The reported value, if it is not a number.",
        "fluid": "Value in fluid runs.",
        "fluid_text": "The value in fluid runs, if it is not a number.",
        "live": "Value on real frames.",
        "live_text": "The value on real frames, if it is not a number.",
        "half": "Half of the 95 % interval of a mean over seeds.",
        "met": "True if the value is as expected; empty if no value was expected.",
        "note": "Note on the computation.",
    },
    "assumptions": {
        "claim": "Id of a claim.",
        "number": "1, 2, ... for each claim.",
        "text": "Assumption on a point that the source leaves open.",
    },
}
"""Table -> its columns with their descriptions."""
_KEYS = {
    "papers": ("paper",),
    "claims": ("claim",),
    "sources": ("claim", "paper"),
    "measurements": ("claim", "number"),
    "assumptions": ("claim", "number"),
}
_REQUIRED = {
    "name",
    "text",
    "reference",
    "section",
    "protocols",
    "source",
    "statement",
    "read",
    "place",
    "question",
    "verdict",
    "reason",
    "command",
}


def write_dataset(report: Report, directory: str | Path) -> Path:
    """Write the claims and findings of a report as CSV tables, with a description of each column.

    Parameters
    ----------
    report : Report
        Report; partial and quick reports are marked as such.
    directory : str or Path
        Created if it is missing; files of the same names are replaced.

    Returns
    -------
    Path
        Path of datapackage.json (Frictionless Data Package), next to README.md and one CSV file for each of `TABLES`.

    Raises
    ------
    WriteError
        A file cannot be written; an earlier file of the same name is unchanged.

    Notes
    -----
    Equal findings give equal files, because the files contain no times.
    """
    folder = Path(directory)
    make_folder(folder)
    for name, columns in TABLES.items():
        with replacing(folder / f"{name}.csv") as part, part.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(columns)
            table.writerows([_cell(cell) for cell in row] for row in _rows(name, report))
    package = json.dumps(_package(report), indent=2, ensure_ascii=False) + "\n"
    for name, text in (("README.md", _readme(report)), ("datapackage.json", package)):
        with replacing(folder / name) as part:
            part.write_text(text, encoding="utf-8")
    return folder / "datapackage.json"


def _rows(table: str, report: Report) -> Iterator[Sequence[object]]:
    """Yield the rows of a table, cells in the order of its columns."""
    findings = report.findings
    if table == "papers":
        cited = {key for finding in findings for key in finding.claim.papers}
        yield from ((key, text) for key, text in PAPERS.items() if key in cited)
    for finding in findings:
        claim = finding.claim
        if table == "claims":
            texts = (claim.source, claim.statement, claim.reported)
            read = claim.provenance
            yield (
                claim.id,
                claim.section,
                " ".join(claim.protocols),
                *texts,
                read.read,
                read.place,
                read.printed,
                "; ".join(claim.editions),
                read.difference,
                read.is_question,
                str(finding.verdict),
                finding.answer,
                finding.reason,
                again(finding, report.again),
                " ".join(item["commit"] for item in finding.environments),
                " ".join(map(environment_id, finding.environments)),
            )
        elif table == "sources":
            yield from ((claim.id, key) for key in claim.papers)
        elif table == "measurements":
            for number, item in enumerate(finding.measurements, 1):
                values = (part for name in _COLUMNS for part in _number_and_text(getattr(item, name)))
                yield (claim.id, number, item.name, item.unit, *values, item.half, item.met, item.note)
        elif table == "assumptions":
            yield from ((claim.id, number, text) for number, text in enumerate(finding.assumptions, 1))


def _number_and_text(value: float | str | None) -> tuple[float | None, str | None]:
    return (None, value) if isinstance(value, str) else (value, None)


def _cell(value: Any) -> str:
    """Return a cell as Frictionless reads it: floats to the last bit, INF and NaN by name, "" for a missing value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, str)):
        return str(value)
    number = float(value)
    if math.isfinite(number):
        return repr(number)
    return "NaN" if math.isnan(number) else "INF" if number > 0 else "-INF"


def _package(report: Report) -> dict[str, Any]:
    """Return the description of the tables."""
    return {
        "profile": "tabular-data-package",
        "name": "ecc-ledger",
        "title": "Claims of papers on congestion control, checked",
        "description": f"{_extent(report)} `{report.command}` of ecc {__version__} computed the findings.",
        "version": __version__,
        "licenses": [{"name": "BSD-3-Clause", "title": "BSD 3-Clause License"}],
        "contributors": [{"title": "The ecc developers", "role": "author"}],
        "sources": [{"title": f"{row[0]}: {row[1]}"} for row in _rows("papers", report)],
        "environments": environments(report.findings),
        "resources": [
            {
                "name": name,
                "path": f"{name}.csv",
                "profile": "tabular-data-resource",
                "format": "csv",
                "mediatype": "text/csv",
                "encoding": "utf-8",
                "schema": _schema(name),
            }
            for name in TABLES
        ],
    }


def _schema(table: str) -> dict[str, Any]:
    fields, kinds = [], _KINDS.get(table, {})
    for column, text in TABLES[table].items():
        field: dict[str, Any] = {"name": column, "type": kinds.get(column, "string"), "description": text}
        if column in _KEYS[table] or column in _REQUIRED:
            field["constraints"] = {"required": True}
        if column == "verdict":
            field["constraints"]["enum"] = [str(verdict) for verdict in MEANING]
        fields.append(field)
    schema: dict[str, Any] = {"fields": fields, "primaryKey": list(_KEYS[table])}
    foreign = [
        {"fields": key, "reference": {"resource": resource, "fields": key}}
        for key, resource in (("claim", "claims"), ("paper", "papers"))
        if key in _KEYS[table] and table != resource
    ]
    return schema | ({"foreignKeys": foreign} if foreign else {})


def _extent(report: Report) -> str:
    """Return the number of claims and the reasons for missing ones."""
    text = (
        f"{len(report.findings)} claims and questions, each with its source, the parts of it that were read, a verdict "
        "or the answer to a question, and the computed numbers next to the reported ones."
    )
    if report.partial:
        text += " Partial: the run was interrupted before every claim was checked."
    if report.quick:
        text += " Quick: fewer seeds, and shorter runs if a claim has a short form."
    if report.failures:
        text += f" Not checked, because of errors: {', '.join(report.failures)}."
    return text


def _readme(report: Report) -> str:
    lines = ["# Claims of papers on congestion control, checked", "", _extent(report), ""]
    lines += [f"`{report.command}` of ecc {__version__} computed the findings; `--dataset` writes them here.", ""]
    lines += ["| verdict | meaning |", "|---|---|", *(f"| {verdict} | {text} |" for verdict, text in MEANING.items())]
    for name, columns in TABLES.items():
        lines += ["", f"## {name}.csv", "", "| column | |", "|---|---|"]
        lines += [f"| `{column}` | {text} |" for column, text in columns.items()]
    lines += [
        "",
        "Cells are UTF-8; an empty cell is a missing value; numbers may be INF, -INF or NaN. "
        "`datapackage.json` describes tables, keys and columns to programs that read Frictionless Data Packages.",
        "",
        "## Licence",
        "",
        "BSD-3-Clause, as ecc. Claims are worded by the ledger; papers belong to their authors.",
    ]
    return "\n".join(lines) + "\n"
