"""The import graph: a module imports only from those above it, and `import ecc` stays light."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import version
from pathlib import Path

import pytest

import ecc

ORDER = """errors _support jit plot network traffic formats linear laws contract models queues scenario results
loops native fluid packet live engines cycles comparison stability testing rl explorer claims conform
batch cli __main__""".split()
ALONE = {
    "_support": {"errors"},
    "plot": {"_support.arguments"},
    "jit": {"_support.cache"},
    "native": {"errors", "_support"},
    "linear": {"errors", "_support", "plot"},
    "laws": {"errors"},
}
"""Packages that may be taken elsewhere: what of ours they may import."""
ROOT = Path(ecc.__file__).parent


@cache
def imports(path):
    """The statements of a file that import, wherever in the file they are."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def imported(path):
    """Rooms of `ecc` that a file imports."""
    for node in imports(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.module:
            names = [f"ecc.{alias.name}" for alias in node.names] if node.module == "ecc" else [node.module]
        else:
            continue
        for name in names:
            if name == "ecc" or name.startswith("ecc."):
                _, room, module, *_ = f"{name}..".split(".")
                yield f"{room}.{module}" if room == "_support" else room


def test_every_module_imports_only_from_above():
    seen = 0
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        above = ALONE.get(room, set(ORDER[: ORDER.index(room)])) | {room, "__version__"}
        wrong = {name for name in imported(path) if name not in above and name.split(".")[0] not in above}
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}, which stand beside or below it"
        seen += 1
    assert seen > 40


def test_only_tests_of_the_ledger_import_it():
    here = Path(__file__).parent
    # Second methods name claims; the command line, and the tests of what ends it, are above the ledger.
    of_it = {"claims", "independent", "test_cli.py", "test_interrupts.py"}
    for path in here.rglob("*.py"):
        if path.relative_to(here).parts[0] not in of_it and "claims" in path.read_text(encoding="utf-8"):
            assert "claims" not in set(imported(path)), path.relative_to(here)


@pytest.mark.parametrize("room", [path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()])
def test_modules_of_a_package_form_no_cycle(room):
    """Also counted: imports inside functions, and those for annotations alone."""
    modules = {f"ecc.{'.'.join(p.relative_to(ROOT).with_suffix('').parts)}": p for p in (ROOT / room).rglob("*.py")}
    above = {}
    for name, path in modules.items():
        if path.name == "__init__.py":  # names of the package, collected
            continue
        nodes = [node for node in imports(path) if isinstance(node, ast.ImportFrom)]
        found = {
            part for node in nodes for part in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        }
        above[name] = (found & set(modules)) - {name, f"ecc.{room}"}
    assert list(TopologicalSorter(above).static_order()) or not above


def test_questions_about_arguments_are_asked_by_name():
    """Other rooms ask `takes`, `call_law` and so on, or `router_takes` of a protocol: see `ecc.laws.arguments`."""
    files = [path for path in ROOT.rglob("*.py") if "law_arguments" in path.read_text(encoding="utf-8")]
    assert {path.relative_to(ROOT).parts[0] for path in files} <= {"laws", "loops"}


def test_models_do_not_import_numba():
    for path in (ROOT / "models").rglob("*.py"):
        assert "numba" not in path.read_text(encoding="utf-8"), path.name


def test_import_is_light(tmp_path):
    heavy = ("numpy", "numba", "plotly", "xarray", "pandas", "scipy")
    code = f"import sys, ecc; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (["--help"], "numpy xarray pandas scipy numba plotly"),
        (["claims"], "xarray pandas scipy numba plotly"),
        (["simulate", "scenario.toml"], "xarray pandas scipy numba plotly ecc.packet.twin ecc.models.bbr"),
        pytest.param(
            ["simulate", "scenario.toml", "--engine", "fluid"],
            "xarray pandas plotly scipy.special",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["sweep", "scenario.toml", "--vary", "seed=1,2", "--average", "seed"],
            "xarray pandas scipy.signal scipy.stats numba plotly ecc.models.bbr",  # intervals need scipy.special
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["sweep", "scenario.toml", "--vary", "seed=1,2", "--jobs", "1", "--json"],
            "xarray pandas scipy numba plotly",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["stability", "RCP", "--rtt", "100 ms"],
            "xarray pandas numba plotly scipy.signal scipy.stats",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_command_imports_no_library_that_it_does_not_use(arguments, unused, tmp_path):
    network = ecc.Network.dumbbell("1 Mb/s", rtts=["50 ms"], buffer="10 kB")
    scenario = ecc.Scenario(network, ecc.models.NewReno(), 0.5)
    (tmp_path / "scenario.toml").write_text(scenario.to_toml())
    code = "import sys; from ecc.cli import main; code = main(sys.argv[2:])\n"
    code += "print(code, [name for name in sys.argv[1].split() if name in sys.modules])"
    command = [sys.executable, "-P", "-c", code, unused, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_one_version():
    assert ecc.__version__ == version("congestion-control")


def test_public_names_are_there():
    for name in ecc.__all__:
        assert getattr(ecc, name) is not None
    assert [name for name in dir(ecc) if not name.startswith("__")] == sorted(ecc.__all__)
    for name in ecc._PARTS:
        assert name not in dir(ecc) and getattr(ecc, name).__all__


def test_the_source_tree_without_its_engine_says_what_to_do():
    tree = Path(__file__).parents[1]
    code = "import sys; sys.path.insert(0, sys.argv[1]); import ecc; ecc.packet.simulate"
    done = subprocess.run([sys.executable, "-P", "-c", code, str(tree)], capture_output=True, text=True)
    said = done.stderr.splitlines()[-1]
    assert said == (
        "ImportError: this is the source tree of ecc, whose C engine is built by `pip install .`: to use what is "
        "installed, start Python from another folder, or as `python -P`"
    )
