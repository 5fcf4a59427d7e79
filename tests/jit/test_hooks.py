"""The hook compiler: compiled hooks do what Python does, errors name hook and cause, the cache never lies."""

from __future__ import annotations

import ctypes
import math
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ecc.jit import compile_hooks, jitable, reach
from ecc.jit import hooks as hook_compiler

STATE = np.dtype([("R", "f8"), ("seen", "i8")])
HEADER = np.dtype([("rate", "f8"), ("link", "i8")])
PARAMS = np.dtype([("alpha", "f8"), ("beta", "f8")])
ENV = np.dtype([("now", "f8"), ("queue", "i8"), ("next_interval", "f8"), ("drop", "i8")])
LAYOUTS = (STATE, HEADER, PARAMS, ENV)
C_HOOK = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ECC_CACHE_DIR", str(folder))
    forget()
    yield folder
    forget()


def forget() -> None:
    hook_compiler._loaded.clear()


def call(address: int, records: list[np.ndarray]) -> int:
    return C_HOOK(address)(*[record.ctypes.data for record in records])


def scratch(**values: float) -> list[np.ndarray]:
    records = [np.zeros(1, layout) for layout in LAYOUTS]
    for record in records:
        for name in record.dtype.names or ():
            record[name] = values.get(name, 0)
    return records


def compile_one(hook: Callable[..., Any], **options: Any) -> int:
    compiled = compile_hooks({"on_test": hook}, *LAYOUTS, **options)
    KEPT.append(compiled)
    return compiled["on_test"]


KEPT: list[Any] = []  # the code lives as long as what compile_hooks returned


def module_of(text: str, name: str = "someone") -> Any:
    module = types.ModuleType(name)
    exec(textwrap.dedent(text), module.__dict__)
    return module


# What hooks do -----------------------------------------------------------------------------------------------------

LIMIT = 1e9


def clip(x: float, low: float, high: float = LIMIT) -> float:
    return min(max(x, low), high)


def law(R: float, y: float, q: float, p: Any) -> float:
    return clip(R * (1.0 + p.alpha * (1.0 - y / R) - p.beta * q / R) + math.exp(-y / R), 1.0)


books = module_of(
    """
    STEP = 2
    def count(link, env):
        link.seen += STEP * (1 + env.queue // 7)
    """,
    "books",
)


def on_everything(link: Any, header: Any, p: Any, env: Any) -> None:
    books.count(link, env)
    link.R = law(link.R, header.rate, 8.0 * env.queue, p)
    if link.R > LIMIT / 2 or env.queue % 3 == 0:
        header.link = link.seen
        env.drop = 1
    env.next_interval = math.sqrt(env.now) * math.log(1.0 + link.R)


def test_compiled_hook_equals_python_to_the_last_bit() -> None:
    address = compile_one(on_everything)
    draw = random.Random(1)
    for _ in range(500):
        values = {
            "R": draw.uniform(1.0, 2e9),
            "rate": draw.uniform(1.0, 1e9),
            "alpha": draw.random(),
            "beta": draw.random(),
            "now": draw.uniform(0.0, 100.0),
            "queue": draw.randrange(10**6),
            "seen": draw.randrange(10),
        }
        records = scratch(**values)
        plain = [SimpleNamespace(**{n: record[n][0].item() for n in record.dtype.names or ()}) for record in records]
        assert call(address, records) == 0
        on_everything(*plain)
        for record, expected in zip(records, plain, strict=True):
            for name in record.dtype.names or ():
                assert record[name][0] == getattr(expected, name), name


def test_many_hooks_in_one_call_keep_their_names() -> None:
    def make(k: float) -> Any:
        def hook(state: Any, header: Any, params: Any, env: Any) -> None:
            state.R = k

        return hook

    hooks = compile_hooks({f"on_{k}": make(float(k)) for k in range(4)}, *LAYOUTS)
    assert list(hooks) == ["on_0", "on_1", "on_2", "on_3"] and len(hooks) == 4
    for k in range(4):
        records = scratch()
        assert call(hooks[f"on_{k}"], records) == 0
        assert records[0]["R"] == k


def test_two_names_for_one_hook_and_hooks_that_reach_each_other() -> None:
    hooks = compile_hooks({"a": on_everything, "b": on_everything, "c": calls_on_everything}, *LAYOUTS)
    values = {"R": 5.0, "rate": 2.0, "queue": 4.0}
    results = []
    for name in hooks:
        results.append(scratch(**values))
        assert call(hooks[name], results[-1]) == 0
    assert results[0] == results[1] == results[2]


