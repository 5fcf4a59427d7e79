"""Texts and signs that the page and the Markdown report share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from ecc.claims.ledger import PAPERS, Claim, Finding, Measurement, Verdict
from ecc.claims.provenance import READ, environment_id
from ecc.display import number_text

__all__ = [
    "INTRODUCTION",
    "MEANING",
    "TITLE",
    "again",
    "beside",
    "cited",
    "count",
    "entries",
    "environments",
    "evidence",
    "judged",
    "provenance",
    "tally",
    "typeset",
]

TITLE = "Published claims on congestion control, checked"
INTRODUCTION = (
    "With explicit congestion control, routers signal to senders how fast to send, where TCP has to find out from lost "
    "packets or marks. This page takes what papers and standards on such protocols, and on queue disciplines, claim, "
    "theorem by theorem and figure by figure, and computes it again: stability exactly, with the delays of the loop; "
    "traffic as a fluid; and a simulation of every packet. All three run the same definition of each protocol. "
    "Each verdict is computed from what they find, and is on a statement that was read in full. Statements of texts "
    "that were not read in full, and of our own, are questions in sections of their own: their answers judge no paper."
)
MEANING: Mapping[Verdict, str] = {
    Verdict.CONFIRMED: "what is reported comes out",
    Verdict.IN_MODEL: "it comes out in the source's own model; the algorithm, or packets, do something else",
    Verdict.REFUTED: "something else comes out",
    Verdict.CONDITIONAL: "it comes out under conditions, which are named",
    Verdict.NOT_COMPARABLE: "the paper leaves out a fact that decides, or it cannot be run here",
    Verdict.ANSWERED: "a question, answered by ecc; no judgment of a paper",
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
    """Return the papers that the claims of findings are from, by key, in the order of the ledger.

    Parameters
    ----------
    findings : sequence of Finding
    """
    sources = " ".join(finding.claim.source for finding in findings)
    return {key: text for key, text in PAPERS.items() if key in sources}


def count(many: int, what: str) -> str:
    """Return "1 claim", "2 claims".

    Parameters
    ----------
    many : int
    what : str
        Of one.
    """
    return f"{many} {what}{'' if many == 1 else 's'}"


def entries(findings: Sequence[Finding]) -> str:
    """Return "2 claims", "1 question", "2 claims and 1 question".

    Parameters
    ----------
    findings : sequence of Finding
    """
    questions = sum(finding.claim.is_question for finding in findings)
    parts = [(len(findings) - questions, "claim"), (questions, "question")]
    return " and ".join(count(many, what) for many, what in parts if many) or count(0, "claim")


def tally(findings: Sequence[Finding]) -> str:
    """Return how many findings have each verdict, in words.

    Parameters
    ----------
    findings : sequence of Finding
    """
    counts = Counter(finding.verdict for finding in findings)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])


def judged(finding: Finding) -> str:
    """Return the verdict of a finding, and the answer if it is on a question.

    Parameters
    ----------
    finding : Finding
    """
    return f"{finding.verdict}: {finding.answer}" if finding.answer else str(finding.verdict)


def provenance(claim: Claim) -> list[tuple[str, str]]:
    """Return what was read for a claim, as pairs of a heading and a text; a heading without a text is left out.

    Parameters
    ----------
    claim : Claim
    """
    said = claim.provenance
    rows = [
        ("Read", f"{said.read}: {said.place}" if said.place else ""),
        ("Numbers", said.printed),
        ("Texts", "; ".join(claim.editions) if said.read != "none" else ""),
        ("Difference", said.difference),
        ("Judgment", f"None of a paper: read is {said.read}, {READ[said.read]}." if claim.is_question else ""),
    ]
    return [(heading, text) for heading, text in rows if text]


def environments(findings: Sequence[Finding]) -> dict[str, Mapping[str, str]]:
    """Return the environments that computed findings, by their short names.

    Parameters
    ----------
    findings : sequence of Finding
    """
    return {environment_id(one): one for finding in findings for one in finding.environments}


def again(finding: Finding, command: str = "ecc reproduce") -> str:
    """Return the command that checks a claim again.

    Parameters
    ----------
    finding : Finding
        On the claim.
    command : str, optional
        Before the id of the claim.
    """
    return f"{command} {finding.claim.id}"


def evidence(finding: Finding) -> list[Measurement]:
    """Return the measurements of a finding, those first that are not what was expected.

    Parameters
    ----------
    finding : Finding
    """
    return sorted(finding.measurements, key=lambda measurement: measurement.met is not False)


def beside(finding: Finding) -> str:
    """Return what a confirmed claim does not state though one may read it so: measurements that are not as expected.

    A theorem on a model may be right, and packets unstable where it calls the model stable.

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
    """Return text as HTML: escaped, with Greek letters for their names, sub- and superscripts, powers of ten and signs.

    Parameters
    ----------
    text : str
        Plain text.
    """
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
