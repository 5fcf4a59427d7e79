"""Writes a page for each protocol and each queue discipline, from the declarations of its class.

`conf.py` writes the pages when it builds the site, into docs/reference/protocols and docs/reference/disciplines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from inspect import cleandoc, getmodule, getsourcefile
from pathlib import Path

import ecc
from ecc.claims.catalog import select
from ecc.claims.ledger import claims
from ecc.claims.report.text import typeset
from ecc.contract import protocol as contract
from ecc.contract.protocol import Protocol
from ecc.laws.arguments import law_arguments, takes
from ecc.laws.formulas import formulas, symbol
from ecc.models import all_protocols
from ecc.queues import all_disciplines

HERE = Path(__file__).parent
ROOT = HERE.parent
NARRATIVE = {
    "RCP": ("piqi_rcp_bounds", "rcp_in_T_u", "rtt_distributions", "empty_queue"),
    "QIRCP": ("piqi_rcp_bounds", "rtt_distributions"),
    "PIQIRCP": ("piqi_rcp_bounds", "short_intervals", "gain_design"),
    "XCP": ("xcp_unfair", "xcp_in_T1_and_T2", "xcp_three_models"),
    "JetMax": ("jetmax_in_six_steps", "eval_testbed"),
    "MaxNet": ("maxnet_under_loss", "eval_testbed"),
    "EDN": ("queues_under_edn",),
    "PEDN": ("queues_under_edn",),
    "TIMELY": ("data_centers",),
    "PatchedTIMELY": ("data_centers",),
    "DCQCN": ("data_centers",),
    "DCTCP": ("data_centers",),
    "SPERC": ("sperc",),
    "ExpressPass": ("expresspass",),
    "NewReno": ("tcp_against_ns2", "real_tcp"),
    "CUBIC": ("cubic_stability", "conformance"),
    "Compound": ("compound",),
    "BBR": ("bbr", "bbr_fluid", "bbr_fairness"),
    "BBRv1": ("bbr", "bbr_fluid"),
    "BBRv2": ("bbr", "bbr_fluid"),
    "Prague": ("prague_and_copa",),
    "Copa": ("prague_and_copa", "starvation"),
    "Vivace": ("vivace_and_c4", "starvation"),
    "C4": ("vivace_and_c4",),
    "NADA": ("media",),
    "GCC": ("media",),
    "SCReAM": ("media",),
    "Swift": ("swift",),
    "NSCC": ("nscc",),
    "HPCC": ("telemetry",),
    "PowerTCP": ("telemetry",),
    "ThetaPowerTCP": ("telemetry",),
    "ABC": ("abc",),
}
"""Class -> pages and notebooks that discuss the protocol."""

LAWS = {
    "router_law": ("R", "A router computes"),
    "announce_law": ("R^{\\mathrm{announced}}", "A router announces"),
    "priority_law": ("\\mathrm{priority}", "Priority of a link: a flow is bottlenecked at the link with the largest"),
    "probability_law": ("P", "Probability that a packet is marked or dropped"),
    "source_law": ("", ""),
    "slow_start_law": ("w", "Window one RTT later, in slow start"),
    "decrease_law": ("w", "Window right after feedback that reduces it"),
    "loss_response_law": ("w", "Window right after a loss"),
    "mark_response_law": ("w", "Window right after a mark"),
    "memory_law": ("m", "Value that a flow remembers from a loss"),
}
"""Law -> left side of its formula and its caption; those of the source law depend on its arguments."""


def page(cls: type[Protocol]) -> str:
    """Return the page of a protocol or a queue discipline.

    Parameters
    ----------
    cls : type
        Class of `ecc.models` or `ecc.queues`.
    """
    protocol = example(cls)
    text = cleandoc(str(getmodule(cls).__doc__))
    title = ecc.models.__name__ if cls.__name__ in all_protocols(True) else ecc.queues.__name__
    lines = [f"# {cls.__name__}", "", *_prose(text.partition("\n\n")[0]), *_overview(cls, protocol, title)]
    lines += ["", "## Description", "", *_prose(text.partition("\n\n")[2])]
    lines += ["## Equations", "", *_equations(protocol)]
    lines += ["## Parameters", "", *_parameters(cls), ""]
    lines += _claims(cls)
    lines += [
        "## Class",
        "",
        "```{eval-rst}",
        f".. autoclass:: {title}.{cls.__name__}",
        "   :members:",
        "   :exclude-members: Header, LinkState, FlowState",
        "```",
        "",
    ]
    return "\n".join(lines)


def example(cls: type[Protocol]) -> Protocol:
    """Return an instance with the default parameters; unresponsive traffic has a rate without a default.

    Parameters
    ----------
    cls : type
    """
    required = [f.name for f in fields(cls) if f.default is None and f.name == "rate"]
    return cls(**dict.fromkeys(required, 1e6))


# ---- text ------------------------------------------------------------------------------------------------


def _prose(text: str) -> Iterator[str]:
    """Yield a docstring as Markdown: paragraphs, and indented formulas as blocks of text."""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        rows = block.splitlines()
        if rows and all(row.startswith((" ", "\t")) for row in rows):
            yield from ("```text", cleandoc(block), "```", "")
        else:
            yield from (_escaped(" ".join(block.split())), "")


def _escaped(text: str) -> str:
    """Return plain text for Markdown; code in backquotes and emphasis keep their marks."""
    pieces = re.split(r"(`[^`]+`|\*\w[^*]*\w\*)", text)
    return "".join(
        piece if piece.startswith(("`", "*")) else re.sub(r"([\\*_<>|\[\]$^~])", r"\\\1", piece) for piece in pieces
    )


def _overview(cls: type[Protocol], protocol: Protocol, module: str) -> list[str]:
    """Return the table with the kind of loop, engines, linear models, file and pages."""
    loop = protocol.loop
    path = Path(str(getsourcefile(cls))).name
    folder = module.replace(".", "/")
    rows = [
        ("in Python", f"`{module}.{cls.__name__}`"),
        ("file", f"`{folder}/{path}`"),
        ("kind of loop", str(loop.kind)),
        *(
            (name, _escaped(_yes_or_no(reason)))
            for name, reason in (("packet runs", loop.packet), ("fluid runs", loop.fluid))
        ),
        ("linear models", ", ".join(loop.times) if loop.linear is None else _escaped(f"no: {loop.linear}")),
    ]
    if type(protocol).has_hosts():
        rows.append(("verdicts", "[of all linear models, on a reference network](../../models.md)"))
    if pages := NARRATIVE.get(cls.__name__):
        rows.append(("pages", ", ".join(_link(name) for name in pages)))
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]


def _yes_or_no(reason: str | None) -> str:
    return "yes" if reason is None else f"no: {reason}"


def _link(name: str) -> str:
    """Return a link to a page or a notebook under its title."""
    page = HERE / f"{name}.md"
    if page.exists():
        return f"[{title_of(page.read_text(encoding='utf-8'))}](../../{name}.md)"
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return f"[{title_of(''.join(cells[0]['source']))}](../../notebooks/{name}.ipynb)"


def title_of(text: str) -> str:
    """Return the heading of a page.

    Parameters
    ----------
    text : str
        The page in Markdown.
    """
    heading = re.search("^# (.*)$", text, re.MULTILINE)
    assert heading is not None
    return heading[1]


# ---- equations -------------------------------------------------------------------------------------------


def _laws(protocol: Protocol) -> Iterator[tuple[str, str, str, Callable[..., float]]]:
    """Yield caption, left side, relation and law, in the order of a packet's way: routers, hosts, states."""
    for name, (left, caption) in LAWS.items():
        law = getattr(protocol, name, None)
        if law is None or (name == "router_law" and protocol.probability_law is not None):
            continue
        if name == "source_law":
            moves_rate = not takes(law, "w")
            left, caption = ("x", "Rate of a flow") if moves_rate else ("w", "Window one RTT later")
            if moves_rate and protocol.source_clock == "continuous":
                left, caption = r"\dot x", "Derivative of the rate of a flow"
        yield caption, left, _relation(left, law), law
    for name, state in protocol.states.items():
        if state.law is not None and state.clock == "continuous":
            yield f"State `{name}`, at all times", rf"\dot{{{symbol(name)}}}", "=", state.law
        elif state.law is not None:
            yield f"State `{name}`, {_clock(state.clock)}", symbol(name), r"\leftarrow", state.law
        for jump in dict.fromkeys(state.jumps.values()):
            signals = " or a ".join(signal for signal, other in state.jumps.items() if other is jump)
            yield f"State `{name}` right after a {signals}", symbol(name), r"\leftarrow", jump


