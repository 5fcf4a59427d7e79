"""Compilation of functions to LLVM's intermediate code only, which is linked into a module that is optimized once.

The usual way optimizes each function, again in every function that calls it, and makes machine code that nothing calls.
It takes more than twice as long, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core import codegen, compiler, compiler_machinery, registry, typed_passes

__all__ = ["to_intermediate_code"]

types: Any = numba.types


def to_intermediate_code(function: Callable[..., Any], **options: Any) -> Any:
    """Return a function that other compiled functions can call, and Python cannot.

    Parameters
    ----------
    function : callable
        Plain function. Its numbers are not specialized by value: constants are propagated if the function is inlined.
    **options : object
        Options of `numba.njit`.
    """
    wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _Inner(function, {}, {"nopython": True, **wrappers, **options}, pipeline_class=_Pipeline)


class _Linked(codegen.JITCodeLibrary):
    """Intermediate code, to be linked into other code."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _Lowering(typed_passes.NativeLowering):
    _name = "lowering_to_intermediate_code"

    def run_pass(self, state: Any) -> bool:
        state.library = _Linked(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        state.library.enable_object_caching()
        state.flags.no_compile = True
        super().run_pass(state)  # type: ignore[no-untyped-call]

        def not_for_python(*arguments: object) -> None:  # the handle by which compiled callers refer to the function
            raise TypeError(f"{state.func_id.func_qualname} can be called by compiled code only")

        state.targetctx.insert_user_function(not_for_python, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=not_for_python)
        return True


class _Pipeline(compiler.CompilerBase):
    def define_pipelines(self) -> list[Any]:
        manager = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        manager.passes = [
            (_Lowering, text) if step is typed_passes.NativeLowering else (step, text) for step, text in manager.passes
        ]
        manager.finalize()
        return [manager]


class _Inner(registry.CPUDispatcher):
    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(types.unliteral, args)), kws)

    def add_overload(self, cres: Any) -> None:
        self.overloads[tuple(cres.signature.args)] = cres
