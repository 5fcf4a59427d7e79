"""Writes the page of the documentation that lists the ledger: claims and questions, and what was read for each."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from ecc.claims.ledger import PAPERS, SECTIONS, claims
from ecc.claims.provenance import READ
from ecc.claims.report.text import MEANING, provenance, typeset

__all__ = ["page"]


def _verdicts(report: Mapping[str, Any] | None) -> dict[str, str]:
    """Cells with the verdict of a report on each claim, and the command, commit and environment that produced it."""
    if report is None:
        return {}
    cells = {}
    for one in report["findings"]:
        key = one["claim"]["id"]
        verdict = f"{one['verdict']}: {one['answer']}" if one["answer"] else one["verdict"]
        made = "".join(
            f'; <a href="../report.html#{name}">commit {report["environments"][name]["commit"][:12]}</a>'
            for name in one["environments"]
        )
        cells[key] = (
            f'<a href="../report.html#{key}">{verdict}</a> <small><code>{escape(one["command"])}</code>{made}</small>'
        )
    return cells


def page(results: Mapping[str, Any] | None = None) -> str:
    """Return the page of claims, with the verdicts of a report that links lead to.

    Parameters
    ----------
    results : mapping, optional
        Content of results.json; None: the page has no verdicts.
    """
    found = _verdicts(results)
    report = "This copy of the page was made without it, and has no verdicts."
    if found:
        report = 'Verdicts below lead to <a href="../report.html">that page</a>.'
    lines = [
        "# The ledger of claims",
        "",
        "**Which claims of the papers hold?** This page lists them by section, with what was read of each source. "
        "Entries that end in a question mark are questions of ours, on texts that were not read in full or on what "
        "texts leave open: their answers judge no paper. [For authors](../for_authors.md) says how to dispute a "
        "verdict. `ecc crosscheck` computes the verdicts on theorems and on most queue disciplines, `ecc reproduce` "
        f"all others too (`ecc reproduce ID` one of them, `ecc reproduce live` those on real frames); the page that "
        f"they write has the evidence. {report}",
        "",
        "| verdict | meaning |",
        "|---|---|",
        *(f"| {verdict} | {text} |" for verdict, text in MEANING.items()),
        "",
        "| read | what was read |",
        "|---|---|",
        *(f"| {read} | {text} |" for read, text in READ.items()),
        "",
        *(f"- **{key}**: {text}" for key, text in PAPERS.items()),
    ]
    heads = ["id", "source", "claim or question", "reported"] + (["verdict"] if found else [])
    for section, title in SECTIONS.items():
        group = [claim for claim in claims().values() if claim.section == section]
        if not group:
            continue
        head = "".join(f"<th>{name}</th>" for name in heads)
        lines += ["", f"## {title}", "", f'<table class="docutils ledger"><thead><tr>{head}</tr></thead><tbody>']
        for claim in group:
            cells = [f'<a href="#{claim.id}"><code>{claim.id}</code></a>']
            said = "<br>".join(f"{heading}: {typeset(text)}" for heading, text in provenance(claim))
            cells += [f"{typeset(claim.source)}<br><small>{said}</small>"]
            cells += [typeset(claim.statement), typeset(claim.reported)]
            if claim.id in found:
                cells.append(found[claim.id])
            elif found:
                cells.append("not in the report")
            lines.append(f'<tr id="{claim.id}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>')
        lines.append("</tbody></table>")
    return "\n".join(lines) + "\n"