def _relation(left: str, law: Callable[..., float]) -> str:
    return r"\leftarrow" if left in law_arguments(law) else "="


def _clock(clock: str) -> str:
    return {
        "interval": "after each interval",
        "rtt": "after each RTT of the flow",
        "arrival": "at each packet that arrives",
        "update": "at each update of the rate",
    }[clock]


def _equations(protocol: Protocol) -> list[str]:
    """Return the formulas of all laws, read from the code, and the meaning of their arguments."""
    lines: list[str] = []
    shown: dict[str, None] = {}
    taken: dict[str, None] = {}
    for caption, left, relation, law in _laws(protocol):
        rows = formulas(law, left, relation)
        taken |= dict.fromkeys(name for name in law_arguments(law) if name != "p" and name not in protocol.states)
        definitions = [row for row in rows[1:] if row not in shown]
        shown |= dict.fromkeys(rows[1:])
        lines += [f"{caption}:", "", "$$", rows[0], "$$", ""]
        for row in definitions:
            lines += ["$$", row, "$$", ""]
    if not lines:
        return ["The protocol has packet hooks and no laws: its file has the algorithm.", ""]
    meanings = _meanings()
    rows = [f"| ${symbol(name)}$ | {_escaped('; '.join(meanings[name]))} |" for name in taken if name in meanings]
    lines += ["The formulas are read from the text of the laws that all engines run. Quantities of a law:", ""]
    lines += ["| symbol | meaning |", "|---|---|", *rows, ""]
    lines += [
        "All other symbols are states, parameters, or functions that a formula above defines. The",
    ]
    lines += ["[contract](../contract.md) defines the arguments of laws.", ""]
    return lines