def calls_on_everything(link: Any, header: Any, p: Any, env: Any) -> None:
    on_everything(link, header, p, env)


def test_records_without_fields_and_no_hooks_at_all() -> None:
    empty = np.dtype([])

    def on_drop(state: Any, header: Any, params: Any, env: Any) -> None:
        state.seen += 1

    hooks = compile_hooks({"on_drop": on_drop}, STATE, empty, empty, ENV)
    records = scratch()
    assert call(hooks["on_drop"], records) == 0 and records[0]["seen"] == 1
    assert dict(compile_hooks({}, *LAYOUTS)) == {}


def test_offsets_of_a_foreign_layout_are_kept() -> None:
    padded = np.dtype({"names": ["seen", "R"], "formats": ["i8", "f8"], "offsets": [24, 8], "itemsize": 40})

    def on_drop(state: Any, header: Any, params: Any, env: Any) -> None:
        state.seen = 3
        state.R = 4.0

    hooks = compile_hooks({"on_drop": on_drop}, padded, HEADER, PARAMS, ENV)
    records = [np.zeros(1, padded), *scratch()[1:]]
    assert call(hooks["on_drop"], records) == 0
    assert (
        records[0].tobytes()
        == np.array([0, 0, 0, 3, 0]).tobytes()[:8] + np.array(4.0).tobytes() + np.array([0, 3, 0]).tobytes()
    )


# Exceptions become codes ----------------------------------------------------------------------------------------


def divide(a: float, b: float) -> float:
    return a / b


def fails_in_a_law(state: Any, header: Any, params: Any, env: Any) -> None:
    state.R = divide(state.R, env.now)


def raises(state: Any, header: Any, params: Any, env: Any) -> None:
    if env.now == 0.0:
        raise ValueError("no time")
    state.R = env.now


asserts = module_of(  # not a function of this file: pytest rewrites its assertions
    """
    def asserts(state, header, params, env):
        assert env.now > 0.0, "no time"
        state.R = env.now
    """
).asserts


