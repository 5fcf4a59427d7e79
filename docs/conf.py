"""Builds the documentation: `sphinx-build -W docs build/docs`. Nothing is fetched, and the notebooks are executed."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring, tostring

import plotly
from docutils.nodes import SkipNode
from latex2mathml.converter import convert

import ecc
from ecc.claims.ledger import PAPERS, SECTIONS, claims
from ecc.claims.wording import typeset

HERE = Path(__file__).parent

project, author, release = "ecc", "The ecc developers", ecc.__version__
copyright = author
extensions = ["myst_nb", "sphinx.ext.autodoc"]
html_theme = "furo"
html_math_renderer = "mathml"  # browsers show it with no script
html_title = f"ecc {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("plotly.min.js", {"priority": 100})]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_ipywidgets_js = {}


# ---- pages and scripts made from what the project has ----------------------------------------------------


def copied() -> None:
    """Notebooks beside the pages, and Plotly's script where they find it."""
    folder = HERE / "notebooks"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE.parent / "notebooks", folder, ignore=shutil.ignore_patterns(".*"))
    (HERE / "_static").mkdir(exist_ok=True)
    shutil.copy(Path(plotly.__file__).parent / "package_data" / "plotly.min.js", HERE / "_static")


def ledger() -> str:
    """The page of claims, from the ledger."""
    lines = [
        "# The ledger of claims", "",
        "What the papers claim, by section. `ecc crosscheck` and `ecc reproduce` compute the verdicts; the page that "
        "they write has the evidence.", "",
        *(f"- **{key}**: {text}" for key, text in PAPERS.items()),
    ]  # fmt: skip
    for section, title in SECTIONS.items():
        group = [claim for claim in claims().values() if claim.section == section]
        if not group:
            continue
        lines += ["", f"## {title}", "", '<table class="docutils"><thead><tr><th>id</th><th>source</th>'
                  "<th>claim</th><th>reported</th></tr></thead><tbody>"]  # fmt: skip
        for claim in group:
            cells = (claim.id, typeset(claim.source), typeset(claim.statement), typeset(claim.reported))
            lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        lines.append("</tbody></table>")
    return "\n".join(lines) + "\n"


copied()
(HERE / "reference" / "ledger.md").write_text(ledger(), encoding="utf-8")

# Figures of notebooks are HTML that asks for the script of the page.
STARTUP = """
import plotly.io
from plotly.io.base_renderers import MimetypeRenderer


class Page(MimetypeRenderer):
    def to_mimebundle(self, figure):
        html = plotly.io.to_html(figure, include_plotlyjs=False, full_html=False)
        return {"text/html": html.replace("<script>", '<script type="module">')}  # run when the page is whole


plotly.io.renderers["page"] = Page()
plotly.io.renderers.default = "page"
"""
profile = Path(tempfile.mkdtemp(prefix="ecc-docs-"))
(profile / "profile_default" / "startup").mkdir(parents=True)
(profile / "profile_default" / "startup" / "figures.py").write_text(STARTUP, encoding="utf-8")
os.environ["IPYTHONDIR"] = str(profile)

# ---- docstrings ------------------------------------------------------------------------------------------

PARTS = ("Parameters", "Returns", "Raises", "Notes", "Example", "Attributes")


def rendered(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings as reStructuredText: their parts under small heads, their lines as they stand, examples as code."""
    out: list[str] = []
    part = ""
    for line in lines:
        if line in PARTS or re.fullmatch(rf"({'|'.join(PARTS)}):.*", line):
            part, _, rest = line.partition(":")
            out += ["", f"**{part}**", ""] + ([""] if part != "Example" else ["", "::", ""])
            line = rest and f"    {rest.strip()}"
            if not line:
                continue
        if part == "Example":
            out.append(line)
        elif part and line.strip():
            indent = len(line) - len(line.lstrip()) - 4
            out.append(f"| {' ' * max(0, indent)}{escaped(line.strip())}")
        else:
            out.append(escaped(line.strip()) if not line.startswith("    ") else f"| {escaped(line.strip())}")
    lines[:] = spaced(out)


def spaced(lines: list[str]) -> list[str]:
    """Blank lines around line blocks."""
    out: list[str] = []
    for line in lines:
        if out and out[-1].strip() and line.strip() and out[-1].startswith("| ") != line.startswith("| "):
            out.append("")
        out.append(line)
    return [*out, ""]


def escaped(text: str) -> str:
    """Plain text in which only code in backquotes is marked."""
    pieces = re.split(r"(`+[^`]+`+)", text)
    if re.match(r"([-+*•]|\w+[.)]) ", text):
        return "\\" + text[0] + escaped(text[1:])
    return "".join(
        f"``{piece.strip('`')}``" if piece.startswith("`") else re.sub(r"([\\*_|`])", r"\\\1", piece)
        for piece in pieces
    )


# ---- formulas --------------------------------------------------------------------------------------------


PRIME, BAR = "\u2032", "|"
FUNCTIONS = {"sin", "cos", "tan", "exp", "ln", "arg", "mean", "Re", "Im", "E", "var", "atan", "deg"}


def named(element: Element) -> bool:
    """Whether an element is the name of a function, with or without an exponent."""
    return element.text in FUNCTIONS or (element.tag == "msup" and element[0].text in FUNCTIONS)


def tidied(row: Element, bars: Iterator[str]) -> None:
    """What the converter leaves to browsers: upright names and what follows them, bars in pairs, primes, slashes."""
    for at, child in reversed(list(enumerate(row))):
        after = row[at + 1] if at + 1 < len(row) else None
        if child.tag == "msup" and len(child[1]) and all(sign.text == PRIME for sign in child[1]):
            child.tag = "mrow"  # primes stand high as they are
            for sign in child[1]:
                sign.tag = "mo"
                sign.attrib.update(form="postfix", lspace="0", rspace="0")
        elif row.tag == "mrow" and named(child) and after is not None and after.text not in ("(", ")", "[", "/"):
            row.insert(at + 1, Element("mspace", width="0.167em"))
    for child in row:
        if child.text in FUNCTIONS:
            child.tag = "mi"
            child.set("mathvariant", "normal")
        elif child.tag == "mo" and child.text == BAR:
            child.attrib.update(form=next(bars), stretchy="false")
        elif child.tag == "mo" and child.text == "/":
            child.attrib.update(lspace="0.06em", rspace="0.06em")
        tidied(child, bars)


def mathml(display: str) -> Callable[[Any, Any], None]:
    def visit(writer: Any, node: Any) -> None:
        formula = fromstring(convert(node.astext(), xmlns="", display=display))
        tidied(formula, cycle(("prefix", "postfix")))
        writer.body.append(tostring(formula, encoding="unicode"))
        raise SkipNode

    return visit


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", rendered)
    app.add_html_math_renderer("mathml", (mathml("inline"), None), (mathml("block"), None))