@cache
def _meanings() -> Mapping[str, list[str]]:
    """Return the meanings of the arguments of laws, from the tables in the docstring of the contract."""
    meanings: dict[str, list[str]] = {}
    name = ""
    for line in str(contract.__doc__).splitlines():
        row = re.match(r"   (\S+)\s{2,}(\S.*?)\s{2,}(\S.*?)(?:\s{2,}(\S.*?))?$", line)
        if row is None or row[1].startswith("==") or row[1] == "name":
            continue
        name = name if row[1] == ".." else row[1]
        unit = row[4] or row[3]
        meaning = row[2].removeprefix("... ")
        meanings.setdefault(name, []).append(meaning if unit == "--" else f"{meaning} [{unit}]")
    return meanings


# ---- parameters and claims -------------------------------------------------------------------------------


def _parameters(cls: type[Protocol]) -> list[str]:
    """Return the table of parameters: own ones first, then inherited ones."""
    lines = ["| parameter | default | unit, range | meaning |", "|---|---|---|---|"]
    rows = [(f.name not in vars(cls).get("__annotations__", {}), f) for f in fields(cls) if f.init]
    for inherited, f in sorted(rows, key=lambda row: row[0]):
        if f.default is not MISSING:
            default = f"`{f.default!r}`"
        else:
            default = "required" if f.default_factory is MISSING else f"`{f.default_factory()!r}`"
        kind, meaning = _described(cls, f.name)
        owner = next(base for base in cls.__mro__ if f.name in vars(base).get("__annotations__", {}))
        of_base = f" (inherited from `{owner.__name__}`)" if inherited else ""
        lines.append(f"| `{f.name}` | {default} | {_escaped(kind)} | {_escaped(meaning)}{of_base} |")
    return lines if len(lines) > 2 else ["None."]


