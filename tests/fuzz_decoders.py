"""libFuzzer, by way of atheris, on what reads bytes from outside: congestion headers and files of connection vectors.

Whatever the bytes say, a decoder either refuses them in one line or gives back what says the same again.
`python tests/fuzz_decoders.py -max_total_time=600 CORPUS`, where CORPUS is a folder for what was found to be of
interest; other options are libFuzzer's. It needs `pip install atheris`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["ecc.headers", "ecc.tmix"]):
    from ecc import models
    from ecc.formats import headers
    from ecc.traffic import tmix

assert models.all_protocols()  # whose files declare the headers
KINDS = headers.CongestionHeader.__subclasses__()
SEEDS = [
    *(bytes([k]) + kind().encode() for k, kind in enumerate(KINDS)),
    b"\xffSEQ 6851 1 2 5\nm 1 2\nw 64800 6432\nr 1176194\nl 0.0 0.5\n> 245\nt 51257\n< 510\nt 6304943\n",
    b"\xffCONC 1429 2 2 6 8\nr 36\nc> 222\nt> 62\nc< 726\nt< 62\nc> 16\nt> 725\nc< 84\nt< 130\n",
    b"\xffS 6851 1 2 5\nr 1176194\nI 0 0 245\nA 0 51257 510\nA 6304943 0 0\n",
    b"\xffC 14 1 1 6 8\nr 3\nI 0 0 2\nA 5 0 7\nI 2 0 0\n",
]


def header(kind: type[headers.CongestionHeader], data: bytes) -> None:
    try:
        found = kind.decode(data)
    except ValueError as error:
        assert "\n" not in str(error) and len(str(error)) < 200, error
        return
    assert found.encode() == data, (found, data)


def vectors(text: str) -> None:
    try:
        found = tmix.read_vectors(text + "\n")
    except ValueError as error:
        assert "\n" not in str(error) and str(error).endswith(")") and " (line " in str(error), error
        assert len(str(error)) < 250, error
        return
    assert tmix.read_vectors(tmix.write_vectors(found, alternate=True) + "\n") == found
    try:
        again = tmix.write_vectors(found)
    except ValueError as error:
        assert "close must be None for the side that did not send last" in str(error), error
        return
    assert tmix.read_vectors(again + "\n") == found


def one_input(data: bytes) -> None:
    if data[:1] and data[0] < 0x80:
        header(KINDS[data[0] % len(KINDS)], data[1:])
    else:
        vectors(data[1:].decode("utf-8", errors="replace"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for k, seed in enumerate(SEEDS):
            one_input(seed)
            (Path(folder) / str(k)).write_bytes(seed)
        atheris.Setup([*sys.argv, folder], one_input)
        atheris.Fuzz()
