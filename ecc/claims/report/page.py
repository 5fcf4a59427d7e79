"""The page: one HTML file that opens without a network, with every figure in it."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from gzip import compress
from html import escape
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from ecc import __version__
from ecc._support.display import number_text
from ecc.claims.ledger import SECTIONS, Claim, Finding, Picture, Verdict
from ecc.claims.provenance import environment_id
from ecc.claims.report.text import (
    INTRODUCTION,
    MEANING,
    TITLE,
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
    typeset,
    unexpected,
)
from ecc.plot.look import decoded, thinned

__all__ = ["Criterion", "Report", "page"]

FIGURES = 9_500_000
"""Bytes that all figures may take together; Plotly's script takes 4.7 million."""

_LABELS = {
    "value": "found",
    "value fluid": "fluid",
    "value live": "live",
    "value reported": "reported",
    "value half": "±",
    "mark": "as expected",
}


@dataclass(frozen=True)
class Criterion:
    """A criterion of a document: its section and title, ids of the entries that examine it, or a text if none does."""

    section: str
    title: str
    ids: Sequence[str] = ()
    text: str = ""


@dataclass(frozen=True)
class Report:
    """Contents of a report.

    `findings` are in the order of the page. `command` is the command that was run, for example "ecc crosscheck". A
    report is `partial` if the run was interrupted and `quick` if it was a quick run. `failures` maps a claim id to the
    one-line error of its check. `title` and `introduction` open the page. `again` is the command that checks a claim
    again, without the claim's id. `noun` is the name of an entry, "claim" or "case". Findings that are not comparable
    are left out of the texts if `not_applying` has lines that replace them. `criteria`, if there are any, are a table
    in the order of the document.
    """

    findings: Sequence[Finding]
    command: str = "ecc crosscheck"
    partial: bool = False
    quick: bool = False
    failures: Mapping[str, str] = field(default_factory=dict)
    title: str = TITLE
    introduction: str = INTRODUCTION
    again: str = "ecc reproduce"
    noun: str = "claim"
    not_applying: Sequence[str] = ()
    criteria: Sequence[Criterion] = ()

    @property
    def digits(self) -> int:
        """Significant digits of measurements: cases compare runs with limits, whereas claims may have exact values."""
        return 7 if self.noun == "claim" else 4

    @property
    def shown(self) -> list[Finding]:
        """Findings with an entry in the page and in the Markdown."""
        return [f for f in self.findings if not self.not_applying or f.verdict is not Verdict.NOT_COMPARABLE]


def page(report: Report) -> str:
    """Return the report as HTML.

    Parameters
    ----------
    report : Report

    Raises
    ------
    ValueError
        A figure has no caption.
    """
    from plotly.offline import get_plotlyjs

    findings, noun = report.shown, report.noun
    template = Template(resources.files("ecc.claims.report").joinpath("page.html").read_text(encoding="utf-8"))
    pictures = sum(len(finding.pictures) for finding in findings)
    numbers, room = iter(range(1, 1 + pictures)), FIGURES // max(1, pictures)
    articles = []
    for section, group in _by_section(findings):
        articles.append(f"<h2>{SECTIONS[section]}</h2>")
        articles += [_article(finding, numbers, room, report) for finding in group]
    return template.substitute(
        version=escape(__version__),
        title=escape(report.title),
        introduction=typeset(report.introduction),
        heading="Claims and questions" if noun == "claim" else f"{noun.capitalize()}s",
        noun=noun,
        summary=_summary(findings, noun),
        criteria=_criteria(report),
        folded=_folded(report.not_applying, len(report.findings) - len(findings), noun),
        alerts=_alerts(report),
        filter=_filter(findings),
        claims=_claims(findings, noun),
        papers=_papers(findings),
        facts=_facts(report),
        environments=_environments(findings),
        articles="\n".join(articles),
        plotly=get_plotlyjs(),
    )


def _by_section(findings: Sequence[Finding]) -> Iterator[tuple[str, list[Finding]]]:
    for section in SECTIONS:
        group = [finding for finding in findings if finding.claim.section == section]
        if group:
            yield section, group


# ---- the first screen ------------------------------------------------------------------------------------


def _folded(lines: Sequence[str], number: int, noun: str) -> str:
    """Return the entries that do not apply, closed to one line."""
    items = "".join(f"<li>{typeset(line)}</li>" for line in lines)
    title = f"{count(number, noun)} {'does' if number == 1 else 'do'} not apply"
    return f'<details class="folded"><summary>{title}</summary><ul>{items}</ul></details>' if lines else ""


