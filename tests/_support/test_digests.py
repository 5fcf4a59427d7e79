"""Digests of functions: they change with what a result can depend on, and with nothing else."""

import importlib
import sys
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

import ecc
from ecc._support import digests
from ecc._support.digests import function_digest
from ecc.batch.sweeps import ScenarioRuns

GAIN = 2.0


def scaled(x):
    return GAIN * x


def through(x):
    return scaled(x) + 1


def written(source, **names):
    """A function as a notebook cell or a prompt makes it: without a file."""
    names["__name__"] = "notebook"
    exec(source, names)
    return names["f"]


def test_the_same_text_is_the_same_function_wherever_it_is_written():
    first = written("def f(x):\n    return x + 1")
    again = written("\n\n# a comment\ndef f(x):\n    # another\n    return x + 1")
    assert function_digest(first) == function_digest(again)


@pytest.mark.parametrize(
    "others",
    [
        ["def f(x): return x + 1", "def f(x): return x + 2", "def f(x): return x - 1", "def f(x, k=1): return x + 1"],
        ["f = lambda x: x", "f = lambda x: 2 * x", "f = lambda x: [2 * y for y in x]", "f = lambda x: [y for y in x]"],
        ["k = 1\ndef f(x): return x + k", "k = 2\ndef f(x): return x + k"],
        ["def g(x): return x\ndef f(x): return g(x)", "def g(x): return 2 * x\ndef f(x): return g(x)"],
        ["a = {'k': [1, 2]}\ndef f(x): return a['k']", "a = {'k': [1, 3]}\ndef f(x): return a['k']"],
        ["class f:\n def __call__(s, x): return x", "class f:\n def __call__(s, x): return -x"],
        ["import math\nf = lambda x: math.sin(x)", "import math\nf = lambda x: math.cos(x)"],
        [f"def f(x):\n try: return x\n except {kind}: return 0" for kind in ("ValueError", "OSError")],
    ],
)
def test_what_differs_has_another_digest(others):
    digests = [function_digest(written(source)) for source in others]
    assert len(set(digests)) == len(others)
    assert digests == [function_digest(written(source)) for source in others]


def test_globals_closures_partials_objects_and_caches(monkeypatch):
    def adding(k):
        return lambda x: x + k

    @dataclass
    class Adds:
        k: float

        def __call__(self, x):
            return x + self.k

        def method(self, x):
            return x + self.k

    before = [function_digest(f) for f in (scaled, through)]
    monkeypatch.setattr(sys.modules[__name__], "GAIN", 3.0)
    assert all(function_digest(f) != old for f, old in zip((scaled, through), before, strict=True))
    for made in (
        adding,
        Adds,
        lambda k: Adds(k).method,
        lambda k: partial(scaled, x=k),
        lambda k: adding(np.array([k])),
        lambda k: cache(adding(k)),
        lambda k: adding(Adds(k)),
        lambda k: adding({"k": {k}}),
        lambda k: adding(ecc.Link(k, 0.0)),
    ):
        assert function_digest(made(1.0)) == function_digest(made(1.0)) != function_digest(made(2.0))


def test_modules_of_the_users_count_by_what_is_used_of_them(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "own_module.py"
    sources = (
        "def g(x): return x\ndef other(): return 1",
        "def g(x): return x\ndef other(): return 2",
        "def g(x): return -x\ndef other(): return 2",
    )
    for text in (
        "import own_module\ndef f(x): return own_module.g(x)",
        "def f(x):\n import own_module\n return own_module.g(x)",
    ):
        found = []
        for source in sources:
            file.write_text(source)
            sys.modules.pop("own_module", None)
            importlib.invalidate_caches()
            found.append(function_digest(written(text)))
        assert found[0] == found[1] != found[2]
    del sys.modules["own_module"]


def test_what_goes_round_in_a_circle_has_a_digest():
    circle = [1]
    circle.append(circle)
    assert function_digest(written("def f(x): return f(x - 1) if x else c", c=circle))


def test_scenario_runs_rest_on_engine_protocol_and_measures():
    net = ecc.Network.dumbbell("10 Mb/s", rtts=[0.1])
    tables = ecc.Scenario(net, ecc.models.QIRCP(), 1.0).to_dict()
    runs = ScenarioRuns(tables, ["utilization"])
    assert function_digest(runs) == function_digest(ScenarioRuns(tables, ["utilization"]))
    assert function_digest(runs) != function_digest(ScenarioRuns(tables, ["fairness"]))
    reached = runs.depends_on()
    assert ecc.models.QIRCP in reached and ecc.packet.simulate in reached


def test_the_code_of_ecc_is_found_in_its_rooms_and_under_former_names():
    root = Path(ecc.__file__).resolve().parent
    assert root == digests.ROOT
    assert digests._text("ecc.results.transients") == (root / "results" / "transients.py").read_text(encoding="utf-8")
    assert digests._text("ecc.transients") == digests._text("ecc.results.transients")
    assert {"ecc.packet.simulation", "ecc.packet.twin.engine"} <= digests._module_and_submodules("ecc.packet")


def test_what_cannot_be_compared_is_refused():
    with (
        open(__file__) as file,
        pytest.raises(TypeError, match=r"function must use only what can be compared .*TextIOW"),
    ):
        function_digest(lambda x: file)
