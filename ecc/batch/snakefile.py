"""A sweep as a Snakefile for batch systems: parts of the grid with separate stores, and one merged table."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ecc.batch.sweeps import data_files, names_data_file

__all__ = ["files_of", "snakefile"]

_TEXT = """\
# A sweep of {count} runs in {parts} parts, written by `ecc sweep`. To run it here:
#     snakemake --snakefile {name} --cores all
# A part keeps its finished runs in a store, and resumes from it if it is started again.

PARTS = range(1, {parts} + 1)

rule table:
    input:
        expand({done!r}, part=PARTS),
    output:
        {table!r},
    params:
        merge=" ".join("--merge %s/%d.sqlite" % ({folder!r}, part) for part in PARTS),
    shell:
        {merge!r}

rule part:
    input:
        {inputs!r},
    output:
        touch({done!r}),
    log:
        {log!r},
    threads: 1
    shell:
        {work!r}
"""


def files_of(tables: Mapping[str, Any], axes: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the files that the runs of a sweep read: data files, and files with protocols.

    Parameters
    ----------
    tables : mapping
        Tables of the scenario's TOML.
    axes : mapping
        Values by path of a setting.
    """
    paths = [str(table[key]) for table, key in data_files(tables)]
    paths += [str(value) for path, values in axes.items() if names_data_file(path) for value in values]
    names = [*_names(tables), *(value for path, values in axes.items() if path.endswith("name") for value in values)]
    files = [str(name).rpartition(":")[0] or str(name) for name in names]
    return paths + [file for file in files if file.endswith((".py", ".so", ".dylib"))]


def _names(table: Any) -> Iterator[Any]:
    """Yield all values of the key "name"."""
    if isinstance(table, Mapping):
        for key, value in table.items():
            yield from [value] if key == "name" else _names(value)
    elif isinstance(table, list):
        for entry in table:
            yield from _names(entry)


def snakefile(path: Path, command: Sequence[str], inputs: Sequence[str], table: str, count: int, parts: int) -> str:
    """Return the text of a Snakefile that runs a sweep in parts and merges them.

    Parameters
    ----------
    path : Path
        Path of the Snakefile. The parts are in the same folder, in a folder with the same name and the suffix ".parts".
    command : sequence of str
        The `ecc sweep` command of the whole grid, without the options for results.
    inputs : sequence of str
        Files that the runs depend on.
    table : str
        File for the merged table.
    count, parts : int
        Number of runs, and of parts.

    Raises
    ------
    ValueError
        Braces in the name of a file, which Snakemake would interpret.
    """
    for file in (str(path), table, *inputs):
        if {"{", "}"} & set(file):
            raise ValueError(f"files of a Snakefile must have no braces in their names, got {file!r}")
    folder = str(path.with_suffix(".parts"))
    quoted, stores = shlex.join(command).replace("{", "{{").replace("}", "}}"), shlex.quote(folder)
    return _TEXT.format(
        count=count,
        parts=parts,
        name=path.name,
        folder=stores,
        table=table,
        inputs=list(inputs),
        done=f"{folder}/{{part}}.done",
        log=f"{folder}/{{part}}.log",
        merge=f"{quoted} --store {stores}/all.sqlite {{params.merge}} --out {shlex.quote(table)}",
        work=f"{quoted} --part {{wildcards.part}}/{parts} --store {stores}/{{wildcards.part}}.sqlite"
        " --jobs {threads} > {log:q}",
    )
