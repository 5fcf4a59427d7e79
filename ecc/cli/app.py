"""The Typer application that commands register with, and the exit codes."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

__all__ = ["BAD_INPUT", "FAILED", "INTERRUPTED", "REFUTED", "UNWRITTEN", "app", "examples"]


FAILED, BAD_INPUT, UNWRITTEN, REFUTED, INTERRUPTED = 1, 2, 3, 4, 130


def examples(*commands: str) -> str:
    """Return the end of a help text with commands to copy.

    Parameters
    ----------
    *commands : str
    """
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


class _Commands(TyperGroup):
    """Ctrl-C is `typer.Abort` to `main`: Typer makes an exit code of it, without a message."""

    def invoke(self, context: Any) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            raise typer.Abort() from None


app = typer.Typer(
    cls=_Commands,
    help="Congestion control, analyzed exactly, run as fluid and run as packets.",
    add_completion=False,
    rich_markup_mode=None,
)
