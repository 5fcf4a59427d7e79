"""The report: one self-contained HTML page and one JSON file with the same findings."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from ecc import __version__
from ecc.claims.ledger import Finding, Measure, Picture, Verdict

__all__ = ["as_json", "json_text", "number", "write_report"]

_TITLE = "Published claims on explicit congestion control, checked"
_GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "eps": "ε",
    "omega": "ω",
    "tau": "τ",
    "pi": "π",
    "rho": "ρ",
    "mu": "μ",
    "Delta": "Δ",
}

_SIGNS = {
    "&lt;=": "≤", "&gt;=": "≥", "&lt;&lt;": "≪", "&gt;&gt;": "≫", "-&gt;": "→", "+-": "±", " - ": " − ",
    "sqrt(": "√(", "fig. ": "fig.&nbsp;", "figs. ": "figs.&nbsp;",
}  # fmt: skip
_LABELS = {"value": "found", "value fluid": "fluid", "value reported": "reported"}


def write_report(
    findings: Sequence[Finding],
    directory: str | Path,
    command: str = "ecc crosscheck",
    partial: bool = False,
    failures: Mapping[str, str] | None = None,
) -> tuple[Path, Path]:
    """Write the findings as a page that opens without a network, and as JSON, and return the two paths.

    Parameters
        findings : sequence of Finding, in the order of the page.
        directory : str or Path; made if it is missing, files of the same names replaced.
        command : str, what was run.
        partial : bool, the run was interrupted: both files say so.
        failures : claim id -> error in one line, of checks that ended without a finding.
    Returns
        (directory/report.html, directory/results.json).
    Raises
        ValueError: a figure without a caption. OSError: the files cannot be written.
    """
    failures = failures or {}
    page = _page(findings, command, partial, failures)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    html_path, json_path = folder / "report.html", folder / "results.json"
    html_path.write_text(page, encoding="utf-8")
    json_path.write_text(as_json(findings, command, partial, failures) + "\n", encoding="utf-8")
    return html_path, json_path


def as_json(
    findings: Sequence[Finding],
    command: str = "ecc crosscheck",
    partial: bool = False,
    failures: Mapping[str, str] | None = None,
) -> str:
    """Return the findings as JSON text; figures by title and caption only, infinities and NaN as strings.

    Parameters
        findings : sequence of Finding. command : str, what was run. partial : bool, the run was interrupted.
        failures : claim id -> error in one line, of checks that ended without a finding.
    """
    results = []
    for finding in findings:
        plain = finding.to_dict()
        plain["pictures"] = [{"title": p.title, "caption": p.caption} for p in finding.pictures]
        results.append(plain)
    whole = {
        "ecc": __version__, "command": command, "partial": partial, "failures": dict(failures or {}),
        "findings": results,
    }  # fmt: skip
    return json_text(whole)


def json_text(value: Any) -> str:
    """Return plain data as JSON text, with NumPy's numbers as numbers and infinities and NaN as strings.

    Parameters
        value : mapping, list, number, text, ...
    """
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return _plain(value.tolist())
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def number(value: float | str | None) -> str:
    """Return a value as it is shown: seven digits (whole numbers in full), text as it is, nothing for None.

    Parameters
        value : float, str or None.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0.0 else "-∞"
    return f"{value:,.0f}" if value == int(value) and 1e4 <= abs(value) < 1e12 else f"{value:.7g}"


# ---- the page --------------------------------------------------------------------------------------------


def _page(findings: Sequence[Finding], command: str, partial: bool, failures: Mapping[str, str]) -> str:
    from plotly.offline import get_plotlyjs

    template = Template(resources.files("ecc.claims").joinpath("report.html").read_text(encoding="utf-8"))
    figures = iter(range(1, 1 + sum(len(finding.pictures) for finding in findings)))
    return template.substitute(
        version=escape(__version__),
        title=_TITLE,
        header=_header(findings, command, partial, failures),
        main="\n".join([_summary(findings), *(_section(finding, figures) for finding in findings)]),
        plotly=get_plotlyjs(),
    )


def _header(findings: Sequence[Finding], command: str, partial: bool, failures: Mapping[str, str]) -> str:
    protocols = sorted({protocol for finding in findings for protocol in finding.claim.protocols})
    counts = Counter(finding.verdict for finding in findings)
    tally = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    claims = "1 claim" if len(findings) == 1 else f"{len(findings)} claims"
    facts = [
        f"<span>Command <code>{escape(command)}</code></span>",
        f"<span>ecc {escape(__version__)}</span>",
        f"<span>{datetime.now(UTC):%Y-%m-%d %H:%M} UTC</span>",
        f"<span>{sum(finding.seconds for finding in findings):.0f} s of checks</span>",
    ]
    parts = [
        f'<p class="lead">{claims} on {escape(", ".join(protocols))}: {tally}.</p>' if findings else "",
        f'<p class="facts">{"".join(facts)}</p>',
    ]
    if partial:
        parts.append('<p class="alert">Partial report: the run was interrupted before every claim was checked.</p>')
    if failures:
        items = "".join(f"<li><b>{escape(key)}</b>: {escape(error)}</li>" for key, error in failures.items())
        parts.append(f'<div class="alert">These checks ended in an error and gave no verdict:<ul>{items}</ul></div>')
    return "\n".join(parts)


