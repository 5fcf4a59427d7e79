"""Builds the documentation: `sphinx-build -W docs build/docs`. Nothing is fetched, and the notebooks are executed."""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import ismodule, signature
from itertools import cycle
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring, tostring

import plotly
from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.util.nodes import make_refnode

import ecc
from ecc.models import Protocol, all_protocols
from ecc.plot.look import as_html
from ecc.queues import all_disciplines

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import figures as figures_of_pages  # noqa: E402
import ledger_page  # noqa: E402
import protocol_pages  # noqa: E402
import reference_pages  # noqa: E402

REPORT = HERE.parent / "ecc-report"
"""Where `ecc crosscheck` writes, in the checkout: published with the pages if it is there."""

project, author, release = "ecc", "The ecc developers", ecc.__version__
copyright = author
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
# Types of these lead to their documentation, where the inventories are: Debian's packages of documentation have them.
DOCUMENTED = {
    "https://docs.python.org/3/": "python3*/html",
    "https://pandas.pydata.org/docs/": "python-pandas-doc/html",
}
intersphinx_mapping = {
    inventory.parent.parent.name.replace(".", "_"): (url, str(inventory))
    for url, folder in DOCUMENTED.items()
    for inventory in sorted(Path("/usr/share/doc").glob(f"{folder}/objects.inv"))[:1]
}
html_theme = "furo"
html_math_renderer = "mathml"  # browsers show it with no script
html_title = f"ecc {release}"
html_static_path = ["_static"]
html_extra_path = [str(REPORT)] if REPORT.exists() else []
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
highlight_language = "none"  # a block without a language is text
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings state the types, with units and ranges
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_ipywidgets_js = {}


# ---- pages and scripts made from what the project has ----------------------------------------------------


def copied() -> None:
    """Notebooks next to the pages, and Plotly's script where they find it."""
    folder = HERE / "notebooks"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE.parent / "notebooks", folder, ignore=shutil.ignore_patterns(".*"))
    for path in folder.glob("*.ipynb"):
        path.write_text(notebook_of_site(path.name, path.read_text(encoding="utf-8")), encoding="utf-8")
    (HERE / "_static").mkdir(exist_ok=True)
    shutil.copy(Path(plotly.__file__).parent / "package_data" / "plotly.min.js", HERE / "_static")


def notebook_of_site(name: str, text: str) -> str:
    """A notebook with links in place of paths of the checkout, and a link to download the original."""
    content = json.loads(text)
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            lines = "".join(cell["source"])
            cell["source"] = re.sub(r"`docs/(\w+)\.md`", lambda match: linked(match[1], "../"), lines)
    download = f"\n\n{{download}}`Download this notebook <../../notebooks/{name}>`"
    content["cells"][0]["source"] += download
    return json.dumps(content)


def linked(name: str, folder: str) -> str:
    """A link to a page under its title."""
    title = protocol_pages.title_of((HERE / f"{name}.md").read_text(encoding="utf-8"))
    return f"[{title}]({folder}{name}.md)"


def notebooks(app: Any, page: str, source: list[str]) -> None:
    """Links in place of paths of notebooks, which are in another folder of the checkout."""
    if "/" not in page:
        source[0] = re.sub(r"`(notebooks/\w+\.ipynb)`", r"[](\1)", source[0])


def live_gallery(app: Any, page: str, source: list[str]) -> None:
    """The gallery with thumbnails, and with live figures if notebooks are executed."""
    if page != "gallery":
        return
    text = source[0]
    shown = re.findall(r"^## (.*?)$.*?^!\[([^]]*)\]\((\w+)\.png\)$", text, re.MULTILINE | re.DOTALL)
    thumbnails = [f"[![{alt}]({name}.png) {title}](#{anchor(title)})" for title, alt, name in shown]
    grid = "\n\n".join(['<div class="gallery">', *thumbnails, "</div>", "## "])
    text = text.replace("## ", grid, 1)
    if app.config.nb_execution_mode != "off":
        for _, alt, name in shown:
            html = as_html(figures_of_pages.example(name), page=False)
            html = html.replace("<script>", BEGIN).replace("</script>", END)
            text = text.replace(f"\n![{alt}]({name}.png)\n", f"\n```{{raw}} html\n{html}\n```\n", 1)
    source[0] = text


