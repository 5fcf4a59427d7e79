"""What the documentation shows runs as it stands."""

import ast
import importlib
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from latex2mathml.converter import convert
from waiting import HANG

from ecc.cli import main
from ecc.models import all_protocols
from ecc.packet import Run
from ecc.queues import all_disciplines
from ecc.results.trajectory import Trajectory

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "fair_share.py"
ALL_PAGES = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    page
    for page in (*ALL_PAGES, ROOT / "docs" / "reference" / "quantities.md")
    if "```python" in page.read_text(encoding="utf-8")
]


DEAR = (
    "access_link",
    "basins",
    "bbr_cycle",
    "clusters",
    "conformance",
    "cookbook",
    "cycle_proofs",
    "delay_equations",
    "delay_systems",
    "ensembles",
    "fabrics",
    "gallery",
    "index",
    "live",
    "packet_runs",
    "proofs_of_learned_controllers",
    "queue_disciplines",
    "random_cycles",
    "real_tcp",
    "tcp_sawtooth",
    "train_a_controller",
    "tutorial_control",
    "your_own_protocol",
)
"""Pages whose code takes seconds."""
NEEDS = {
    "controllers_in_c": "aimd",
    "live": "namespaces",
    "qlog": "checkout",
    "real_tcp": "namespaces",
    "train_a_controller": "checkout",
    "clusters": "here",
}
"""Fixtures without which the code of a page cannot run."""
assert {*DEAR, *NEEDS} <= {page.stem for page in PAGES}


@pytest.fixture
def aimd(tmp_path):
    """The shared object that a page compiles, by the command that it shows."""
    page = (ROOT / "docs" / "controllers_in_c.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^```sh\n(cc .*?)^```$", page, re.MULTILINE | re.DOTALL)
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = command.replace("examples/", f"{ROOT}/examples/")
    subprocess.run(["sh", "-e", "-c", command], cwd=tmp_path, env=environment, check=True, timeout=HANG)


@pytest.fixture
def here(monkeypatch):
    """Threads in place of a cluster, which tests/test_cluster.py has."""
    monkeypatch.setattr("ecc.batch.cluster.Cluster", lambda address: ThreadPoolExecutor(1))


