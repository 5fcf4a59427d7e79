"""Memory of runs: free memory of the machine, and memory required by the results of a run."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

__all__ = ["free_memory", "recent_free_memory", "reserved_bytes"]

SHARE = 0.9
"""Share of the free memory that a run may take."""
_COPIES = {"series": 3, "histograms": 2, "trace": 2}
"""Number of copies of each while a result is made: in the engine, in the result, and for series in between."""


def free_memory(root: Path = Path("/")) -> int:
    """Return the memory that a run may use without exhausting that of the machine [bytes]; 0: unknown.

    On Linux it is 9/10 of the available memory plus free swap, or of the limit of a control group (a container) if that
    is lower; on other systems, 9/10 of the installed memory.

    Parameters
    ----------
    root : Path, optional
        Root of the file system.
    """
    entries = {name: 1024 * int(kib) for name, kib in re.findall(r"(\w+): +(\d+) kB", _text(root / "proc/meminfo"))}
    free = entries.get("MemAvailable", 0) + entries.get("SwapFree", 0)
    if free == 0:
        names = getattr(os, "sysconf_names", {})
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if "SC_PHYS_PAGES" in names else 0
    return int(SHARE * min([free, *_limits(root)])) if free > 0 else 0


_probed: list[tuple[float, int]] = []
_PROBE_PERIOD = 0.1


def recent_free_memory() -> int:
    """Return the result of `free_memory` as of the last 0.1 s: a probe takes half as long as a short packet run."""
    now = time.monotonic()
    if not _probed or now - _probed[0][0] > _PROBE_PERIOD:
        _probed[:] = [(now, free_memory())]
    return _probed[0][1]


def reserved_bytes(limit: int, *, series: int = 0, histograms: int = 0, trace: int = 0) -> int:
    """Return the peak memory of the results of a run until its trajectory is made; refuse more than the limit.

    Parameters
    ----------
    limit : int, bytes
        Maximum; 0: unlimited.
    series, histograms, trace : int, optional
        Numbers of 8-byte values in each.

    Returns
    -------
    int, bytes

    Raises
    ------
    ValueError
        If the memory is not below the limit.

    Examples
    --------
    >>> reserved_bytes(10**9, series=1_000_000)
    24000000
    """
    counts = {"series": series, "histograms": histograms, "trace": trace}
    sizes = {name: 8 * _COPIES[name] * count for name, count in counts.items() if count}
    total = sum(sizes.values())
    if limit and total >= limit:
        parts = ", ".join(f"{name} {size / 1e6:,.6g} MB" for name, size in sizes.items())
        raise ValueError(
            f"memory_limit must be > {total / 1e6:,.6g} MB for this run ({parts}), got {limit / 1e6:,.6g} MB (default: "
            "nine tenths of the free memory): a longer sample, fewer records or a shorter trace take less"
        )
    return total


def _limits(root: Path) -> list[int]:
    """Return the memory limits of the control groups of this process and of their parents [bytes]."""
    limits = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        kinds = {("0", ""): ("", "memory.max")}  # version 2; version 1 is added below
        if "memory" in controllers.split(","):
            kinds[number, controllers] = ("memory", "memory.limit_in_bytes")
        if (number, controllers) not in kinds:
            continue
        folder, name = kinds[number, controllers]
        steps = Path(path.lstrip("/"))
        for group in (steps, *steps.parents):
            text = _text(root / "sys/fs/cgroup" / folder / group / name).strip()
            limits += [int(text)] if text.isdecimal() else []
    return limits


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeError):
        return ""