def _criteria(report: Report) -> str:
    """Return the table of criteria: verdicts and reasons of their entries, or the text of those without."""
    if not report.criteria:
        return ""
    findings = {finding.claim.id: finding for finding in report.findings}
    rows = []
    for criterion in report.criteria:
        head = f'<td class="id">{escape(criterion.section)}</td><td class="name">{escape(criterion.title)}</td>'
        entries = [findings[key] for key in criterion.ids if key in findings]
        cells = [
            f'<td class="verdict-cell">{_badge(entry.verdict, judged(entry))}</td>'
            f'<td><a href="#{escape(entry.claim.id)}">{escape(entry.claim.id)}</a>: {typeset(entry.reason)}</td>'
            for entry in entries
        ] or [f'<td></td><td class="note">{typeset(criterion.text or "No result.")}</td>']
        rows += [f"<tr>{head if k == 0 else '<td></td><td></td>'}{cell}</tr>" for k, cell in enumerate(cells)]
    titles = "".join(f'<th scope="col">{title}</th>' for title in ("Section", "Criterion", "Verdict", "Result"))
    body = "\n".join(rows)
    return f'<table class="criteria"><thead><tr>{titles}</tr></thead>\n<tbody>{body}</tbody></table>'


def _summary(findings: Sequence[Finding], noun: str) -> str:
    """Return counts by verdict for all entries, by section and by protocol; each count is a button of the filter."""
    if not findings:
        return f"<p>No {noun} was checked.</p>"
    if noun != "claim":
        return f'<p class="tally">{count(len(findings), noun)}: {tally(findings)}.</p>'
    head = "".join(f'<th scope="col">{_badge(v)}<small>{MEANING[v]}</small></th>' for v in Verdict)
    rows = [_counts(f"All {entries(findings)}", findings, "", "", "total")]
    rows += [_counts(SECTIONS[name], group, name, "") for name, group in _by_section(findings)]
    protocols = _protocols(findings)
    if len(protocols) > 1:
        for name in protocols:
            rows.append(_counts(name, [f for f in findings if name in f.claim.protocols], "", name, "protocol"))
    body = "\n".join(rows)
    return (
        f'<p class="tally">{entries(findings)}: {tally(findings)}.</p>\n'
        f'<table class="counts"><thead><tr><td></td>{head}</tr></thead>\n<tbody>{body}</tbody></table>'
    )


def _counts(name: str, findings: Sequence[Finding], section: str, protocol: str, kind: str = "") -> str:
    counts = Counter(finding.verdict for finding in findings)

    def choice(text: str, verdict: str) -> str:
        chosen = f'data-section="{section}" data-protocol="{escape(protocol)}" data-verdict="{verdict}"'
        return f'<button type="button" {chosen}>{text}</button>'

    cells = "".join(f"<td>{choice(str(counts[v]), _class(v)) if counts[v] else '<span>·</span>'}</td>" for v in Verdict)
    return f'<tr class="{kind}"><th scope="row">{choice(escape(name), "")}</th>{cells}</tr>'


def _protocols(findings: Sequence[Finding]) -> list[str]:
    return sorted({protocol for finding in findings for protocol in finding.claim.protocols}, key=str.lower)


def _alerts(report: Report) -> str:
    parts = []
    if report.partial:
        parts.append('<p class="alert">Partial report: the run was interrupted before every claim was checked.</p>')
    if report.quick:
        parts.append(
            '<p class="alert">Quick report: fewer seeds, and shorter runs if a claim has a short form. '
            "Verdicts may differ from those of a full run.</p>"
        )
    if report.failures:
        items = "".join(f"<li><b>{escape(key)}</b>: {escape(error)}</li>" for key, error in report.failures.items())
        parts.append(f'<div class="alert">These checks ended in an error and gave no verdict:<ul>{items}</ul></div>')
    return "\n".join(parts)


def _filter(findings: Sequence[Finding]) -> str:
    def select(name: str, title: str, choices: Iterable[tuple[str, str]]) -> str:
        options = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in choices)
        return f'<label>{title} <select name="{name}"><option value="">all</option>{options}</select></label>'

    sections = [(name, SECTIONS[name]) for name, _ in _by_section(findings)]
    return "".join(
        [
            select("verdict", "Verdict", ((_class(v), str(v)) for v in Verdict)),
            select("section", "Kind", sections),
            select("protocol", "Protocol", ((name, name) for name in _protocols(findings))),
            '<label>Text <input name="text" type="search"></label><output></output>',
        ]
    )


