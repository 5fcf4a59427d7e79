"""Write the C source of `ecc.native._engine` from the declarations in headers: `binding.py _engine.c engine.h ...`."""

import re
import sys
from pathlib import Path

from cffi import FFI


def main(output: str, *headers: str) -> None:
    """Emit the binding of everything between the two marks of each header."""
    ffi = FFI()
    for header in headers:
        found = re.search(r"/\* cdef: begin \*/(.*)/\* cdef: end \*/", Path(header).read_text(), re.DOTALL)
        if found is None:
            raise SystemExit(f"{header}: no marks of a cdef")
        ffi.cdef(re.sub(r"\bECC_MUST_CHECK\b", "", found.group(1)))
    ffi.set_source("ecc.native._engine", "".join(f'#include "{Path(header).name}"\n' for header in headers))
    ffi.emit_c_code(output)


main(*sys.argv[1:])
