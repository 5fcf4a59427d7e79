"""What the documentation shows runs as it stands."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "fair_share.py"
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if "```python" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    scope = {"__name__": "shown"}
    monkeypatch.setitem(sys.modules, "shown", type(sys)("shown"))
    for block in blocks:
        exec(compile(block, page.name, "exec"), scope)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_code_fits_its_column(page):
    """Wider code has a scroll bar; commands that are indented join a list before them, and stand on one line."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```[^\n{]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if len(line) > 88] == []
    assert re.findall(r"^ {4,}(?:ecc|python) .*$", text, re.MULTILINE) == []


@pytest.mark.parametrize("page", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda page: page.stem)
def test_code_of_notebooks_fits_its_column(page):
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert [line for line in code.splitlines() if len(line) > 88] == []


@pytest.mark.slow
def test_a_notebook_as_a_page_keeps_its_figures(monkeypatch):
    """With the variable that README names, the outputs of a notebook hold the figures and Plotly's script as HTML."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    (renderer,) = re.findall(
        r"`PLOTLY_RENDERER=(\S+) jupyter nbconvert", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    monkeypatch.setenv("PLOTLY_RENDERER", renderer)
    code = "from ecc.plot import root_figure\nroot_figure({'a': [-1.0]})"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    html = [str(output["data"].get("text/html", "")) for output in book.cells[0].outputs]
    assert any("plotly.js v" in text for text in html)
    assert "Plotly.newPlot" in html[-1] and "application/vnd.plotly.v1+json" in book.cells[0].outputs[-1]["data"]
    assert not any(re.search(r"""src=["']https?:[^"']*plotly""", text) for text in html)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_formulas_are_typeset(page):
    """What the converter does not know it prints as it is written."""
    converter = pytest.importorskip("latex2mathml.converter")
    text = re.sub(r"^```.*?^```$|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    formulas = re.findall(r"\$\$(.+?)\$\$|\$(.+?)\$", text, re.DOTALL)
    for formula in (display or inline for display, inline in formulas):
        assert not re.search(r">[^<]*[\\{}$_^][^<]*<", converter.convert(formula)), formula
    rest = re.sub(r"\$\$.+?\$\$|\$.+?\$", "", text, flags=re.DOTALL)
    assert re.findall(r"\w\^\w|\b(?:sqrt|exp|sin|cos)\(", rest) == []


@pytest.mark.parametrize("name", ["fair_share", "marked_window"])
def test_a_protocol_fits_in_sixty_lines(name):
    assert len((EXAMPLE.parent / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60


def test_every_page_is_in_both_indexes():
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    listed = re.findall(r"^(\w+)$", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r"^\| `(\w+)\.md` \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert pages == set(listed) == set(named)


def test_every_figure_has_a_command_that_its_page_names():
    """Pictures of claims by docs/figures.py; others by a program that the page names."""
    made = runpy.run_path(str(ROOT / "docs" / "figures.py"))["FIGURES"]
    claims = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "ecc" / "claims").glob("*.py"))
    for _, title in made.values():
        assert f'"{title}"' in claims
    shown = {}
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"!\[[^]]*\]\((\w+)\.(?:png|svg)\)", text):
            shown[name] = page.name
            if name in made:
                assert re.search(rf"ecc reproduce [\w -]*{made[name][0]}\b", text), (page.name, name)
                assert "docs/figures.py" in text, page.name
            else:
                assert re.search(r"python benchmarks/\w+\.py", text), (page.name, name)
    assert set(shown) == {path.stem for kind in ("png", "svg") for path in (ROOT / "docs").glob(f"*.{kind}")}
    assert set(made) <= set(shown)


def test_the_pages_that_show_code_are_there():
    assert {"ensembles_and_verdicts", "packet_runs", "your_own_protocol"} <= {page.stem for page in PAGES}
