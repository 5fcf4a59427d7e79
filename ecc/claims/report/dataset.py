"""The ledger as a data set: tables as CSV, described by a Frictionless data package, with a README."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ecc import __version__
from ecc.claims.ledger import PAPERS, SECTIONS
from ecc.claims.provenance import READ, environment_id
from ecc.claims.report.page import Report
from ecc.claims.report.text import MEANING, again, environments
from ecc.files import making, replacing

__all__ = ["TABLES", "write_dataset"]

_BESIDE = ("value", "reported", "fluid", "live")
_KINDS = {
    "claims": {"question": "boolean"},
    "measurements": {"number": "integer", "half": "number", "met": "boolean"} | dict.fromkeys(_BESIDE, "number"),
    "assumptions": {"number": "integer"},
}

TABLES: Mapping[str, Mapping[str, str]] = {
    "papers": {"paper": "Short name of a paper.", "reference": "Authors, title, where it appeared."},
    "claims": {
        "claim": "Id in the ledger; `ecc reproduce ID` checks it again.",
        "section": f"One of {', '.join(SECTIONS)}.",
        "protocols": "Classes of ecc.models, or other names, separated by spaces.",
        "source": "Where it is stated: papers by their short names, sections, equations, figures.",
        "statement": "What is claimed.",
        "reported": "The numbers that the source gives.",
        "read": f"What was read: one of {', '.join(READ)}.",
        "place": "Section, theorem, equation or line of code that was read.",
        "printed": "Places of the numbers that the source gives.",
        "editions": "Which text of each source was read, and when.",
        "difference": "Difference between the source's assumptions and those of ecc.",
        "question": "Whether it is a question of ecc's, which judges no source.",
        "verdict": f"One of {', '.join(MEANING)}.",
        "answer": "Of a question: yes, no, under conditions, in its model, or open.",
        "reason": "Why, in one sentence.",
        "command": "Command that computes it again.",
        "commit": "Commits of ecc that computed it, separated by spaces.",
        "environment": "Short names of the environments that computed it, as datapackage.json describes them.",
    },
    "sources": {"claim": "Id of a claim.", "paper": "Short name of a paper that its source names."},
    "measurements": {
        "claim": "Id of a claim.",
        "number": "1, 2, ... for each claim.",
        "name": "What was computed.",
        "unit": "Of value, reported, fluid, live and half; empty: none, or as the name says.",
        "value": "By computation, or in packet runs.",
        "value_text": "The same where it is no number.",
        "reported": "What the source gives for it.",
        "reported_text": "The same where it is no number.",
        "fluid": "In fluid runs.",
        "fluid_text": "The same where it is no number.",
        "live": "On real frames.",
        "live_text": "The same where it is no number.",
        "half": "Half of the 95 % interval of a mean over seeds.",
        "met": "Whether what was expected came out; empty: nothing was.",
        "note": "On how it was computed.",
    },
    "assumptions": {
        "claim": "Id of a claim.",
        "number": "1, 2, ... for each claim.",
        "text": "What was assumed where the source leaves it open.",
    },
}
"""Table -> its columns and what is in them."""
_KEYS = {
    "papers": ("paper",), "claims": ("claim",), "sources": ("claim", "paper"), "measurements": ("claim", "number"),
    "assumptions": ("claim", "number"),
}  # fmt: skip
_REQUIRED = {
    "name", "text", "reference", "section", "protocols", "source", "statement", "read", "place", "question", "verdict",
    "reason", "command",
}  # fmt: skip


def write_dataset(report: Report, directory: str | Path) -> Path:
    """Write the claims of a report and what was found as CSV tables, with a description of each column.

    Parameters
    ----------
    report : Report
        A partial or a quick one is described as such.
    directory : str or Path
        Made if it is missing, files of the same names replaced.

    Returns
    -------
    Path
        datapackage.json there (Frictionless Data Package). Beside it are README.md and a table for each of `TABLES`.

    Raises
    ------
    WriteError
        A file cannot be written; what was there before it is still there.

    Notes
    -----
    Equal findings give equal files: there are no times in them.
    """
    folder = Path(directory)
    making(folder)
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
            said = (claim.source, claim.statement, claim.reported)
            read = claim.provenance
            yield (
                claim.id, claim.section, " ".join(claim.protocols), *said, read.read, read.place, read.printed,
                "; ".join(claim.editions), read.difference, read.is_question, str(finding.verdict), finding.answer,
                finding.reason, again(finding, report.again),
                " ".join(one["commit"] for one in finding.environments),
                " ".join(map(environment_id, finding.environments)),
            )  # fmt: skip
        elif table == "sources":
            yield from ((claim.id, key) for key in claim.papers)
        elif table == "measurements":
            for number, one in enumerate(finding.measurements, 1):
                beside = (half for name in _BESIDE for half in _number_and_text(getattr(one, name)))
                yield (claim.id, number, one.name, one.unit, *beside, one.half, one.met, one.note)
        elif table == "assumptions":
            yield from ((claim.id, number, text) for number, text in enumerate(finding.assumptions, 1))


def _number_and_text(value: float | str | None) -> tuple[float | None, str | None]:
    return (None, value) if isinstance(value, str) else (value, None)


def _cell(value: Any) -> str:
    """A cell as Frictionless reads it: floats to the last bit, INF and NaN by name, nothing where there is nothing."""
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
    """The description of the tables."""
    return {
        "profile": "tabular-data-package",
        "name": "ecc-ledger",
        "title": "Claims of papers on congestion control, checked",
        "description": f"{_extent(report)} `{report.command}` of ecc {__version__} computed what is here.",
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
    """How many claims there are, and what is missing."""
    text = (
        f"{len(report.findings)} claims and questions, each with its source, what was read of it, a verdict or the "
        "answer to a question, and the numbers found beside those reported."
    )
    if report.partial:
        text += " Partial: the run was interrupted before every claim was checked."
    if report.quick:
        text += " Quick: fewer seeds, and shorter runs where a claim has a short form."
    if report.failures:
        text += f" Not checked, because of errors: {', '.join(report.failures)}."
    return text


def _readme(report: Report) -> str:
    lines = ["# Claims of papers on congestion control, checked", "", _extent(report), ""]
    lines += [f"`{report.command}` of ecc {__version__} computed what is here; the option `--dataset` writes it.", ""]
    lines += ["| verdict | meaning |", "|---|---|", *(f"| {verdict} | {text} |" for verdict, text in MEANING.items())]
    for name, columns in TABLES.items():
        lines += ["", f"## {name}.csv", "", "| column | |", "|---|---|"]
        lines += [f"| `{column}` | {text} |" for column, text in columns.items()]
    lines += [
        "", "Cells are UTF-8; an empty one is a value that there is not; numbers may be INF, -INF or NaN. "
        "`datapackage.json` describes tables, keys and columns to programs that read Frictionless Data Packages.", "",
        "## Licence", "", "BSD-3-Clause, as ecc. Claims are in words of the ledger; the papers are their authors'.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
