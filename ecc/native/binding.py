"""Write the C source of `ecc.native._engine` from declarations in headers: `binding.py _engine.c core/engine.h ...`."""

import re
import sys
from pathlib import Path

from cffi import FFI


def included(header: str) -> str:
    """Return the path of a header as C files include it: relative to `ecc/native`."""
    return Path(header).resolve().relative_to(Path(__file__).resolve().parent).as_posix()


def main(output: str, *headers: str) -> None:
    """Emit the binding of all declarations between the two marks of each header."""
    ffi = FFI()
    for header in headers:
        section = re.search(r"/\* cdef: begin \*/(.*)/\* cdef: end \*/", Path(header).read_text(), re.DOTALL)
        if section is None:
            raise SystemExit(f"{header}: missing 'cdef: begin' or 'cdef: end'")
        ffi.cdef(re.sub(r"\bECC_MUST_CHECK\b", "", section.group(1)))
    ffi.set_source("ecc.native._engine", "".join(f'#include "{included(header)}"\n' for header in headers))
    ffi.emit_c_code(output)


main(*sys.argv[1:])
