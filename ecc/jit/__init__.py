"""Plain Python functions as C function pointers: the hooks of protocols, and what they reach."""

from ecc.jit.hooks import CompiledHooks, compile_hooks, report_compiling
from ecc.jit.reach import digest_of, jitable

__all__ = ["CompiledHooks", "compile_hooks", "digest_of", "jitable", "report_compiling"]
