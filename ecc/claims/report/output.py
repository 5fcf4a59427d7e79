"""The report: one self-contained HTML page, and the same findings as Markdown and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from ecc import __version__
from ecc._support.display import json_text, number_text
from ecc._support.files import WriteError, make_folder, replacing
from ecc.claims.ledger import SECTIONS, Finding, Measurement
from ecc.claims.provenance import environment_id
from ecc.claims.report.page import Criterion, Report, page
from ecc.claims.report.text import (
    again,
    cited,
    count,
    entries,
    environments,
    evidence,
    judged,
    mark,
    provenance,
    tally,
    unexpected,
)

__all__ = ["Criterion", "Report", "as_json", "as_markdown", "report_folder", "write_report"]


def write_report(report: Report, directory: str | Path) -> tuple[Path, Path]:
    """Write a report as a page that opens without a network, as Markdown and as JSON; return page and JSON.

    Parameters
    ----------
    report : Report
        Report; all three files say if it is partial or quick, and list failed checks.
    directory : str or Path
        Created if it is missing; files of the same names are replaced.

    Returns
    -------
    tuple of two Path
        (directory/report.html, directory/results.json). The Markdown report is directory/report.md.

    Raises
    ------
    ValueError
        A figure has no caption.
    WriteError
        A file cannot be written; the other files are written.
    """
    texts = {
        "report.html": page(report),
        "report.md": as_markdown(report),
        "results.json": as_json(report) + "\n",
    }
    folder = Path(directory)
    make_folder(folder)
    errors = []
    for name, text in texts.items():
        try:
            with replacing(folder / name) as part:
                part.write_text(text, encoding="utf-8")
        except WriteError as error:  # the others may fit
            errors.append(error)
    if errors:
        raise errors[0]
    return folder / "report.html", folder / "results.json"


def report_folder(report: Report, directory: str | Path) -> Path:
    """Return the folder for a report; a partial report goes to a subfolder if the folder has a complete report.

    Parameters
    ----------
    report : Report
    directory : str or Path
    """
    folder = Path(directory)
    try:
        earlier = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        is_complete = earlier["partial"] is False
    except (OSError, ValueError, KeyError, TypeError):
        is_complete = False
    return folder / "partial" if report.partial and is_complete else folder


# ---- JSON ------------------------------------------------------------------------------------------------


def as_json(report: Report) -> str:
    """Return a report as JSON text. Figures have only title and caption; infinities and NaN are strings.

    Parameters
    ----------
    report : Report
    """
    results = []
    for finding in report.findings:
        plain = finding.to_dict()
        plain["pictures"] = [{"title": p.title, "caption": p.caption} for p in finding.pictures]
        plain["command"] = again(finding, report.again)
        plain["environments"] = [environment_id(item) for item in finding.environments]
        results.append(plain)
    content = {
        "ecc": __version__,
        "command": report.command,
        "partial": report.partial,
        "quick": report.quick,
        "failures": dict(report.failures),
        "environments": environments(report.findings),
        "findings": results,
    }
    return json_text(content)


# ---- Markdown --------------------------------------------------------------------------------------------


def as_markdown(report: Report) -> str:
    """Return a report as Markdown: a table of verdicts, then each claim with its measurements; figures by title only.

    Parameters
    ----------
    report : Report
    """
    findings, noun = report.shown, report.noun
    number = entries(findings) if noun == "claim" else count(len(findings), noun)
    lines = [
        f"# {report.title}",
        "",
        report.introduction,
        "",
        f"{number}: {tally(findings)}.",
        "",
    ]
    lines += ["Partial: the run was interrupted before every claim was checked.", ""] if report.partial else []
    lines += ["Quick: fewer seeds, and shorter runs if a claim has a short form.", ""] if report.quick else []
    lines += [f"- {_text(key)} failed: {_text(error)}" for key, error in report.failures.items()]
    lines += ["", f"`{report.command}`, ecc {__version__}", ""]
    lines += _criteria(report)
    lines += [f"- {_text(line)}" for line in report.not_applying]
    lines += [f"- {key}: {_text(text)}" for key, text in cited(findings).items()]
    for section, title in SECTIONS.items():
        group = [finding for finding in findings if finding.claim.section == section]
        if group:
            lines += ["", f"## {title}", ""]
            lines += _table(
                [noun, "source", "read", "verdict", "statement", f"beyond the {noun}"],
                [
                    [
                        f"[{f.claim.id}](#{f.claim.id})",
                        f.claim.source,
                        f.claim.provenance.read,
                        judged(f),
                        f.claim.statement,
                        unexpected(f),
                    ]
                    for f in group
                ],
            )
            for finding in group:
                lines += _claim(finding, report)
    made = environments(findings)
    lines += ["", "## Commits and environments", ""] if made else []
    lines += [
        f"- {name}: {', '.join(f'{key} {_text(text)}' for key, text in surroundings.items())}"
        for name, surroundings in made.items()
    ]
    return "\n".join(lines) + "\n"


def _criteria(report: Report) -> list[str]:
    """Return the table of criteria, if there are any."""
    findings = {finding.claim.id: finding for finding in report.findings}
    rows = [
        [criterion.section, criterion.title, key, judged(findings[key]) if key in findings else "", text]
        for criterion in report.criteria
        for key, text in [(key, findings[key].reason if key in findings else "No result.") for key in criterion.ids]
        or [("", criterion.text)]
    ]
    return [*_table(["section", "criterion", report.noun, "verdict", "result"], rows), ""] if rows else []


def _claim(finding: Finding, report: Report) -> list[str]:
    claim = finding.claim
    lines = [
        "",
        f"### {claim.id}",
        "",
        f"{_text(claim.source)} · {', '.join(claim.protocols)}",
        "",
        f"- {'Question' if claim.is_question else report.noun.capitalize()}: {_text(claim.statement)}",
        f"- Reported: {_text(claim.reported)}",
        *(f"- {heading}: {_text(text)}" for heading, text in provenance(claim)),
        f"- {'Answer' if claim.is_question else 'Verdict'}: **{judged(finding)}**. {_text(finding.reason)}",
        *(f"- Assumed: {_text(text)}" for text in finding.assumptions),
        *(f"- Figure: {_text(picture.title)}. {_text(picture.caption)}" for picture in finding.pictures),
        f"- Repeat: `{again(finding, report.again)}`"
        + "".join(f", commit {parts['commit'][:12]}, {environment_id(parts)}" for parts in finding.environments),
        "",
    ]
    if finding.measurements:
        head = ["quantity", "reported", "found", "± 95 %", "fluid", "live", "as expected", "note"]
        lines += _table(head, [_row(finding, measurement, report.digits) for measurement in evidence(finding)])
    return lines


def _row(finding: Finding, measurement: Measurement, digits: int) -> list[str]:
    def value(of: float | str | None) -> str:
        text = number_text(of, digits)
        return text if of is None or isinstance(of, str) else f"{text} {measurement.unit}".strip()

    return [
        measurement.name,
        value(measurement.reported),
        value(measurement.value),
        number_text(measurement.half, digits),
        value(measurement.fluid),
        value(measurement.live),
        mark(finding, measurement),
        measurement.note,
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    used = [k for k in range(len(head)) if any(row[k] for row in rows)]
    body = [[_text(row[k]) if not row[k].startswith("[") else row[k] for k in used] for row in rows]
    return [f"| {' | '.join(cells)} |" for cells in ([head[k] for k in used], ["---"] * len(used), *body)]


def _text(text: str) -> str:
    """Return plain text on one line, with Markdown characters escaped."""
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", " ".join(text.split()))