def raises_nothing_said(state: Any, header: Any, params: Any, env: Any) -> None:
    if env.now == 0.0:
        raise RuntimeError
    state.R = 3.0 / env.now if env.now < 3.0 else 0.0


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        (fails_in_a_law, "ZeroDivisionError: division by zero"),
        (raises, "ValueError: no time"),
        (asserts, "AssertionError: no time"),
        (raises_nothing_said, "RuntimeError"),
    ],
)
def test_an_exception_is_a_code_with_its_text_and_nothing_is_printed(
    hook: Any, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # compiled, then read from the cache
        forget()
        compiled = compile_hooks({"on_test": hook}, *LAYOUTS)
        assert call(compiled["on_test"], scratch(R=1.0, now=2.0)) == 0
        code = call(compiled["on_test"], scratch(R=1.0, now=0.0))
        assert code != 0 and compiled.reasons[code] == reason
        assert call(compiled["on_test"], scratch(R=1.0, now=2.0)) == 0
    assert capfd.readouterr() == ("", "")


# Refusals ----------------------------------------------------------------------------------------------------------


def missing_read(state: Any, header: Any, params: Any, env: Any) -> None:
    state.R = uses_gain(params)


def uses_gain(p: Any) -> Any:
    return 2.0 * p.gain


def missing_write(state: Any, header: Any, params: Any, env: Any) -> None:
    state.flag = 1


def wrong_count_in_law(state: Any, header: Any, params: Any, env: Any) -> None:
    state.R = law(state.R)  # type: ignore[call-arg]


def too_few(state: Any, header: Any, env: Any) -> None:
    state.R = 1.0


def prints(state: Any, header: Any, params: Any, env: Any) -> None:
    state.R = env.now
    print(state.R)


def makes_a_list(state: Any, header: Any, params: Any, env: Any) -> None:
    values = []
    for i in range(env.queue):
        values.append(i)
    state.seen = values[env.queue // 2]


def opens_a_file(state: Any, header: Any, params: Any, env: Any) -> None:
    with open("somewhere") as file:
        state.seen = len(file.read())


def unknown_name(state: Any, header: Any, params: Any, env: Any) -> None:
    state.R = undefined(3)  # type: ignore[name-defined]  # noqa: F821


def adds_text(state: Any, header: Any, params: Any, env: Any) -> None:
    state.R = state.R + "1"


def gives_back(state: Any, header: Any, params: Any, env: Any) -> float:
    return 2.0 * state.R


def generates(state: Any, header: Any, params: Any, env: Any) -> Any:
    yield state.R


def cuts_a_float(state: Any, header: Any, params: Any, env: Any) -> None:
    cut(state, 1.5)


def cut(link: Any, value: float) -> None:
    link.seen = value


def writes_params(state: Any, header: Any, p: Any, env: Any) -> None:
    p.alpha = 1.0


def does_nothing(state: Any, header: Any, params: Any, env: Any) -> None:
    rate = 2.0 * env.now + divide(state.R, 2.0)
    rate += 1.0


def writes_now(state: Any, header: Any, params: Any, env: Any) -> None:
    env.now = 1.0


LOG: list[float] = []
TOTAL = 0.0


def appends_outside(state: Any, header: Any, params: Any, env: Any) -> None:
    LOG.append(state.R)


def adds_outside(state: Any, header: Any, params: Any, env: Any) -> None:
    global TOTAL
    TOTAL += state.R


def module_without(state: Any, header: Any, params: Any, env: Any) -> None:
    books.forget(state)


def counter() -> Any:
    count = 0

    def counts(state: Any, header: Any, params: Any, env: Any) -> None:
        nonlocal count
        count += 1

    return counts


def over_list() -> Any:
    seen: list[float] = []

    def notes(state: Any, header: Any, params: Any, env: Any) -> None:
        seen.append(state.R)

    return notes


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (
            missing_read,
            r"hook on_test, missing_read \(test_hooks.py:\d+\): no such field p.gain "
            r"\(test_hooks.py:\d+\), the fields are state: R, seen; header: rate, link; params: alpha, beta; env: ",
        ),
        (missing_write, r"missing_write .*no such field state.flag \(test_hooks.py"),
        (wrong_count_in_law, r"wrong_count_in_law .*missing a required argument: 'y'"),
        (too_few, r"too_few .*must take \(state, header, params, env\), got \(state, header, env\)"),
        (prints, r"hook on_test, prints .*print \(test_hooks.py:\d+\) needs Python, .*engine='python'"),
        (makes_a_list, r"makes_a_list .*needs the interpreter or allocates memory"),
        (opens_a_file, r"opens_a_file .*construct is not supported"),
        (unknown_name, r"unknown_name .*name 'undefined' is not defined"),
        (adds_text, r"adds_text .*No implementation of function .*signature: add\(float64, "),
        (gives_back, r"gives_back .*returns a float64; a hook acts by writing fields"),
        (generates, r"generates .*returns a .*generator"),
        (cuts_a_float, r"cuts_a_float .*cut .*stores a float64 in the int field link.seen: write int\(\.\.\.\)"),
        (writes_params, r"writes_params .*line \d+ writes p.alpha: parameters are read-only"),
        (does_nothing, "does_nothing .*writes no field of any record, and so does nothing"),
        (writes_now, r"writes_now .*writes env.now: of env, this hook may write drop, next_interval"),
        (appends_outside, r"appends_outside .*reaches LOG, a list: only functions, modules and constants"),
        (adds_outside, r"adds_outside .*writes the outer variable 'TOTAL': keep it in the state"),
        (counter(), r"counts .*writes the outer variable 'count': keep it in the state"),
        (over_list(), r"notes .*reaches seen, a list"),
        (module_without, r"module_without .*uses books.forget, which does not exist"),
        (lambda state, header, params, env: None, r"hook on_test, <lambda> .*must be a function with a name"),
        (math.exp, r"hook on_test must be a plain function, got a builtin_function_or_method"),
    ],
)
def test_refused_in_one_line(hook: Any, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        compile_one(hook, writable={"on_test": ("drop", "next_interval")})
    assert "\n" not in str(caught.value)
    shown = traceback.format_exception(caught.value)
    assert not any("/numba/" in part for part in shown), "the compiler's traceback hides the line"
    assert capfd.readouterr() == ("", "")


def test_a_bad_hook_among_good_ones_is_named() -> None:
    with pytest.raises(TypeError, match=r"hook on_bad, prints "):
        compile_hooks({"on_good": on_everything, "on_bad": prints}, *LAYOUTS)


def test_fields_are_float64_or_int64() -> None:
    with pytest.raises(TypeError, match="field R of state must be float64 or int64, got float32"):
        compile_hooks({"on_drop": raises}, np.dtype([("R", "f4")]), HEADER, PARAMS, ENV)


TABLE = np.dtype([("sum", "f8"), ("counts", "i8", (4,)), ("shares", "f8", (2,))])


def tallies(state: Any, header: Any, params: Any, env: Any) -> None:
    state.counts[env.queue] += 1
    state.shares[0] = 0.5 * state.counts[env.queue]


def cuts_in_an_array(state: Any, header: Any, params: Any, env: Any) -> None:
    state.counts[0] = params.alpha


def test_records_hold_arrays_of_fixed_length_and_an_index_outside_is_an_exception() -> None:
    hooks = compile_hooks({"on_arrival": tallies}, TABLE, HEADER, PARAMS, ENV)
    state, header, params, env = np.zeros(1, TABLE), *scratch()[1:]
    codes = []
    for place in (1, 1, -1, 4):
        env["queue"] = place
        codes.append(call(hooks["on_arrival"], [state, header, params, env]))
    assert state["counts"][0].tolist() == [0, 2, 0, 1]
    assert state["shares"][0].tolist() == [0.5, 0.0]
    assert codes[:3] == [0, 0, 0]
    assert hooks.reasons[codes[3]] == "IndexError: index is out of bounds"
    with pytest.raises(TypeError, match=r"cuts_in_an_array .*stores a float64 in an int array: write int\(\.\.\.\)"):
        compile_hooks({"on_arrival": cuts_in_an_array}, TABLE, HEADER, PARAMS, ENV)


# jitable -----------------------------------------------------------------------------------------------------------


def factorial(n: int) -> int:
    return 1 if n == 0 else n * factorial(n - 1)


def test_jitable_leaves_the_function_alone_and_is_the_same_object_again() -> None:
    compiled = jitable(law)
    p = np.rec.array([(0.5, 0.25)], PARAMS)[0]
    assert compiled(3.0, 2.0, 1.0, p) == law(3.0, 2.0, 1.0, p)
    assert jitable(law) is compiled and jitable(compiled) is compiled
    assert isinstance(clip, types.FunctionType) and law.__globals__["clip"] is clip
    assert jitable(factorial)(10) == math.factorial(10)


def test_jitable_takes_dispatchers_constants_and_numpy_as_they_are() -> None:
    def scaled(x: float) -> float:
        return float(np.floor(compiled_clip(x, 0.0))) * weights[1]

    compiled_clip, weights = jitable(clip), (1.0, 3.0)
    assert jitable(scaled)(2.5) == 6.0


def test_jitable_wants_a_plain_function() -> None:
    with pytest.raises(TypeError, match="can only compile a plain function, got a type: <class 'float'>"):
        jitable(float)


# The cache ---------------------------------------------------------------------------------------------------------

PROTOCOL = """
import sys
from laws import law
def on_drop(state, header, params, env):
    state.R = law(state.R)
"""

LAW = """
def law(R):
    return 2.0 * R
"""

PROGRAM = """
import sys
import numpy as np
from ctypes import CFUNCTYPE, c_int32, c_void_p
from ecc.jit.hooks import compile_hooks
from protocol import on_drop
records = [np.ones(1, np.dtype([(name, "f8")])) for name in "Rrpe"]
hooks = compile_hooks({"on_drop": on_drop}, *[record.dtype for record in records])
status = CFUNCTYPE(c_int32, *[c_void_p] * 4)(hooks["on_drop"])(*[record.ctypes.data for record in records])
print(status, records[0]["R"][0], "numba" in sys.modules)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A protocol, the law it imports, and a program that compiles it, in files that stay as they are."""
    for name, text in ("protocol", PROTOCOL), ("program", PROGRAM), ("laws", LAW):
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def start(folder: Path, cache: Path) -> subprocess.Popen[str]:
    root = str(Path(hook_compiler.__file__).parents[2])
    environment = os.environ | {
        "ECC_CACHE_DIR": str(cache),
        "PYTHONPATH": os.pathsep.join([root, str(folder)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.Popen(
        [sys.executable, str(folder / "program.py")], stdout=subprocess.PIPE, text=True, env=environment
    )


@pytest.mark.slow
def test_a_later_process_needs_no_numba_and_a_changed_law_is_seen(folder: Path, cache: Path) -> None:
    assert start(folder, cache).communicate()[0].split() == ["0", "2.0", "True"]
    assert len(list(cache.iterdir())) == 1
    assert start(folder, cache).communicate()[0].split() == ["0", "2.0", "False"]
    (folder / "laws.py").write_text("# another file\ndef law(R):\n    return 3.0 * R\n")
    assert start(folder, cache).communicate()[0].split() == ["0", "3.0", "True"]
    assert len(list(cache.iterdir())) == 2


@pytest.mark.slow
def test_processes_that_start_together_leave_one_file(folder: Path, cache: Path) -> None:
    for process in [start(folder, cache) for _ in range(3)]:
        assert process.communicate()[0].split()[:2] == ["0", "2.0"] and process.returncode == 0
    assert len(list(cache.iterdir())) == 1


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hooks that were compiled, not loaded."""
    seen: list[str] = []
    original = hook_compiler._object_code

    def noting(hooks: Any, *rest: Any) -> bytes:
        seen.extend(hooks)
        return original(hooks, *rest)

    monkeypatch.setattr(hook_compiler, "_object_code", noting)
    return seen


def from_text(text: str) -> Any:
    """A hook as a script or a notebook cell defines it, without a file."""
    return module_of(text, "__main__").on_drop


TEXT = """
GAIN = {gain}
def law(x):
    return GAIN * x
def on_drop(state, header, params, env):
    state.R = law(state.R)
"""


def test_same_hooks_are_compiled_once_and_changed_ones_again(compilations: list[str], cache: Path) -> None:
    for gain in (2.0, 2.0, 3.0):
        address = compile_one(from_text(TEXT.format(gain=gain)))
        records = scratch(R=1.0)
        assert call(address, records) == 0 and records[0]["R"] == gain
    assert len(compilations) == 2 == len(list(cache.iterdir()))
    compile_hooks({"on_test": from_text(TEXT.format(gain=2.0))}, STATE, HEADER, PARAMS, np.dtype([("now", "f8")]))
    assert len(compilations) == 3, "another record layout is other code"


def test_a_redefined_law_is_seen_by_the_same_hook(compilations: list[str]) -> None:
    module = module_of(TEXT.format(gain=2.0))
    compile_one(module.on_drop)
    exec("def law(x):\n    return x + 10.0", module.__dict__)
    records = scratch(R=1.0)
    assert call(compile_one(module.on_drop), records) == 0 and records[0]["R"] == 11.0
    assert len(compilations) == 2


@pytest.mark.parametrize("damage", [lambda data: data[:-100], lambda data: data[:60] + b"x" + data[61:], lambda d: b""])
def test_a_damaged_file_is_compiled_again(damage: Any, compilations: list[str], cache: Path) -> None:
    compile_one(on_everything)
    (file,) = cache.iterdir()
    intact = file.read_bytes()
    file.write_bytes(damage(intact))
    forget()
    assert call(compile_one(on_everything), scratch(R=1.0)) == 0
    assert len(compilations) == 2 and file.read_bytes() == intact
    forget()
    compile_one(on_everything)
    assert len(compilations) == 2


def test_a_directory_that_cannot_be_written_is_replaced_by_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ECC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _ in range(2):
        forget()
        assert call(compile_one(on_everything), scratch(R=1.0)) == 0
    (folder,) = tmp_path.glob("ecc-*")
    assert len(list(folder.iterdir())) == 1 and len(compilations) == 1
    folder.chmod(0o777)  # anybody could have written there
    forget()
    compile_one(on_everything)
    assert len(compilations) == 2


def test_importing_and_loading_do_not_import_numba() -> None:
    program = "import sys, ecc.jit; sys.exit('numba' in sys.modules or 'llvmlite' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(hook_compiler.__file__).parents[2])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_forks_waits_for_a_thread_that_compiles() -> None:
    """A child has no other thread, and would wait for ever for a lock that one of them held."""
    from numba.core.compiler_lock import global_compiler_lock

    begun, ended = threading.Event(), threading.Event()

    def compile_for_a_while() -> None:
        with reach.lock, global_compiler_lock:
            begun.set()
            time.sleep(0.3)
            ended.set()

    thread = threading.Thread(target=compile_for_a_while)
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        is_free = reach.lock.acquire(timeout=2.0) and global_compiler_lock._lock.acquire(timeout=2.0)
        os._exit(0 if is_free else 1)
    assert ended.is_set() and os.waitpid(child, 0)[1] == 0
    thread.join()
    with reach.lock, global_compiler_lock:
        assert not reach._held_locks
