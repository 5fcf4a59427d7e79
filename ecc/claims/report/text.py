"""Texts and symbols shared by the page and the Markdown report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from ecc._support.display import number_text
from ecc.claims.ledger import PAPERS, Claim, Finding, Measurement, Verdict
from ecc.claims.provenance import READ, environment_id

__all__ = [
    "INTRODUCTION",
    "MEANING",
    "TITLE",
    "again",
    "cited",
    "count",
    "entries",
    "environments",
    "evidence",
    "judged",
    "mark",
    "provenance",
    "tally",
    "typeset",
    "unexpected",
]

TITLE = "Published claims on congestion control, checked"
INTRODUCTION = (
    "With explicit congestion control, routers signal the sending rate to senders, whereas TCP must infer it from lost "
    "packets or marks. This page re-checks the claims of papers and standards on congestion control and queue "
    "disciplines, theorem by theorem and figure by figure, in three ways: an exact stability analysis with the delays "
    "of the loop, a fluid model of the traffic, and a simulation of every packet. All three run the same definition of "
    "each protocol. A verdict is computed from their results and concerns a statement that was read in full. If a text "
    "was not read in full, or if we ask the question ourselves, the entry is a question in a separate section; its "
    "answer judges no paper."
)
MEANING: Mapping[Verdict, str] = {
    Verdict.CONFIRMED: "our results agree with the reported ones",
    Verdict.IN_MODEL: "our results agree in the source's model, but not for the algorithm or in packet runs",
    Verdict.REFUTED: "our results contradict the claim",
    Verdict.CONDITIONAL: "our results agree under the stated conditions only",
    Verdict.NOT_COMPARABLE: "the source omits a decisive fact, or the claim cannot be tested here",
    Verdict.ANSWERED: "a question answered by ecc, without a judgment of a paper",
}

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


def cited(findings: Sequence[Finding]) -> dict[str, str]:
    """Return the papers cited by the claims of findings, by key, in the order of the ledger.

    Parameters
    ----------
    findings : sequence of Finding
    """
    sources = " ".join(finding.claim.source for finding in findings)
    return {key: text for key, text in PAPERS.items() if key in sources}


def count(number: int, noun: str) -> str:
    """Return a number with its noun, for example "1 claim" or "2 claims".

    Parameters
    ----------
    number : int
    noun : str
        Noun in the singular.
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def entries(findings: Sequence[Finding]) -> str:
    """Return the numbers of claims and questions, for example "2 claims and 1 question".

    Parameters
    ----------
    findings : sequence of Finding
    """
    questions = sum(finding.claim.is_question for finding in findings)
    parts = [(len(findings) - questions, "claim"), (questions, "question")]
    return " and ".join(count(number, noun) for number, noun in parts if number) or count(0, "claim")


def tally(findings: Sequence[Finding]) -> str:
    """Return the number of findings with each verdict, for example "12 confirmed, 3 refuted".

    Parameters
    ----------
    findings : sequence of Finding
    """
    counts = Counter(finding.verdict for finding in findings)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])


def judged(finding: Finding) -> str:
    """Return the verdict of a finding, with the answer if its claim is a question, for example "answered: yes".

    Parameters
    ----------
    finding : Finding
    """
    return f"{finding.verdict}: {finding.answer}" if finding.answer else str(finding.verdict)


def provenance(claim: Claim) -> list[tuple[str, str]]:
    """Return the sources read for a claim as pairs of a heading and a text; headings without a text are omitted.

    Parameters
    ----------
    claim : Claim
    """
    source = claim.provenance
    rows = [
        ("Read", f"{source.read}: {source.place}" if source.place else ""),
        ("Numbers", source.printed),
        ("Texts", "; ".join(claim.editions) if source.read != "none" else ""),
        ("Difference", source.difference),
        ("Judgment", f"No paper is judged: read is {source.read}, {READ[source.read]}." if claim.is_question else ""),
    ]
    return [(heading, text) for heading, text in rows if text]


def environments(findings: Sequence[Finding]) -> dict[str, Mapping[str, str]]:
    """Return the environments that computed findings, by their short names.

    Parameters
    ----------
    findings : sequence of Finding
    """
    return {environment_id(environment): environment for finding in findings for environment in finding.environments}


def again(finding: Finding, command: str = "ecc reproduce") -> str:
    """Return the command that checks a claim again.

    Parameters
    ----------
    finding : Finding
        Finding on the claim.
    command : str, optional
        Command without the id of the claim, for example "ecc reproduce".
    """
    return f"{command} {finding.claim.id}"


def evidence(finding: Finding) -> list[Measurement]:
    """Return the measurements of a finding; if some are not as expected, they come first, and beyond the claim last.

    Parameters
    ----------
    finding : Finding
    """
    is_last = finding.verdict is Verdict.CONFIRMED
    return sorted(finding.measurements, key=lambda measurement: (measurement.met is False) is is_last)


def mark(finding: Finding, measurement: Measurement) -> str:
    """Return whether a measurement is as expected: "yes", "no", "beyond the claim", or "" without an expectation.

    A confirmed claim holds in its model; its measurements in other models may differ, which contradicts nothing.

    Parameters
    ----------
    finding : Finding
    measurement : Measurement
    """
    if measurement.met is None:
        return ""
    return "yes" if measurement.met else "beyond the claim" if finding.verdict is Verdict.CONFIRMED else "no"


def unexpected(finding: Finding) -> str:
    """Return the measurements of a confirmed claim that are not as expected, in one line.

    They warn of a wider reading of the claim: for example, a theorem on a model may hold although packet runs are
    unstable at parameters at which the model is stable.

    Parameters
    ----------
    finding : Finding
    """
    if finding.verdict is not Verdict.CONFIRMED:
        return ""
    missed = [measurement for measurement in finding.measurements if measurement.met is False]
    return "; ".join(
        f"{measurement.name}: {number_text(measurement.value)} {measurement.unit}".strip() for measurement in missed
    )


def typeset(text: str) -> str:
    """Return text as escaped HTML with Greek letters, subscripts, superscripts, powers of ten and mathematical signs.

    Names in backticks are code.

    Parameters
    ----------
    text : str
        Plain text.
    """
    parts = text.split("`")
    if len(parts) > 2 and len(parts) % 2:
        code = [f"<code>{escape(part, quote=False)}</code>" for part in parts[1::2]]
        return "".join(typeset(part) + more for part, more in zip(parts[::2], [*code, ""], strict=True))
    html = escape(text, quote=False)
    for plain, sign in _SIGNS.items():
        html = html.replace(plain, sign)
    html = re.sub(r"\b0\.0+e\+00\b", "0", html)
    html = re.sub(r"(?<!\w)((?:\d+\.)?\d+)e([+-]?)0*(\d+)\b", lambda m: f"{m[1]} × 10^{m[2].strip('+')}{m[3]}", html)
    html = re.sub(
        rf"(?<!\w)(?<!\w-)({'|'.join(_GREEK)})(\d?)(?!\w|-\w)",
        lambda m: _GREEK[m[1]] + (f"<sub>{m[2]}</sub>" if m[2] else ""),
        html,
    )
    html = re.sub(r"\^(-?)(\w+(?:\.\d+)?)", lambda m: f"<sup>{'−' if m[1] else ''}{m[2]}</sup>", html)
    html = re.sub(r"(?<![\w.)>-])-(?=\d)", "−", html)
    return re.sub(r"\b([A-Za-z])_(\w{1,3})\b", r"\1<sub>\2</sub>", html)
