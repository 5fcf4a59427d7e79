"""Compiled code of the fluid engine: shipped, kept between processes, given up when what it reaches changes."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ecc.fluid import ahead, compiled, simulate, solve_dde
from ecc.models import RCP
from ecc.network.network import Network
from ecc.scenario import Scenario

ROOM = Path(ahead.__file__).parent
SCENARIO = Scenario(Network.dumbbell("10 Mb/s", [0.1]), RCP(), 5.0)
COUNTING = """
import sys
from numba.core import event
from ecc import Network, Scenario, fluid, models
from ecc.fluid.ahead import KERNELS
class Counter(event.Listener):
    def on_start(self, one): pass
    def on_end(self, one): made.append(one.data["dispatcher"].py_func.__module__)
made, network = [], Network.dumbbell("10 Mb/s", [0.1])
with event.install_listener("numba:compile", Counter()):
    if "all" in sys.argv:
        for kind in (models.RCP, models.XCP, models.JetMax, models.MKC, models.NewReno):  # a kernel each
            fluid.simulate(Scenario(network, kind(), 2.0))
        for kind in (models.FAST, models.TIMELY):
            fluid.simulate(Scenario(network, kind(), 2.0), time="discrete")
        fluid.solve_dde(lambda t, y, ylag: -ylag[0], (0.0, 3.0), [1.0], [1.0])
    fluid.simulate(Scenario(network, models.QIRCP(), 2.0), time="discrete")
print(sorted({name for name in made if name.startswith("ecc.fluid.") and name != "ecc.fluid.dde.callbacks"}))
for kernel in KERNELS:
    module, name = kernel.rsplit(".", 1)
    known = sys.modules.get(f"ecc.fluid.{module}")  # its import may compile it
    if known and getattr(known, name)._cache.names:
        print(kernel)
"""


def counted(*runs, **surroundings):
    """Modules of the fluid engine of which first runs compile anything, and the kernels that they take."""
    run = [sys.executable, "-P", "-c", COUNTING, *runs]
    done = subprocess.run(run, capture_output=True, text=True, check=True, env={**os.environ, **surroundings})
    assert done.stderr == ""  # which is never read
    made, *kernels = done.stdout.splitlines()
    return made, set(kernels)


@pytest.mark.slow
def test_the_first_run_compiles_laws_alone(tmp_path):
    for made in ("['ecc.fluid.network.laws']", "[]"):
        assert counted("all", ECC_CACHE_DIR=str(tmp_path)) == (made, set(ahead.KERNELS))


BUILDING = """
import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "ecc.native" or name.partition(".")[0] in ("scipy", "pandas", "xarray", "plotly", "mpmath"):
            raise ModuleNotFoundError(f"No module named {name}")
sys.meta_path.insert(0, Missing())
from ecc.fluid.ahead import KERNELS
for kernel in KERNELS:
    import_module(f"ecc.fluid.{kernel.rpartition('.')[0]}")
"""


@pytest.mark.slow
def test_kernels_need_nothing_but_numba_where_the_package_is_built():
    done = subprocess.run([sys.executable, "-P", "-c", BUILDING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_each_kernel_is_compiled_when_the_package_is_built():
    sources = {
        ".".join(path.relative_to(ROOM).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in ROOM.rglob("*.py")
    }
    found = {
        f"{module}.{name}"
        for module, text in sources.items()
        for name in re.findall(r"^@entry(?:_point)?\ndef (\w+)", text, re.MULTILINE)
    }
    assert found == set(ahead.KERNELS)


@pytest.mark.slow
def test_on_another_processor_a_kernel_is_compiled_once(tmp_path):
    kernel = "network.recurrence.advance"  # the fastest to compile
    for made in ("['ecc.fluid.network.laws', 'ecc.fluid.network.recurrence']", "[]"):
        assert counted(ECC_CACHE_DIR=str(tmp_path), NUMBA_CPU_NAME="generic") == (made, {kernel})


def test_damaged_code_is_compiled_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "SHIPPED", tmp_path / "kernels.zip")
    compiled._shipped.cache_clear()
    assert compiled._shipped("a") is None
    compiled.SHIPPED.write_bytes(b"no archive")
    assert compiled._shipped("b") is None


def scaled(factor):
    factors = np.array([factor])

    @compiled.compiled
    def scale(x):
        return factors[0] * x

    return lambda x: scale(x)


def test_code_is_kept_by_all_that_it_reaches(tmp_path, monkeypatch):
    monkeypatch.setenv("ECC_CACHE_DIR", str(tmp_path))
    for factor, hits in ((2.0, 0), (2.0, 1), (3.0, 0), (2.0, 1)):
        made = compiled.entry(scaled(factor))
        assert made(1.5) == 1.5 * factor
        assert sum(made.stats.cache_hits.values()) == hits
    name, code = compiled.code_of(made)
    assert (tmp_path / name).read_bytes().endswith(code)


def test_code_of_another_module_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("ECC_CACHE_DIR", str(tmp_path))
    names = []
    for module in ("math", "cmath"):  # the same function, after it moved
        function = eval("lambda x: x + 1.0", {"__name__": module})
        made = compiled.entry(function)
        assert made(1.5) == 2.5 and not made.stats.cache_hits
        names.append(compiled.code_of(made)[0])
    assert names[0] != names[1]


def test_what_is_called_with_constants_is_compiled_once(tmp_path, monkeypatch):
    monkeypatch.setenv("ECC_CACHE_DIR", str(tmp_path))  # what is kept is not compiled

    @compiled.compiled
    def add(x, n):
        return x + n

    made = compiled.entry(lambda x, n: add(x, 1) + add(x, 2) + add(x, n))
    assert made(0.5, 3) == 7.5
    assert len(add.overloads) == 1
    with pytest.raises(TypeError):
        add(0.5, 1)


@pytest.mark.slow
def test_compiling_is_output_once_to_who_reads_it(tmp_path):
    code = "from ecc.fluid.compiled import entry\nfor k in 1, 2:\n    entry(eval(f'lambda x: x + {k}'))(1.0)"
    ours, theirs = pty.openpty()
    environment = {**os.environ, "ECC_CACHE_DIR": str(tmp_path)}
    for expected in (f"ecc: compiling for this processor, for some seconds; kept in {tmp_path} for next time", ""):
        subprocess.run([sys.executable, "-P", "-c", code], check=True, env=environment, stderr=theirs)
        os.write(theirs, b"-")
        output = b""
        while not output.endswith(b"-"):  # which comes in parts
            output += os.read(ours, 1000)
        assert output.decode().removesuffix("-").strip() == expected


def test_runs_in_threads_are_the_same_runs():
    alone = simulate(SCENARIO).rate.to_numpy()
    with ThreadPoolExecutor(2) as threads:
        runs = list(threads.map(simulate, [SCENARIO] * 4))
        called_back = list(
            threads.map(
                lambda _: solve_dde(lambda t, y, ylag: [-ylag[0, 0]], (0.0, 3.0), [1.0], [1.0], jit=False).y, range(4)
            )
        )
    assert all(np.array_equal(run.rate.to_numpy(), alone) for run in runs)
    assert all(np.array_equal(y, called_back[0]) for y in called_back)
