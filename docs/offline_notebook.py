"""Makes pages of notebooks that need no network: formulas become MathML, and scripts from the network are removed.

`python docs/offline_notebook.py NOTEBOOK.ipynb OUT.ipynb` replaces the formulas.
`python docs/offline_notebook.py PAGE.html OUT.html` removes the scripts from the page that nbconvert makes of the copy.
docs/command_line.md has all commands. The script needs latex2mathml, which the extra `docs` installs.
"""

import json
import re
import sys
from pathlib import Path

try:
    from latex2mathml.converter import convert
except ImportError:
    sys.exit('offline_notebook.py needs latex2mathml: pip install ".[docs]"')

FORMULA = re.compile(r"(?P<code>```.*?```|`[^`]*`)|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$]+?)\$", re.DOTALL)
SCRIPT = re.compile(r'<script\b[^>]*\bsrc="https?://[^"]*"[^>]*>\s*</script>')


def without_scripts_of_the_network(html: str) -> str:
    """Return a page without scripts that browsers fetch: RequireJS of nbconvert, and MathJax of Plotly; both unused."""
    return SCRIPT.sub("", html)


def with_mathml(markdown: str) -> str:
    """Return Markdown with MathML in place of its formulas; code stays as it is."""

    def replaced(found: re.Match[str]) -> str:
        if found["code"]:
            return found["code"]
        display = "inline" if found["inline"] else "block"
        return " ".join(convert(found["inline"] or found["block"], display=display).split())

    return FORMULA.sub(replaced, markdown)


def offline(notebook: dict) -> dict:
    """Return a notebook, as JSON, with MathML in its Markdown cells.

    Raises
    ------
    ValueError
        If a cell uses ipywidgets, for example `interact`: such a cell needs a kernel, and scripts from the network.
    """
    for number, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] == "code" and re.search(r"\bipywidgets\b", "".join(cell["source"])):
            raise ValueError(f"cell {number} uses ipywidgets, which a page without a kernel cannot: use slider_figure")
    cells = [
        cell | {"source": with_mathml("".join(cell["source"]))} if cell["cell_type"] == "markdown" else cell
        for cell in notebook["cells"]
    ]
    return notebook | {"cells": cells}


if __name__ == "__main__":
    source, out = map(Path, sys.argv[1:])
    text = source.read_text(encoding="utf-8")
    try:
        page = source.suffix == ".html"
        copy = without_scripts_of_the_network(text) if page else json.dumps(offline(json.loads(text)))
    except ValueError as error:
        sys.exit(f"{source}: {error}")
    out.write_text(copy, encoding="utf-8")
