"""What memory a run may take unless it is told: what this machine has free."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["free_memory"]

SHARE = 0.9
"""Of what is free, for the engine: the rest is for samples, and what else runs."""


def free_memory(root: Path = Path("/")) -> int:
    """Return how much an engine may take without driving others out of memory [bytes]; 0: that is not known.

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
