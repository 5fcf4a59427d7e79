"""The command line: `ecc COMMAND`, with a module for each command.

Exit codes: 0 the work was done (a refuted claim is a result), 1 a check or a run ended in an error, 2 bad input, 3 a
file could not be written, 4 a protocol does not conform or violates a property, 130 Ctrl-C or SIGTERM. Results go to
standard output, progress and errors to standard error.
"""

from ecc.cli.app import BAD_INPUT, FAILED, INTERRUPTED, REFUTED, UNWRITTEN, app
from ecc.cli.entry import main

# Commands register with `app` when they are imported, in the order of the help.
from ecc.cli import (  # noqa: F401  # isort: skip
    root,
    crosscheck,
    check,
    conform,
    simulate,
    sweep,
    stability,
    explore,
    access_link,
    claims,
    node,
    dissector,
)

__all__ = ["BAD_INPUT", "FAILED", "INTERRUPTED", "REFUTED", "UNWRITTEN", "app", "main"]
