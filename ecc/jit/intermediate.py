"""Functions as LLVM's intermediate code alone, which is linked into what is optimized as a whole, once.

To optimize each function, and again in all that call it, and to turn it into machine code that nothing calls, takes
more than twice as long and ends in the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core import codegen, compiler, compiler_machinery, registry, typed_passes

__all__ = ["to_intermediate_code"]

types: Any = numba.types


def to_intermediate_code(function: Callable[..., Any], **options: Any) -> Any:
    """Return the function as other compiled functions call it; Python cannot.

    Parameters
    ----------
    function : callable
        Its numbers are not specialized by value: those that are constants become so where it is inlined.
    **options : object
        Of `numba.njit`.
    """
    wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _Inner(function, {}, {"nopython": True, **wrappers, **options}, pipeline_class=_Pipeline)


class _Linked(codegen.JITCodeLibrary):
    """Intermediate code that is there to be linked into other code."""

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

        def not_for_python(*arguments: object) -> None:  # what callers know the function by
            raise TypeError(f"{state.func_id.func_qualname} is for compiled code to call")

        state.targetctx.insert_user_function(not_for_python, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=not_for_python)
        return True


class _Pipeline(compiler.CompilerBase):
    def define_pipelines(self) -> list[Any]:
        manager = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        manager.passes = [
            (_Lowering, text) if one is typed_passes.NativeLowering else (one, text) for one, text in manager.passes
        ]
        manager.finalize()
        return [manager]


class _Inner(registry.CPUDispatcher):
    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(types.unliteral, args)), kws)

    def add_overload(self, cres: Any) -> None:
        self.overloads[tuple(cres.signature.args)] = cres