def _summary(findings: Sequence[Finding]) -> str:
    rows = [
        [
            ("id", f'<a href="#{escape(f.claim.id)}">{escape(f.claim.id)}</a>'),
            ("source-cell", _typeset(f.claim.source)),
            ("verdict-cell", _badge(f.verdict)),
            ("reason", _typeset(f.reason)),
        ]
        for f in findings
    ]
    return _table(["Claim", "Source", "Verdict", "Reason"], rows) if rows else "<p>No claim was checked.</p>"


def _section(finding: Finding, figures: Any) -> str:
    claim = finding.claim
    key = escape(claim.id)
    parts = [
        f'<section id="{key}">',
        f"<h2>{key}</h2>",
        f'<p class="source">{_typeset(claim.source)} · {escape(", ".join(claim.protocols))}</p>',
        "<dl>",
        f"<dt>Claim</dt><dd>{_typeset(claim.statement)}</dd>",
        f"<dt>Reported</dt><dd>{_typeset(claim.reported)}</dd>",
        f"<dt>Verdict</dt><dd>{_badge(finding.verdict)} {_typeset(finding.reason)}</dd>",
        "</dl>",
    ]
    if finding.measures:
        parts += ["<h3>Measured</h3>", _measures(finding.measures)]
    parts += [_figure(picture, next(figures), claim.id) for picture in finding.pictures]
    if finding.assumptions:
        items = "".join(f"<li>{_typeset(text)}</li>" for text in finding.assumptions)
        parts += ["<h3>Assumptions</h3>", f'<ul class="assumptions">{items}</ul>']
    took = f"took {finding.seconds:.1f} s"
    command = "reproduce" if claim.experiment else "crosscheck"
    parts.append(f'<p class="again">Again: <code>ecc {command} {key}</code> · {took}</p></section>')
    return "\n".join(parts)


def _measures(measures: Sequence[Measure]) -> str:
    def cell(value: float | str | None, unit: str) -> str:
        shown = _number(value)
        return f'{shown} <span class="unit">{_typeset(unit)}</span>' if shown and unit else shown

    rows = [
        [
            ("name", _typeset(m.name)),
            ("value", cell(m.value, m.unit)),
            ("value fluid", cell(m.fluid, m.unit)),
            ("value reported", cell(m.reported, "" if isinstance(m.reported, str) else m.unit)),
            ("note", _typeset(m.note)),
        ]
        for m in measures
    ]
    return _table(["Quantity", "Found", "Fluid", "Reported", "Note"], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Cells are (class, HTML); on a phone a row becomes a block, and a number in it says what it is."""

    def cell(kind: str, content: str) -> str:
        label = f' data-label="{_LABELS[kind]}"' if kind in _LABELS and content else ""
        return f'<td class="{kind}"{label}>{content}</td>'

    used = [k for k in range(len(head)) if any(row[k][1] for row in rows)]
    body = "".join(f"<tr>{''.join(cell(*row[k]) for k in used)}</tr>\n" for row in rows)
    titles = "".join(f"<th>{head[k]}</th>" for k in used)
    return f"<table><thead><tr>{titles}</tr></thead>\n<tbody>{body}</tbody></table>"


def _figure(picture: Picture, index: int, claim_id: str) -> str:
    if not picture.caption.strip():
        raise ValueError(f"caption must not be empty, got {picture.caption!r} (figure {picture.title!r} of {claim_id})")
    layout = {key: value for key, value in picture.figure["layout"].items() if key != "title"}  # the caption has it
    layout["margin"] = layout.get("margin", {}) | {"t": 28}
    figure = json.dumps({"data": picture.figure["data"], "layout": layout}, separators=(",", ":"))
    figure = figure.replace("<", "\\u003c")
    height = int(layout.get("height", 420))
    caption = f"<b>Figure {index}. {_typeset(picture.title)}.</b> {_typeset(picture.caption)}"
    return (
        f'<figure><div class="plot" style="height:{height}px"></div><script type="application/json">{figure}</script>\n'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _badge(verdict: Verdict) -> str:
    return f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'


def _number(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return _typeset(value or "")
    return _typeset(number(value))


def _typeset(text: str) -> str:
    """Text as HTML: escaped, with Greek letters for their names, sub- and superscripts, powers of ten and signs."""
    html = escape(text, quote=False)
    for plain, sign in _SIGNS.items():
        html = html.replace(plain, sign)
    html = re.sub(r"\b0\.0+e\+00\b", "0", html)
    html = re.sub(r"(\d)e([+-]?)0*(\d+)\b", lambda m: f"{m[1]} × 10^{m[2].strip('+')}{m[3]}", html)
    html = re.sub(
        rf"(?<!\w)(?<!\w-)({'|'.join(_GREEK)})(\d?)(?!\w|-\w)",
        lambda m: _GREEK[m[1]] + (f"<sub>{m[2]}</sub>" if m[2] else ""),
        html,
    )
    html = re.sub(r"\^(-?)(\w+(?:\.\d+)?)", lambda m: f"<sup>{'−' if m[1] else ''}{m[2]}</sup>", html)
    html = re.sub(r"(?<![\w.)>-])-(?=\d)", "−", html)
    return re.sub(r"\b([A-Za-z])_(\w{1,3})\b", r"\1<sub>\2</sub>", html)