def anchor(title: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


MODULES = {
    "ecc": "Networks, scenarios, runs",
    "ecc.models": "Protocols",
    "ecc.queues": "Queue disciplines",
    "ecc.stability": "Stability of protocols",
    "ecc.linear": "Linear systems with delays",
    "ecc.fluid": "Fluid runs and delay differential equations",
    "ecc.packet": "Packet runs",
    "ecc.live": "Live runs",
    "ecc.conform": "Conformance",
    "ecc.qlog": "Logs of transports",
    "ecc.cluster": "Clusters",
    "ecc.models.controller": "Controllers in shared objects",
    "ecc.rl": "Learning environments",
    "ecc.testing": "Tests of protocols",
    "ecc.transients": "Transients of runs",
    "ecc.allocation": "Fair allocations",
    "ecc.impairments": "Impairments",
    "ecc.demands": "Demands and traffic patterns",
    "ecc.applications": "Applications",
    "ecc.tmix": "Connection vectors",
    "ecc.headers": "Headers as bytes",
    "ecc.dissector": "A Wireshark dissector",
    "ecc.plot": "Figures",
}
"""What the reference has a page for."""


def module_page(name: str, title: str) -> str:
    """The page of a module: its own names, those of other pages left out."""
    module = import_module(name)
    left_out = [key for key in module.__all__ if ismodule(getattr(module, key))]
    left_out += {
        "ecc": ["DelaySystem", "Demand", "SampledSystem", "Tmix"],
        "ecc.models": ["Header", "LinkState", "FlowState", *all_protocols(unresponsive=True)],
        "ecc.queues": [*all_disciplines()],
    }.get(name, [])
    return "\n".join(
        [
            f"# `{name}`: {title[0].lower()}{title[1:]}",
            "",
            "```{eval-rst}",
            f".. automodule:: {name}",
            "   :members:",
            *([f"   :exclude-members: {', '.join(left_out)}"] if left_out else []),
            "```",
            "",
        ]
    )


copied()
for name, title in MODULES.items():
    (HERE / "reference" / f"{name}.md").write_text(module_page(name, title), encoding="utf-8")
reference_pages.write()
protocol_pages.write()
results = REPORT / "results.json"
found = json.loads(results.read_text(encoding="utf-8")) if results.exists() else None
(HERE / "reference" / "ledger.md").write_text(ledger_page.page(found), encoding="utf-8")

# Figures of notebooks are HTML that asks for the script of the page. It is deferred and comes last, so figures wait.
BEGIN, END = '<script>addEventListener("DOMContentLoaded", () => {', "});</script>"
STARTUP = (
    f"BEGIN, END = {BEGIN!r}, {END!r}"
    + """
import plotly.graph_objects as go
import plotly.io
from plotly.io.base_renderers import MimetypeRenderer

from ecc.plot.look import as_html


class Page(MimetypeRenderer):
    def to_mimebundle(self, figure):
        html = as_html(go.Figure(figure), page=False)
        return {"text/html": html.replace("<script>", BEGIN).replace("</script>", END)}


plotly.io.renderers["page"] = Page()
plotly.io.renderers.default = "page"
"""
)
profile = Path(tempfile.mkdtemp(prefix="ecc-docs-"))
(profile / "profile_default" / "startup").mkdir(parents=True)
(profile / "profile_default" / "startup" / "figures.py").write_text(STARTUP, encoding="utf-8")
os.environ["IPYTHONDIR"] = str(profile)

# ---- docstrings ------------------------------------------------------------------------------------------

ALIASES = {"pd": "pandas"}
"""Names that annotations have from imports for type checkers alone."""


def spelled_out(app: Any, environment: Any, node: Any, content: Any) -> Any:
    """Types by the names that their documentation has; quantities lead to the page on their strings."""
    first, _, rest = node.get("reftarget", "").partition(".")
    if first == "Quantity" and not rest:
        return make_refnode(app.builder, node["refdoc"], "reference/quantities", "", content)
    if first in ALIASES and rest:
        node["reftarget"] = f"{ALIASES[first]}.{rest}"
    return None


def parameters(app: Any, what: str, name: str, obj: Any, options: Any, shown: str, returned: str) -> Any:
    """Signatures of protocols by their parameters, which `Protocol.__new__` hides."""
    if what != "class" or not issubclass(obj, Protocol):
        return None
    taken = signature(obj)
    plain = [p.replace(annotation=p.empty) for p in taken.parameters.values()]
    return str(taken.replace(parameters=plain, return_annotation=taken.empty)), returned


FIGURE = "plotly-graph-div"
"""Class of the elements that Plotly's script draws."""


def figures(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Plotly's script on pages with figures only: it is 4.8 MB."""
    if FIGURE in context.get("body", ""):
        app.add_js_file("plotly.min.js", priority=100, loading_method="defer")


def versions(app: Any) -> None:
    """Scripts of the list of versions, for a site with a folder for each version (docs/versions.py)."""
    if app.config.versioned:
        app.add_js_file("../../versions.js", loading_method="defer")
        app.add_js_file("switch.js", loading_method="defer")


def report_with_a_link(app: Any, error: Exception | None) -> None:
    """The report leads back to the pages that it is published with."""
    path = Path(app.outdir) / "report.html"
    if error is None and path.exists():
        text = path.read_text(encoding="utf-8")
        link = '<p class="again"><a href="index.html">Documentation of ecc</a></p>'
        path.write_text(text.replace("<!-- documentation -->", link, 1), encoding="utf-8")


UNDERLINE = re.compile(r"-{5,}")
FULL = 90
"""Characters of a line after which an indented line continues its sentence, rather than a formula."""


def plain(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings hold plain text and code in backquotes: nothing else is markup. Indented text keeps its lines."""
    out: list[str] = []
    section = previous = ""
    base = 0
    for k, line in enumerate(lines):
        if UNDERLINE.fullmatch(line):
            section = lines[k - 1]
        if line.startswith(("    ", "   ")) and not section:
            indent = len(line) - len(line.lstrip())
            if out and out[-1].startswith("| ") and indent == base + 4 and len(previous) > FULL:
                out[-1] += f" {escaped(line.strip())}"  # a sentence goes on
            else:
                block, base = f"| {escaped(line.strip())}", indent
                out += [block] if not out or out[-1].startswith("| ") or not out[-1] else ["", block]
            previous = line
        elif section == "Examples" or not line.strip() or UNDERLINE.fullmatch(line):
            out.append(line)
        else:
            if out and out[-1].startswith("| "):
                out.append("")
            blank = line[: len(line) - len(line.lstrip())]
            out.append(blank + escaped(line.strip()))
    lines[:] = [*out, ""]


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
        elif row.tag == "mrow" and named(child):
            if after is not None and after.text not in ("(", ")", "[", "/"):
                row.insert(at + 1, Element("mspace", width="0.167em"))
            if at and row[at - 1].tag in ("mi", "mn", "msub", "msup"):
                row.insert(at, Element("mspace", width="0.167em"))
    for child in row:
        if child.text in FUNCTIONS and (child.text != "E" or (after is not None and after.text in ("(", "["))):
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
    app.add_config_value("versioned", False, "html")
    app.connect("builder-inited", versions)
    app.connect("autodoc-process-docstring", plain, priority=400)  # before napoleon reads them
    app.connect("autodoc-process-signature", parameters)
    app.connect("source-read", notebooks)
    app.connect("source-read", live_gallery)
    app.connect("html-page-context", figures)
    app.connect("build-finished", report_with_a_link)
    app.connect("missing-reference", spelled_out, priority=400)  # before intersphinx looks
    app.add_html_math_renderer("mathml", (mathml("inline"), None), (mathml("block"), None))