def _described(cls: type[Protocol], name: str) -> tuple[str, str]:
    """Return type and meaning of a parameter, from the docstring of the class, or of a base class that it refers to."""
    for base in cls.__mro__:
        kind, meaning = _entries(base).get(name, ("", ""))
        if meaning and not re.match(r"(See|As for every) `\w+`", meaning):
            return kind, meaning
    return "", ""


@cache
def _entries(cls: type) -> Mapping[str, tuple[str, str]]:
    """Return the parameters that the docstring of a class describes: name -> type and meaning."""
    section = cleandoc(str(cls.__doc__)).partition("Parameters\n----------\n")[2]
    section = re.split(r"\n\n?[A-Z]\w+\n-+\n", section)[0]
    entries: dict[str, tuple[str, str]] = {}
    for block in re.split(r"\n(?=\S)", section):
        head, _, text = block.partition("\n")
        names, _, kind = head.partition(" : ")
        for name in names.split(", "):
            entries[name.strip()] = (kind, " ".join(text.split()))
    return entries


def _claims(cls: type[Protocol]) -> list[str]:
    """Return the table of claims of the ledger on the protocol."""
    try:
        found = select([cls.__name__], list(claims().values()))
    except ValueError:
        return []
    lines = ["## Claims and questions in the ledger", "", "| id | source | claim or question |", "|---|---|---|"]
    for claim in found:
        cells = (f'<a href="../ledger.html#{claim.id}"><code>{claim.id}</code></a>', claim.source, claim.statement)
        lines.append(f"| {cells[0]} | {typeset(cells[1])} | {typeset(cells[2])} |".replace("\n", " "))
    return [*lines, ""]


# ---- all pages -------------------------------------------------------------------------------------------


def _index(title: str, question: str, folder: str, classes: Mapping[str, type[Protocol]]) -> str:
    """Return the page that lists all classes of a folder."""
    lines = [
        f"# {title}",
        "",
        question,
        "",
        "| class | | kind of loop | engines | linear models |",
        "|---|---|---|---|---|",
    ]
    for name, cls in sorted(classes.items(), key=lambda item: item[0].lower()):
        loop = example(cls).loop
        engines = ", ".join(engine for engine in ("packet", "fluid") if getattr(loop, engine) is None)
        first = _sentence(cls)
        lines.append(f"| [{name}]({folder}/{name}.md) | {first} | {loop.kind} | {engines} | {', '.join(loop.times)} |")
    tree = [f"{name} <{folder}/{name}>" for name in sorted(classes, key=str.lower)]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *tree, "```", ""])


def _sentence(cls: type[Protocol]) -> str:
    """Return the first sentence of the module of a class."""
    first = " ".join(cleandoc(str(getmodule(cls).__doc__)).partition("\n\n")[0].split())
    return _escaped(re.split(r"(?<=[.:])\s+(?=[A-Z(]|$)", first)[0].rstrip(":"))


def write() -> None:
    """Write all pages."""
    for folder, classes, title, question in (
        (
            "protocols",
            all_protocols(unresponsive=True),
            "Protocols",
            "**Which protocols does `ecc` have, and where are their equations?** Each name leads to a page with the "
            "equations, the parameters, the claims of the ledger and the class.",
        ),
        (
            "disciplines",
            all_disciplines(),
            "Queue disciplines",
            "**Which queue disciplines does `ecc` have, and where are their equations?** Each name leads to a page "
            "with the equations, the parameters and the class.",
        ),
    ):
        target = HERE / "reference" / folder
        target.mkdir(exist_ok=True)
        for name, cls in classes.items():
            (target / f"{name}.md").write_text(page(cls), encoding="utf-8")
        (HERE / "reference" / f"{folder}.md").write_text(_index(title, question, folder, classes), encoding="utf-8")


if __name__ == "__main__":
    write()
