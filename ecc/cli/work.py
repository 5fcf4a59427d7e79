"""The time in which a command works: interruptions, workers, stored results."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ecc._support.interrupts import interrupt
from ecc.cli.output import complain

if TYPE_CHECKING:
    from ecc._support.store import Store

__all__ = ["MAX_STORED_RESULTS", "begin_work", "end_work", "result_store", "show_resumed", "started_workers"]


MAX_STORED_RESULTS = 5000
"""Most results in the user's cache."""


def begin_work() -> None:
    """Let Ctrl-C and SIGTERM end the work instead of the process, so that completed results are kept.

    This also holds if Ctrl-C is ignored, as after a shell's `&`.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))


def end_work() -> None:
    """Let one Ctrl-C or SIGTERM wait: results are written and printed first.

    A second one ends this, too.
    """

    def wait(number: int, frame: object) -> None:
        signal.signal(number, signal.default_int_handler)
        complain("results are written first; a second Ctrl-C ends this without them")

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, wait)


def result_store(store: Path | None, fresh: bool) -> Store:
    from ecc._support.store import Store

    return Store(store, fresh) if store else Store(Store.of_user(), fresh, most=MAX_STORED_RESULTS)


def show_resumed(done: int, count: int, what: str, store: Path) -> None:
    rest = f"{count - done} to run" if done < count else "nothing left to do"
    print(f"{done} of {count} {what}s are in {store}, {rest}", file=sys.stderr)


@contextmanager
def started_workers(jobs: int, cluster: str | None) -> Iterator[Executor | int]:
    """Worker processes here, by their number, or those of a cluster."""
    if cluster is None:
        yield jobs or os.cpu_count() or 1
        return
    if jobs:
        raise ValueError(f"--jobs must not be given with --cluster, whose workers do the work, got {jobs}")
    from ecc.batch.cluster import Cluster

    with Cluster(cluster, notice=complain) as workers:
        yield workers
