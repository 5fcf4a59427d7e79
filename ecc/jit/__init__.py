"""Compilation of plain Python functions, the hooks of protocols and all that they call, to C function pointers."""

from ecc.jit.hooks import CompiledHooks, compile_hooks, report_compiling
from ecc.jit.reach import digest_of, jitable

__all__ = ["CompiledHooks", "compile_hooks", "digest_of", "jitable", "report_compiling"]
