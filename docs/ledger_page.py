"""Writes the page of the documentation that lists the ledger: claims and questions, and what was read for each."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from ecc.claims.ledger import PAPERS, SECTIONS, claims
from ecc.claims.provenance import READ
from ecc.claims.report.text import MEANING, provenance, typeset

__all__ = ["page"]


FILTER = """
<form class="ledger-filter" hidden>
<label>Show claims with <input type="search" placeholder="CUBIC, margin, refuted"></label> <output></output>
</form>

<script>
addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector(".ledger-filter"), text = form.querySelector("input");
  const rows = Array.from(document.querySelectorAll("table.ledger tbody tr"));
  const groups = Array.from(document.querySelectorAll("table.ledger")).map(table => table.closest("section"));
  const contents = rows.map(row => row.textContent.toLowerCase());
  form.hidden = false;
  form.addEventListener("submit", event => event.preventDefault());
  function filter() {
    const words = text.value.toLowerCase().split(/\\s+/).filter(Boolean);
    rows.forEach((row, k) => row.hidden = !words.every(word => contents[k].includes(word)));
    groups.forEach(group => group.hidden = !group.querySelector("tbody tr:not([hidden])"));
    const shown = rows.filter(row => !row.hidden).length;
    form.querySelector("output").textContent = words.length ? `${shown} of ${rows.length} claims` : "";
    const query = text.value ? "?q=" + encodeURIComponent(text.value) : "";
    history.replaceState(null, "", location.pathname + query + location.hash);
  }
  text.addEventListener("input", filter);
  text.value = new URLSearchParams(location.search).get("q") || "";
  if (text.value) filter();
});
</script>
"""
"""A field that hides the claims without its words. The address has the words, so that a link shows the same claims."""


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
        FILTER,
    ]
    results_of = {one["claim"]["id"]: one["verdict"] for one in (results or {"findings": []})["findings"]}
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
            columns = zip(heads, cells, strict=True)
            row = "".join(f'<td data-label="{head}">{cell}</td>' for head, cell in columns)
            verdict = results_of.get(claim.id, "")
            lines.append(f'<tr id="{claim.id}" data-verdict="{verdict}">{row}</tr>')
        lines.append("</tbody></table>")
    lines += ["", "## Papers", "", *(f"- **{key}**: {text}" for key, text in PAPERS.items())]
    return "\n".join(lines) + "\n"
