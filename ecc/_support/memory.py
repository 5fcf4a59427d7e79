"""Memory of runs: how much the machine has free, and how much the results of a run will take."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["free_memory", "reserved_bytes"]

SHARE = 0.9
"""Share of the free memory that a run may take."""
_COPIES = {"series": 3, "histograms": 2, "trace": 2}
"""How often each exists while a result is made: as an engine has it, in the result, and series in between."""


def free_memory(root: Path = Path("/")) -> int:
    """Return how much a run may take without driving others out of memory [bytes]; 0: that is not known.

    It is 9/10 of the memory that Linux has available, with what is free of its swap, or of the limit of a control group
    (a container) that is below that; elsewhere, of the memory that is built in.

    Parameters
    ----------
    root : Path, optional
        Where the files of the system are.
    """
    found = {name: 1024 * int(kib) for name, kib in re.findall(r"(\w+): +(\d+) kB", _text(root / "proc/meminfo"))}
    free = found.get("MemAvailable", 0) + found.get("SwapFree", 0)
    if free == 0:
        names = getattr(os, "sysconf_names", {})
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if "SC_PHYS_PAGES" in names else 0
    return int(SHARE * min([free, *_limits(root)])) if free > 0 else 0


def reserved_bytes(limit: int, *, series: int = 0, histograms: int = 0, trace: int = 0) -> int:
    """Return the memory of the results of a run, until the trajectory is made of them; refuse too much.

    Parameters
    ----------
    limit : int, bytes
        Maximum; 0: no limit.
    series, histograms, trace : int, optional
        Numbers of eight bytes in them.

    Returns
    -------
    int, bytes

    Raises
    ------
    ValueError
        The limit is not above it.

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
    """The limits of the control groups that this process is in, and of those above [bytes]."""
    found = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        kinds = {("0", ""): ("", "memory.max")}  # version 2 and 1
        if "memory" in controllers.split(","):
            kinds[number, controllers] = ("memory", "memory.limit_in_bytes")
        if (number, controllers) not in kinds:
            continue
        folder, name = kinds[number, controllers]
        steps = Path(path.lstrip("/"))
        for group in (steps, *steps.parents):
            text = _text(root / "sys/fs/cgroup" / folder / group / name).strip()
            found += [int(text)] if text.isdecimal() else []
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeError):
        return ""
