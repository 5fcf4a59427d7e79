"""Sources of the ledger's entries, and the environment that computed a verdict.

An entry names the kind of source that was read (`read`), the place in it (`place`), and the place of each reported
number (`printed`). If a source was read in full, its statement is a claim and gets a verdict. Every other entry is a
question: ecc answers it, and the answer judges no source.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.metadata import version
from typing import Any

from ecc import __version__
from ecc._support.digests import PACKAGES, digest, package_digest

__all__ = ["FULL", "KEYS", "READ", "Provenance", "environment", "environment_id", "read_provenance"]

READ: Mapping[str, str] = {
    "paper": "the published paper or its LaTeX source: the statement, its hypotheses and its proof, if it has one",
    "thesis": "the thesis: the statement, its hypotheses and its proof, if it has one",
    "standard": "the text of an RFC or of an Internet-Draft",
    "code": "the source code of a program, with its comments and manual pages",
    "excerpt": "a part, such as an abstract, or the notes of a third party; hypotheses may be missing",
    "none": "no text: the question was asked by ecc",
}
"""Values of `read` -> meaning."""
FULL = ("paper", "thesis", "standard", "code")
"""Values of `read` for which an entry may be a claim."""
KEYS = ("read", "place", "printed", "difference", "question")
"""Keys of an entry that describe its provenance."""


@dataclass(frozen=True)
class Provenance:
    """Sources that were read for an entry of the ledger.

    Attributes
    ----------
    read : str
        One of `READ`.
    place : str
        Section, theorem, equation, page, or file and function of a program.
    printed : str
        Place of each number that the entry reports; empty if it reports none.
    difference : str
        The difference between the source's assumptions and those of ecc, in one sentence; empty if they agree.
    is_question : bool
        True if the entry asks a question of ecc's authors instead of stating a claim of the source.
    """

    read: str = "none"
    place: str = ""
    printed: str = ""
    difference: str = ""
    is_question: bool = False


def read_provenance(claim: str, entry: Mapping[str, Any]) -> Provenance:
    """Return the provenance that an entry of the ledger states.

    Parameters
    ----------
    claim : str
        Id of the entry, for messages.
    entry : mapping
        Table of the entry.

    Raises
    ------
    ValueError
        A key is missing or has a value that is not allowed, or a question has no question mark.
    TypeError
        A value has another type.
    """
    for key in ("read", "place"):
        if key not in entry:
            raise ValueError(f"claim {claim} must have the key {key!r}, which says what was read")
    for key in ("read", "place", "printed", "difference"):
        if not isinstance(entry.get(key, ""), str):
            raise TypeError(f"{key} of claim {claim} must be str, got {entry[key]!r}")
    if not isinstance(entry.get("question", False), bool):
        raise TypeError(f"question of claim {claim} must be bool, got {entry['question']!r}")
    read, place, printed = entry["read"], entry["place"].strip(), entry.get("printed", "").strip()
    if read not in READ:
        raise ValueError(f"read of claim {claim} must be one of {', '.join(READ)}, got {read!r}")
    if not place:
        raise ValueError(f"place of claim {claim} must name a section, a page or a line of code, got {place!r}")
    is_question = read not in FULL or bool(entry.get("question", False))
    if entry["statement"].endswith("?") is not is_question:
        kind = "a question" if is_question else "a claim"
        raise ValueError(f"statement of claim {claim} must be {kind}, as read is {read!r}, got {entry['statement']!r}")
    if re.search(r"\d", entry["reported"]) and read != "none" and not printed:
        raise ValueError(f"claim {claim} must have the key 'printed', the place of the numbers {entry['reported']!r}")
    return Provenance(read, place, printed, entry.get("difference", "").strip(), is_question)


@cache
def environment() -> Mapping[str, str]:
    """Return everything that can change a computed number: versions, the commit, the code and the machine."""
    commit = resources.files("ecc").joinpath("commit.txt")
    return {
        "ecc": __version__,
        "commit": commit.read_text(encoding="utf-8").strip() if commit.is_file() else "unknown",
        "code": package_digest()[:16],
        "Python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}, {'.'.join(platform.libc_ver()) or sys.platform}",
    }


def environment_id(surroundings: Mapping[str, str]) -> str:
    """Return a short name for an environment, the same for equal environments.

    Parameters
    ----------
    surroundings : mapping
        Environment as returned by `environment`.
    """
    return "environment-" + digest(*(f"{key}={value}" for key, value in surroundings.items()))[:8]
