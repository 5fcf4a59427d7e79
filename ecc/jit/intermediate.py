"""Compilation of functions to LLVM's intermediate code only, which is linked into a module that is optimized once.

The usual way optimizes each function, again in every function that calls it, and makes machine code that nothing calls.
It takes more than twice as long, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numba.core.ir
import numba.core.ir_utils
import numpy as np
from numba.core import codegen, compiler, compiler_machinery, registry, typed_passes

__all__ = ["returning_tuples", "to_intermediate_code"]

types: Any = numba.types
ir: Any = numba.core.ir
ir_utils: Any = numba.core.ir_utils


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


def returning_tuples(inner: Any) -> Any:
    """Return a function like one of `to_intermediate_code` that returns tuples where that returns `np.array([...])`.

    The new array and the list for it would be allocated at each call, which takes longer than many a function.

    Parameters
    ----------
    inner : object
        Dispatcher of a plain function.
    """
    return _Inner(inner.py_func, {}, dict(inner.targetoptions), pipeline_class=_PipelineOfTuples)


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


@compiler_machinery.register_pass(mutates_CFG=False, analysis_only=False)  # type: ignore[no-untyped-call]
class _Tuples(compiler_machinery.FunctionPass):
    """Replaces each call of `np.array` with a list of numbers by a tuple, if all calls are results of the function."""

    _name = "tuples_instead_of_arrays"

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # abstract in the base class

    def run_pass(self, state: Any) -> bool:
        function, blocks = state.func_ir, state.func_ir.blocks.values()
        returned = [block.terminator.value for block in blocks if isinstance(block.terminator, ir.Return)]
        calls = [ir_utils.guard(_array_call, function, value) for value in returned]
        if None in calls:
            return False
        for call, name, numbers in calls:
            for block in blocks:
                block.body = [step for step in block.body if not (isinstance(step, ir.Assign) and step.target == name)]
                for step in block.find_insts(ir.Assign):
                    if step.value is call:
                        step.value = ir.Expr.build_tuple(numbers, call.loc)
                        function._definitions[step.target.name] = [step.value]
        return True


def _array_call(function: Any, value: Any) -> tuple[Any, Any, Any]:
    """Return the call of `np.array` whose result a function returns, its list, and the list's items; or raise."""
    result = ir_utils.get_definition(function, value).value
    ir_utils.require(result.is_temp)  # not a variable of the function, which may use it
    call = ir_utils.get_definition(function, result)
    called = ir_utils.get_definition(function, call.func)
    owner = ir_utils.get_definition(function, called.value).value  # NumPy, or a substitute for it with some functions
    ir_utils.require(getattr(owner, called.attr) is np.array and len(call.args) == 1 and not call.kws)
    numbers = ir_utils.get_definition(function, call.args[0])
    ir_utils.require(numbers.op == "build_list" and len(numbers.items) > 0 and call.args[0].is_temp)
    return call, call.args[0], numbers.items


class _PipelineOfTuples(_Pipeline):
    def define_pipelines(self) -> list[Any]:
        (manager,) = super().define_pipelines()
        at = [step for step, _ in manager.passes].index(typed_passes.NopythonTypeInference)
        manager.passes.insert(at, (_Tuples, "return tuples instead of arrays"))
        manager.finalize()
        return [manager]


class _Inner(registry.CPUDispatcher):
    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(types.unliteral, args)), kws)

    def add_overload(self, cres: Any) -> None:
        self.overloads[tuple(cres.signature.args)] = cres
