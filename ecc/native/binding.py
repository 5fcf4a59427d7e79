"""Write the C source of `ecc.native._engine` from the declarations in engine.h: `binding.py engine.h _engine.c`."""

import re
import sys
from pathlib import Path

from cffi import FFI


def main(header: str, output: str) -> None:
    """Emit the binding of everything between the two marks of the header."""
    found = re.search(r"/\* cdef: begin \*/(.*)/\* cdef: end \*/", Path(header).read_text(), re.DOTALL)
    if found is None:
        raise SystemExit(f"{header}: no marks of a cdef")
    declarations = re.sub(r"\bECC_MUST_CHECK\b", "", found.group(1))
    ffi = FFI()
    ffi.cdef(declarations)
    ffi.set_source("ecc.native._engine", f'#include "{Path(header).name}"')
    ffi.emit_c_code(output)


main(*sys.argv[1:])