def _claims(findings: Sequence[Finding], noun: str) -> str:
    """Return the list of claims: one row each, grouped by the sections of the ledger."""
    entry = "Claim or question" if noun == "claim" else noun.capitalize()
    head = "".join(f'<th scope="col">{title}</th>' for title in ("Id", entry, "Verdict", f"Beyond the {noun}"))
    parts = [f"<thead><tr>{head}</tr></thead>"] if findings else []
    for section, group in _by_section(findings):
        rows = "".join(
            f"<tr {_data(f.claim, f.verdict)}>"
            f'<td class="id"><a href="#{escape(f.claim.id)}">{escape(f.claim.id)}</a></td>'
            f'<td class="said">{typeset(f.claim.statement)} <small>{typeset(f.claim.source)} · read: '
            f"{f.claim.provenance.read}</small></td>"
            f'<td class="verdict-cell">{_badge(f.verdict, judged(f))}</td>'
            f'<td class="beside">{typeset(unexpected(f))}</td></tr>\n'
            for f in group
        )
        parts.append(f'<tbody><tr class="group"><th colspan="4">{SECTIONS[section]}</th></tr>\n{rows}</tbody>')
    return "\n".join(parts)


def _papers(findings: Sequence[Finding]) -> str:
    return "".join(f"<dt>{key}</dt><dd>{escape(text)}</dd>" for key, text in cited(findings).items())


def _facts(report: Report) -> str:
    facts = [
        f"Command <code>{escape(report.command)}</code>",
        f"ecc {escape(__version__)}",
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"{sum(finding.seconds for finding in report.findings):.0f} s of computing",
        '<a href="report.md">Markdown</a>',
        '<a href="results.json">JSON</a>',
    ]
    return "".join(f"<span>{fact}</span>" for fact in facts)


# ---- one claim -------------------------------------------------------------------------------------------


def _article(finding: Finding, numbers: Iterator[int], room: int, report: Report) -> str:
    claim = finding.claim
    key = escape(claim.id)
    parts = [
        f'<article id="{key}" {_data(claim, finding.verdict)}>',
        f"<h3>{key} <small>{typeset(claim.source)} · {escape(', '.join(claim.protocols))}</small></h3>",
        "<dl>",
        f"<dt>{'Question' if claim.is_question else report.noun.capitalize()}</dt><dd>{typeset(claim.statement)}</dd>",
        f"<dt>Reported</dt><dd>{typeset(claim.reported)}</dd>",
        *(f"<dt>{heading}</dt><dd>{typeset(text)}</dd>" for heading, text in provenance(claim)),
        f"<dt>{'Answer' if claim.is_question else 'Verdict'}</dt>"
        f"<dd>{_badge(finding.verdict, judged(finding))} {typeset(finding.reason)}</dd>",
        "</dl>",
    ]
    if finding.measurements:
        parts.append(_measurements(finding, report.digits))
    parts += [_figure(picture, next(numbers), claim.id, room) for picture in finding.pictures]
    if finding.assumptions:
        items = "".join(f"<li>{typeset(text)}</li>" for text in finding.assumptions)
        parts += ["<h4>Assumptions</h4>", f'<ul class="assumptions">{items}</ul>']
    took = f"took {finding.seconds:.1f} s"
    made = "".join(
        f' · commit {escape(environment["commit"][:12])}, <a href="#{environment_id(environment)}">environment</a>'
        for environment in finding.environments
    )
    parts.append(
        f'<p class="again">Repeat: <code>{escape(again(finding, report.again))}</code> · {took}{made} · '
        f'<a href="#claims">all {report.noun}s</a></p></article>'
    )
    return "\n".join(parts)


def _mark(text: str) -> str:
    kind = text if text in ("yes", "no") else "beyond"
    return f'<b class="{kind}">{text}</b>' if text else ""


