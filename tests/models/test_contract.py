"""Nothing outside a protocol's own file has to know it: no engine, no general room names one or serves one alone."""

import ast
from functools import cache
from pathlib import Path

import pytest

import ecc
from ecc.contract.env import FlowEnv, LinkEnv, NoRecord
from ecc.laws.affine import is_affine
from ecc.models import Protocol, all_protocols
from ecc.native import FLOW_ENV, LINK_ENV

ROOT = Path(ecc.__file__).parent
SHARED = ROOT / "models" / "shared"
OWN = {cls.__name__: Path(cls.__module__.replace(".", "/")).name for cls in all_protocols(unresponsive=True).values()}
OWN["Policy"] = "policy"  # with a network of its user
"""Protocol -> the name of its file."""
STATEMENTS = ("claims", "explorer", "rl", "stability", "comparison/access_link.py")
"""What is about particular protocols: statements, first views, hosts of policies, and the traffic of a home link."""


@cache
def names(path):
    """Identifiers, imported modules and strings in the code of a file, less docstrings and comments; `.attribute`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes, found = list(ast.walk(tree)), set()
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}
    for node in nodes:
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found |= {node.attr, f".{node.attr}"}
        elif isinstance(node, ast.alias):
            found |= {node.name, *imports(node.name)}
        elif isinstance(node, ast.ImportFrom):
            found |= imports(node.module or "", node.level)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            found.add(node.value)
    return found


def imports(module, level=0):
    """The parts of the name of a module of ours: `importlib.util` is no protocol's."""
    package, *parts = module.split(".")
    return {f"import {part}" for part in (package, *parts) if level > 0 or package == "ecc"}


def general_files():
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT)
        own = path.parent == ROOT / "models" and (path.stem in OWN.values() or path.name == "__init__.py")
        if not own and not {place.parts[0], place.as_posix()} & set(STATEMENTS):
            yield path


def test_no_general_file_names_a_protocol():
    seen = 0
    for path in general_files():
        found = {*OWN, *(f"import {own}" for own in OWN.values())} & names(path)
        assert not found, f"{path.relative_to(ROOT)} names {sorted(found)}"
        seen += 1
    assert seen > 60


def test_the_test_sees_names_where_they_are():
    assert {"EMKC", "import emkc"} <= names(ROOT / "models" / "__init__.py")
    assert set(OWN) >= {"XCP", "RCP"} <= {name for path in (ROOT / "claims").rglob("*.py") for name in names(path)}


def test_what_protocols_share_is_used_by_several():
    """By themselves, by way of another module that they share, or by a protocol and a general room."""
    modules = {path.stem: path for path in SHARED.glob("*.py") if path.name != "__init__.py"}
    paths = {**modules, **{own: ROOT / "models" / f"{own}.py" for own in OWN.values()}}
    named = {stem: names(path) for stem, path in paths.items()}
    for module in modules:
        users, reached = set(), {module}
        while reached:
            shared = {name for one in reached for name in (one, f"import {one}")}
            found = {stem for stem in named if shared & named[stem]} - users
            users, reached = users | found, found & set(modules)
        users |= {path.stem for path in general_files() if path.parent != SHARED and f"import {module}" in names(path)}
        assert len(users - set(modules)) > 1, f"{module}.py serves {users}"


def test_nothing_is_used_that_the_contract_does_not_declare():
    """What a class has beside the entries of `Protocol` and its parameters, laws under other names say, is its own."""
    used = {}
    for path in general_files():
        for name in names(path):
            used.setdefault(name, path)
    for cls in all_protocols(unresponsive=True).values():
        bases = [base for base in cls.__mro__ if base not in (Protocol, object)]
        extra = {name for base in bases for name in vars(base) if not name.startswith("_")}
        extra -= {*vars(Protocol), *Protocol.__annotations__, *cls.__dataclass_fields__}
        found = {name: used[f".{name}"] for name in extra if f".{name}" in used}
        assert not found, found


def test_affine_laws_are_found_by_their_text():
    found = {name for name, cls in all_protocols().items() if cls().has_affine_laws}
    assert "JetMax" in found and not found & {
        "XCP",
        "RCP",
        "QIRCP",
        "PIQIRCP",
        "MaxNet",
        "EMKC",
        "MKC",
        "EMKCAVQ",
        "Kelly",
    }
    for law in (
        lambda x: x * x,
        lambda x: 1.0 / x,
        lambda x: abs(x),
        lambda x: max(x, 0.0),
        lambda x: x if x > 1.0 else 0.0,
        lambda x: 2.0**x,
        lambda x: x // 2.0,
    ):
        assert not is_affine(law, ["x"], {})
    for law in (lambda x, y: 2.0 * x - y / 3.0 + 1.0, lambda x: -(x + 1.0) * 3.0, lambda y: 5.0, None):
        assert is_affine(law, ["x", "y"], {})
    assert is_affine(lambda x, N: x / max(N, 1.0), ["x"], {"N": 2.0})


class Still(Protocol):
    """What sends and never reacts."""

    def link_hooks(self):
        return {}

    def flow_hooks(self):
        return {"on_start": None, "on_send": None}


def test_unresponsive_is_who_has_no_hook_for_feedback_and_no_law():
    assert not Still().is_responsive and not ecc.models.ConstantRate(1e6).is_responsive
    assert all(cls().is_responsive for cls in all_protocols().values())
    assert type("Answers", (Still,), {"flow_hooks": lambda self: {"on_loss": None}})().is_responsive
    assert type("Fluid", (Still,), {"source_law": staticmethod(lambda R: R)})().is_responsive
    assert Protocol().is_responsive and Protocol.Header is NoRecord


@pytest.mark.parametrize(("env", "dtype"), [(LinkEnv, LINK_ENV), (FlowEnv, FLOW_ENV)], ids=["link", "flow"])
def test_what_hooks_see_is_what_the_engine_declares(env, dtype):
    kinds = {name: {"f": "float", "i": "int"}[dtype[name].kind] for name in dtype.names}
    assert env.__annotations__ == kinds


def test_a_law_that_is_a_method_is_refused():
    with pytest.raises(TypeError, match=r"router_law of Methodical must be a static method: router_law = staticmethod"):
        type("Methodical", (Protocol,), {"router_law": lambda R: R})