@pytest.fixture
def checkout(tmp_path):
    """The examples, where a page looks for them."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.stem in DEAR else []) for page in PAGES],
)
def test_the_code_of_a_page_runs(page, monkeypatch, request, tmp_path, capsys):
    if page.stem in NEEDS:
        request.getfixturevalue(NEEDS[page.stem])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", text, re.MULTILINE | re.DOTALL)
    scope = {"__name__": "shown"}
    monkeypatch.setitem(sys.modules, "shown", type(sys)("shown"))
    for block, printed in blocks:
        capsys.readouterr()
        exec(compile(block, page.name, "exec"), scope)
        assert not printed or capsys.readouterr().out == printed


def test_a_tutorial_shows_what_its_command_prints(capsys):
    text = (ROOT / "docs" / "tutorial_control.md").read_text(encoding="utf-8")
    ((command, printed),) = re.findall(r"^```sh\necc (.*?)\n```\n\n```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert main(command.split()) == 0
    assert printed and capsys.readouterr().out.startswith(printed)


@pytest.mark.slow
def test_the_lab_sheet_shows_what_its_sweeps_print(capsys, monkeypatch, tmp_path):
    text = (ROOT / "docs" / "lab_sheet.md").read_text(encoding="utf-8")
    (home,) = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^ecc (sweep (?:.*\\\n)*.*)", text, re.MULTILINE)
    tables = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    line = 'protocol = { name = "NewReno" }\n'
    hosts = '[protocol.flows]\ndefault = { name = "NewReno" }\n[protocol.links]\ndefault = { name = "FQCoDel" }\n'
    monkeypatch.chdir(tmp_path)
    Path("home.toml").write_text(home)
    Path("fair.toml").write_text(home.replace(line, "").replace("[[workload", f"{hosts}[[workload"))
    for command, table in zip(commands, tables, strict=True):
        assert main(shlex.split(command.replace("\\\n", " "))) == 0
        assert table in capsys.readouterr().out


def test_files_that_pages_show_are_those_of_the_checkout():
    """A page shows a file whole, under a comment with its path; only lines are broken at another column."""
    shown = set()
    for page in PAGES:
        found = re.findall(r"^<!-- (\S+) -->\n```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
        for path, block in found:
            texts = block, (ROOT / path).read_text(encoding="utf-8")
            (code, kept), (notes, kept_notes) = (
                [ast.dump(ast.parse(text)) for text in texts],
                [re.findall("#.*", text) for text in texts],
            )
            assert code == kept and notes == kept_notes, (page.name, path)
            shown.add(path)
    assert shown == {"examples/fair_share.py", "examples/random_drop.py"}


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_code_fits_its_column(page):
    """Wider code has a scroll bar; commands that are indented join a list before them, and stand on one line."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    code = "".join(block for kind, block in blocks if not kind.startswith("{"))
    assert [line for line in code.splitlines() if len(line) > 88] == []
    assert re.findall(r"^ {4,}(?:ecc|python) .*$", text, re.MULTILINE) == []


@pytest.mark.parametrize("page", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda page: page.stem)
def test_code_of_notebooks_fits_its_column(page):
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert [line for line in code.splitlines() if len(line) > 88] == []


@pytest.mark.parametrize("page", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda page: page.stem)
def test_formulas_of_notebooks_need_no_script_of_the_network(page, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    offline_notebook = importlib.import_module("offline_notebook")
    before = json.loads(page.read_text(encoding="utf-8"))
    after = offline_notebook.offline(before)
    formulas = 0
    for cell, changed in zip(before["cells"], after["cells"], strict=True):
        if cell["cell_type"] != "markdown":
            assert changed == cell
            continue
        text = re.sub(r"```.*?```|`[^`]*`", "", "".join(cell["source"]), flags=re.DOTALL)
        expected = len(re.findall(r"\$\$.+?\$\$|\$[^$]+?\$", text, re.DOTALL))
        assert changed["source"].count("<math ") == expected and "$" not in re.sub(r"`[^`]*`", "", changed["source"])
        formulas += expected
    assert formulas > 0 or "$" not in page.read_text(encoding="utf-8")


def test_a_notebook_with_ipywidgets_is_refused(tmp_path):
    page = tmp_path / "live.ipynb"
    cells = [{"cell_type": "code", "source": ["from ipywidgets import interact\n", "interact(print, gain=(1, 2))"]}]
    page.write_text(json.dumps({"cells": cells}))
    command = [sys.executable, str(ROOT / "docs" / "offline_notebook.py"), str(page), str(tmp_path / "out.ipynb")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
    message = "cell 1 uses ipywidgets, which a page without a kernel cannot: use slider_figure"
    assert (ended.returncode, ended.stderr) == (1, f"{page}: {message}\n")
    assert not (tmp_path / "out.ipynb").exists()


@pytest.mark.slow
def test_a_notebook_as_a_page_keeps_its_figures(monkeypatch):
    """With the variable that the page names, the outputs of a notebook hold the figures and Plotly's script as HTML."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    text = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    (renderer,) = re.findall(r"^PLOTLY_RENDERER=(\S+) \\\n +jupyter nbconvert", text, re.MULTILINE)
    monkeypatch.setenv("PLOTLY_RENDERER", renderer)
    code = "from ecc.plot import root_figure\nroot_figure({'a': [-1.0]})"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(book, timeout=int(HANG), kernel_name="python3").execute()
    html = [str(output["data"].get("text/html", "")) for output in book.cells[0].outputs]
    assert any("plotly.js v" in text for text in html)
    assert "Plotly.newPlot" in html[-1] and "application/vnd.plotly.v1+json" in book.cells[0].outputs[-1]["data"]
    assert not any(re.search(r"""src=["']https?:[^"']*plotly""", text) for text in html)
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    page = importlib.import_module("offline_notebook").without_scripts_of_the_network(html[-1])
    assert 'src="http' in html[-1] and 'src="http' not in page and "Plotly.newPlot" in page


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_formulas_are_typeset(page):
    """What the converter does not know it prints as it is written, which may not even be XML."""
    text = re.sub(r"^```.*?^```$|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    formulas = re.findall(r"\$\$(.+?)\$\$|\$(.+?)\$", text, re.DOTALL)
    for formula in (display or inline for display, inline in formulas):
        markup = convert(formula)
        assert not re.search(r">[^<]*[\\{}$_^][^<]*<", markup), formula
        fromstring(markup)
    rest = re.sub(r"\$\$.+?\$\$|\$.+?\$", "", text, flags=re.DOTALL)
    assert re.findall(r"\w\^\w|\b(?:sqrt|exp|sin|cos)\(", rest) == []


@pytest.mark.parametrize("name", ["fair_share", "marked_window", "random_drop"])
def test_a_protocol_fits_in_sixty_lines(name):
    assert len((EXAMPLE.parent / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60


def test_the_example_with_a_window_reads_units(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    kind = importlib.import_module("marked_window").MarkedWindow
    assert kind(threshold="65 kB").params()["threshold"] == 65_000.0
    with pytest.raises(ValueError, match="^threshold must have one of the units B, .*, got '65 ms'$"):
        kind(threshold="65 ms")


def test_tables_of_the_reference_are_those_of_the_code():
    pages = runpy.run_path(str(ROOT / "docs" / "reference_pages.py"))["PAGES"]
    for name, page in pages.items():
        kept = (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")
        assert kept == page(), "python docs/reference_pages.py writes it anew"


def test_every_protocol_and_discipline_has_a_page_with_its_parameters():
    pages = runpy.run_path(str(ROOT / "docs" / "protocol_pages.py"))
    for cls in (*all_protocols(unresponsive=True).values(), *all_disciplines().values()):
        text = pages["page"](cls)
        assert text.startswith(f"# {cls.__name__}\n")
        rows = re.findall(r"^\| `(\w+)` \| .* \| .* \| (.*) \|$", text.partition("## Parameters")[2], re.MULTILINE)
        assert [name for name, meaning in rows if not meaning or meaning.startswith("(")] == [], cls.__name__
        assert {name for name, _ in rows} == {f.name for f in fields(cls) if f.init}
        for page in re.findall(r"\]\(../../([\w/]+\.\w+)\)", text):
            assert (ROOT / "docs" / page).exists() or (ROOT / page).exists(), page


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_pages_name_attributes_of_runs_that_exist(page):
    named = set(re.findall(r"`run\.([a-z_]+)", page.read_text(encoding="utf-8")))
    assert named <= {*dir(Trajectory), *dir(Run)} | {field.name for field in fields(Trajectory)}


@pytest.mark.parametrize("page", sorted(set((ROOT / "docs").glob("*.md")) - {ROOT / "docs" / "index.md"}))
def test_pages_lead_to_files_of_the_checkout(page):
    """The front page of the site lists pages that only building it makes; who reads a checkout does not meet them."""
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"\]\(([\w./-]+\.\w+)(?:#[^)]*)?\)|^```\{include\} (\S+)", text, re.MULTILINE)
    made = re.compile(r"reference/(ecc[\w.]*|ledger)\.md")
    for path in (link or included for link, included in named):
        assert (page.parent / path).exists() and not made.fullmatch(path), path


@pytest.mark.slow
def test_figures_of_the_site_wait_for_the_deferred_script(monkeypatch):
    """Deferred scripts and modules run in the order of the page, where Plotly's script is the last."""
    import plotly.io

    from ecc.plot import root_figure

    monkeypatch.setattr(plotly.io.renderers, "default", plotly.io.renderers.default)
    tree = ast.parse((ROOT / "docs" / "conf.py").read_text(encoding="utf-8"))
    lines = [node for node in tree.body if isinstance(node, ast.Assign) and "BEGIN" in ast.unparse(node)]
    scope = {}
    exec("\n".join(map(ast.unparse, lines)), scope)
    exec(scope["STARTUP"], scope)
    html = plotly.io.renderers["page"].to_mimebundle(root_figure({"a": [-1.0]}).to_dict())["text/html"]
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert script.startswith('addEventListener("DOMContentLoaded", () => {') and script.endswith("});")
    assert "Plotly.newPlot" in script and "plotly.js v" not in script


def test_the_reference_has_a_page_for_each_module_that_it_lists():
    listed = re.findall(
        r"^(ecc[\w.]*)$", (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    made = re.search(
        r"^MODULES = (\{.*?^\})$", (ROOT / "docs" / "conf.py").read_text(encoding="utf-8"), re.M | re.DOTALL
    )
    assert made is not None and listed == list(ast.literal_eval(made[1]))


def test_every_page_is_in_the_index():
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    listed = re.findall(r"^(?:.* <)?(\w+)>?$", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert pages == set(listed)


def test_readme_prints_what_it_shows(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (printed,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(compile(code, "README.md", "exec"), {"__name__": "shown"})
    assert capsys.readouterr().out == printed


def test_readme_has_five_links_into_the_docs():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((docs/\w+\.md)\)", text)
    assert len(linked) == 5 and all((ROOT / page).exists() for page in linked)


def anchors(page):
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#{1,3} (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([\w/.]*\.md|)#([\w-]+)\)", page.read_text(encoding="utf-8")):
        assert anchor in anchors(page.parent / target if target else page), f"{target}#{anchor}"


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_a_page_links_its_terms(page):
    """Terms of control and networking lead to the glossary."""
    assert page.stem in ("index", "glossary") or "glossary.md" in page.read_text(encoding="utf-8")


def test_every_figure_has_a_command_that_its_page_names():
    """Pictures of claims and of examples by docs/figures.py; others by a program that the page names."""
    figures = runpy.run_path(str(ROOT / "docs" / "figures.py"))
    made = figures["FIGURES"]
    claims = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "ecc" / "claims").rglob("*.py"))
    for _, title in made.values():
        own = title.removeprefix("BBR: ").removeprefix("NADA: ")  # cases put their controller before it
        assert f'"{own}"' in claims
    shown = {}
    for page in (ROOT / "README.md", *ALL_PAGES):
        text = page.read_text(encoding="utf-8")
        for picture, target in re.findall(r"\[!\[[^]]*\]\((\w+\.png)\)[^]]*\]\((\w+\.md)\)", text):
            assert picture in (ROOT / "docs" / target).read_text(encoding="utf-8"), (page.name, picture)
        text = re.sub(r"\[!\[[^]]*\]\(\w+\.png\)", "", text)  # a thumbnail: its page names the command
        for name in re.findall(r"!\[[^]]*\]\((?:docs/)?(\w+)\.(?:png|svg)\)", text):
            shown[name] = page.name
            if name in made:
                assert re.search(rf"ecc reproduce [\w -]*{made[name][0]}\b", text), (page.name, name)
                assert "docs/figures.py" in text, page.name
            elif name in figures["EXAMPLES"]:
                assert f"python docs/figures.py {name}" in text, page.name
            else:
                assert re.search(r"python benchmarks/\w+\.py", text), (page.name, name)
    assert set(shown) == {path.stem for kind in ("png", "svg") for path in (ROOT / "docs").glob(f"*.{kind}")}
    assert set(made) <= set(shown)


def test_every_figure_of_an_example_has_a_block_that_makes_it():
    figures = runpy.run_path(str(ROOT / "docs" / "figures.py"))
    for name in figures["EXAMPLES"]:
        assert re.search(r"^figure\b", figures["block"](name), re.MULTILINE), name


def test_all_files_name_one_version():
    """The four files of docs/releasing.md, and the newest heading of the changelog."""
    patterns = {
        "meson.build": r"version: '([\d.]+)'",
        "ecc/__init__.py": r'__version__ = "([\d.]+)"',
        "CITATION.cff": r"^version: ([\d.]+)",
        "recipe/recipe.yaml": r'version: "([\d.]+)"',
        "CHANGELOG.md": r"^## ([\d.]+)",
    }
    named = {
        file: re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)[1]
        for file, pattern in patterns.items()
    }
    assert len(set(named.values())) == 1, named
    page = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")
    assert [file for file in patterns if f"`{file}`" not in page] == []


def test_the_pages_that_show_code_are_there():
    assert {"ensembles", "packet_runs", "your_own_protocol"} <= {page.stem for page in PAGES}


def test_links_have_a_text():
    """Sphinx fills in the title of a page; elsewhere a link without a text is invisible."""
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]
    assert len(pages) > 20
    assert [page.name for page in pages if "[](" in page.read_text(encoding="utf-8")] == []


TOPICS = (
    "empty_queue",
    "gain_design",
    "hopf_bifurcation",
    "networks",
    "rtt_distributions",
    "rtt_estimates",
    "theorem_registry",
    "varying_delays",
)


CYCLES = ("bbr_cycle", "tcp_sawtooth")
"""Topics of limit cycles, which modules of `ecc.cycles` share."""


@pytest.mark.parametrize("topic", CYCLES)
def test_a_topic_of_cycles_has_one_name_in_four_places(topic):
    for path in (
        f"docs/{topic}.md",
        f"ecc/claims/entries/open/{topic}.toml",
        f"ecc/claims/checks/open/{topic}.py",
        f"tests/claims/test_{topic}.py",
    ):
        assert (ROOT / path).is_file(), path


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_has_one_name_in_five_places(topic):
    """Its page, its module, its entries of the ledger, their check, and its tests."""
    for path in (
        f"docs/{topic}.md",
        f"ecc/stability/{topic}.py",
        f"ecc/claims/entries/open/{topic}.toml",
        f"ecc/claims/checks/open/{topic}.py",
        f"tests/stability/test_{topic}.py",
    ):
        assert (ROOT / path).is_file(), path


def test_topics_are_all_there_are():
    """Open entries that code checks have a page; `answers` are checked by runs, and have no module.

    `replays` are of several topics.
    """
    entries = {path.stem for path in ROOT.glob("ecc/claims/entries/open/*.toml")} - {"answers"}
    checks = {path.stem for path in ROOT.glob("ecc/claims/checks/open/[a-z]*.py")} - {"replays"}
    assert entries == checks == {*TOPICS, *CYCLES}


def test_the_transports_of_all_protocols_are_those_of_the_page():
    from dataclasses import fields

    import ecc

    page = (ROOT / "docs" / "packet_runs.md").read_text(encoding="utf-8")
    rows = page.split("| protocols | default of `transport` |")[1].split("\n\n")[0].splitlines()[2:]
    said = {}
    for row in rows:
        names, transport = (cell.strip() for cell in row.split("|")[1:3])
        said |= {name: transport.split('"')[1] if '"' in transport else None for name in names.split(", ")}
    assert said.pop("all others") is None and said.pop("custom classes") is None
    kinds = {name: getattr(ecc.models, name) for name in ecc.models.all_protocols()}
    chosen = {
        name: field.default for name, kind in kinds.items() for field in fields(kind) if field.name == "transport"
    }
    assert said == chosen
