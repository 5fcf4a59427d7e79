"""Progress of computations that were started without a callback."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from ecc._support import reports
from ecc._support.arguments import check_arguments
from ecc._support.reports import ProgressCallback, Share, Step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@check_arguments
def inner(steps: int, progress: ProgressCallback | None = None) -> bool:
    for step in range(steps):
        if progress is not None:
            progress(Share(step / steps))
    return progress is not None


@check_arguments
def outer(progress: ProgressCallback | None = None) -> bool:
    if progress is not None:
        progress(Step("first part", 0.25))
    return inner(4)


@check_arguments
def silent(until: Callable[[], bool], progress: ProgressCallback | None = None) -> bool:
    if progress is not None:
        progress(Step("only part"))
    end = time.monotonic() + 60.0
    while not until() and time.monotonic() < end:
        time.sleep(0.01)
    return until()


def on_terminal(monkeypatch: pytest.MonkeyPatch, watched: bool = False) -> Terminal:
    """Replace standard error: in the test itself, as pytest sets it anew after fixtures."""
    written = Terminal()
    monkeypatch.setattr(sys, "stderr", written)
    if not watched:
        monkeypatch.setattr(reports._watch, "follow", lambda lines: None)
    return written


def test_lines_come_after_two_seconds_and_then_at_doubled_times(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    times = iter([0.0, 1.9, 2.5, 4.9, 5.1])
    monkeypatch.setattr(reports.time, "monotonic", lambda: next(times))
    assert inner(4)
    assert terminal.getvalue() == "ecc: inner: 25% after 2 s\necc: inner: 75% after 5 s\n"


def test_a_computation_that_reports_nothing_more_is_shown_too(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch, watched=True)
    monkeypatch.setattr(reports, "_SILENT", 0.1)
    assert silent(lambda: terminal.getvalue().count("\n") >= 2)
    assert set(terminal.getvalue().splitlines()) <= {f"ecc: silent: only part after {k} s" for k in range(60)}
    assert reports._watch.lines is None, "nothing is written after the end"


def test_only_the_outer_call_writes_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(reports, "_SILENT", 0.0)
    assert not outer()
    assert terminal.getvalue() == "ecc: outer: first part, 25% after 0 s\n"
    assert inner(1), "the next call writes lines again"


@pytest.mark.parametrize("named", [False, True])
def test_a_callback_replaces_the_lines(monkeypatch: pytest.MonkeyPatch, named: bool) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(reports, "_SILENT", 0.0)
    shares: list[float] = []
    inner(4, progress=shares.append) if named else inner(4, shares.append)
    assert shares == [0.0, 0.25, 0.5, 0.75]
    assert not terminal.getvalue()


def test_pipes_and_other_threads_get_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        assert not threads.submit(inner, 4).result()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not inner(4)