def _measurements(finding: Finding, digits: int) -> str:
    def cell(value: float | str | None, unit: str) -> str:
        shown = typeset(number_text(value, digits))
        return f'{shown} <span class="unit">{typeset(unit)}</span>' if shown and unit else shown

    rows = [
        [
            ("name", typeset(m.name)),
            ("value reported", cell(m.reported, "" if isinstance(m.reported, str) else m.unit)),
            ("value", cell(m.value, "" if isinstance(m.value, str) else m.unit)),
            ("value half", cell(m.half, "")),
            ("value fluid", cell(m.fluid, "" if isinstance(m.fluid, str) else m.unit)),
            ("value live", cell(m.live, "" if isinstance(m.live, str) else m.unit)),
            ("mark", _mark(mark(finding, m))),
            ("note", typeset(m.note)),
        ]
        for m in evidence(finding)
    ]
    return _table(["Quantity", "Reported", "Found", "± 95&nbsp;%", "Fluid", "Live", "As expected", "Note"], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return a table of cells (class, HTML); on phones each row becomes a block with labeled numbers."""

    def cell(kind: str, content: str) -> str:
        label = f' data-label="{_LABELS[kind]}"' if kind in _LABELS and content else ""
        return f'<td class="{kind}"{label}>{content}</td>'

    used = [k for k in range(len(head)) if any(row[k][1] for row in rows)]
    body = "".join(f"<tr>{''.join(cell(*row[k]) for k in used)}</tr>\n" for row in rows)
    titles = "".join(f"<th>{head[k]}</th>" for k in used)
    return f'<table class="measurements"><thead><tr>{titles}</tr></thead>\n<tbody>{body}</tbody></table>'


def _figure(picture: Picture, index: int, claim_id: str, room: int) -> str:
    if not picture.caption.strip():
        raise ValueError(f"caption must not be empty, got {picture.caption!r} (figure {picture.title!r} of {claim_id})")
    layout = {key: value for key, value in picture.figure["layout"].items() if key != "title"}  # it is in the caption
    layout["margin"] = layout.get("margin", {}) | {"t": 28}
    data, buckets = picture.figure["data"], 512
    packed = _packed(data, layout)
    while len(packed) > room and buckets >= 32:
        packed, buckets = _packed([_thinner(trace, buckets) for trace in data], layout), buckets // 2
    height = int(layout.get("height", 420))
    caption = f"<b>Figure {index}. {typeset(picture.title)}.</b> {typeset(picture.caption)}"
    label = escape(f"Figure {index}. {picture.title}. {picture.caption}")
    return (
        f'<figure><div class="plot" role="img" aria-label="{label}" style="height:{height}px"></div>'
        f'<script type="text/plain">{packed}</script>\n'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _packed(data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> str:
    text = json.dumps({"data": data, "layout": layout}, separators=(",", ":"))
    return b64encode(compress(text.encode(), mtime=0)).decode()


def _thinner(trace: Mapping[str, Any], buckets: int) -> Mapping[str, Any]:
    """Return a line, or the outline of a band, with fewer points; other traces are returned unchanged."""
    x, y = trace.get("x"), trace.get("y")
    if not (trace.get("mode") == "lines" and isinstance(x, dict) and isinstance(y, dict)):
        return trace
    if trace.get("fill") == "toself":  # an outline: the upper edge, then the lower edge backwards
        half = len(decoded(x)) // 2
        edges = [thinned(decoded(x)[part], decoded(y)[part], buckets) for part in (slice(half), slice(half, None))]
        drawn = tuple(np.concatenate(sides) for sides in zip(*edges, strict=True))
    else:
        drawn = thinned(decoded(x), decoded(y), buckets)
    new = [{"dtype": "f4", "bdata": b64encode(side.tobytes()).decode()} for side in drawn]
    return {**trace, "x": new[0], "y": new[1]}


def _environments(findings: Sequence[Finding]) -> str:
    """Return the commits, versions and machines that computed the findings; each finding links to its environment."""
    parts = []
    for name, surroundings in environments(findings).items():
        rows = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in surroundings.items())
        parts.append(f'<section id="{name}"><h3>{name}</h3><dl>{rows}</dl></section>')
    return "\n".join(['<h2 id="environments">Commits and environments</h2>', *parts]) if parts else ""


def _badge(verdict: Verdict, text: str = "") -> str:
    return f'<span class="verdict {_class(verdict)}">{text or verdict}</span>'


def _class(verdict: Verdict) -> str:
    return verdict.replace(" ", "-")


def _data(claim: Claim, verdict: Verdict) -> str:
    """Return the HTML attributes that the filter reads."""
    protocols = escape("|".join(claim.protocols))
    return f'data-verdict="{_class(verdict)}" data-section="{claim.section}" data-protocol="{protocols}"'
