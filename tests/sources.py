"""The source of the package, read and parsed once per process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

__all__ = ["parsed"]


@cache
def parsed(path: Path) -> tuple[str, ast.Module]:
    """Return the text of a file of Python code, and its syntax tree.

    Parameters
    ----------
    path : Path
        Absolute path.
    """
    text = path.read_text(encoding="utf-8")
    return text, ast.parse(text)
