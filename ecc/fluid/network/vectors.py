"""Vectors of numbers in code compiled by Numba: one number for each of `LANES` members of an ensemble.

A vector is a value of LLVM's vector type, so that an operation is that of the processor for all lanes at once. Sums,
differences, products, quotients, square roots, absolute values, minima and maxima round as those of single numbers.
Laws take vectors in place of numbers: in the code of laws, a division by zero in any lane raises, as it does for a
number. A condition on *parameters* of laws may select a branch, if all lanes agree; if they do not, it raises. All
else (conditions on other vectors, powers, exponentials) is refused when the law is compiled.
"""

from __future__ import annotations

import math
import operator
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, imputils, typeconv
from numba.core.typing import templates
from numba.extending import intrinsic as _intrinsic
from numba.extending import lower_builtin as _lower_builtin
from numba.extending import models

from ecc.jit.reach import digest_of_texts

__all__ = [
    "LANES",
    "as_parameter",
    "every",
    "every_positive",
    "number_in",
    "load",
    "quotient",
    "select_positive",
    "splat",
    "store",
    "with_lane",
]

LANES = 8
"""Number of members in a vector."""

types: Any = numba.types
intrinsic: Any = _intrinsic
lower_builtin: Any = _lower_builtin
lower_cast: Any = imputils.lower_cast
signature: Any = templates.signature
infer_global: Any = templates.infer_global
register_model: Any = numba.extending.register_model
get_or_insert_function: Any = cgutils.get_or_insert_function
PrimitiveModel: Any = models.PrimitiveModel
Conversion: Any = typeconv.Conversion  # type: ignore[attr-defined]
_FLOATS = types.CPointer(types.float64)
_DOUBLE, _INTEGER = ir.DoubleType(), ir.IntType(64)
_LLVM = ir.VectorType(_DOUBLE, LANES)


class Vector(types.Type):  # type: ignore[misc]
    """Numba type of a vector; `is_parameter`: it depends on parameters of laws only."""

    def __init__(self, is_parameter: bool = False) -> None:
        self.is_parameter = is_parameter
        super().__init__(name=f"Vector({LANES}, {is_parameter})")


class Condition(types.Type):  # type: ignore[misc]
    """Numba type of a comparison of vectors of parameters."""

    def __init__(self) -> None:
        super().__init__(name=f"Condition({LANES})")


@register_model(Vector)
class _VectorModel(PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _LLVM)


@register_model(Condition)
class _ConditionModel(PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.VectorType(ir.IntType(1), LANES))


VECTOR, PARAMETER, CONDITION = Vector(), Vector(is_parameter=True), Condition()


# Operations of laws -------------------------------------------------------------------------------------------------


def _is_number(kind: Any) -> bool:
    return isinstance(kind, types.Float | types.Integer | types.IntegerLiteral) and kind != types.float32


class _Operation(templates.AbstractTemplate):
    """Typing of an operation on vectors and numbers."""

    def generic(self, args: Any, kws: Any) -> Any:
        vectors = [kind for kind in args if isinstance(kind, Vector)]
        if kws or not vectors or not all(isinstance(kind, Vector) or _is_number(kind) for kind in args):
            return None
        result = PARAMETER if all(kind.is_parameter for kind in vectors) else VECTOR
        kinds = [kind if isinstance(kind, Vector) else types.float64 for kind in args]
        return signature(result, *kinds)


class _Comparison(_Operation):
    """Typing of a comparison of parameters."""

    def generic(self, args: Any, kws: Any) -> Any:
        typing = super().generic(args, kws)
        return None if typing is None or not typing.return_type.is_parameter else signature(CONDITION, *typing.args)


def _widened(builder: Any, kind: Any, value: Any) -> Any:
    """Return an operand as a vector."""
    return value if isinstance(kind, Vector) else _splat(builder, value)


def _splat(builder: Any, value: Any) -> Any:
    zero = ir.Constant(ir.IntType(32), 0)
    first = builder.insert_element(ir.Constant(_LLVM, ir.Undefined), value, zero)
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(_LLVM, ir.Undefined), mask)


def _constant(number: float) -> Any:
    return ir.Constant(_LLVM, [number] * LANES)


def _any(builder: Any, condition: Any) -> Any:
    """Return whether a condition holds in any lane."""
    bits = builder.bitcast(condition, ir.IntType(LANES))
    return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))


def _all(builder: Any, condition: Any) -> Any:
    bits = builder.bitcast(condition, ir.IntType(LANES))
    return builder.icmp_unsigned("==", bits, ir.Constant(bits.type, (1 << LANES) - 1))


def _likely(builder: Any, condition: Any) -> Any:
    """Return a condition that mostly holds; the registers of vectors are then saved for calls in other cases only."""
    bit = ir.IntType(1)
    function = get_or_insert_function(builder.module, ir.FunctionType(bit, [bit, bit]), "llvm.expect.i1")
    return builder.call(function, [condition, ir.Constant(bit, 1)])


def _divided(context: Any, builder: Any, operands: Any) -> Any:
    zero = builder.fcmp_ordered("==", operands[1], _constant(0.0))
    with builder.if_then(_any(builder, zero), likely=False):
        context.call_conv.return_user_exc(builder, ZeroDivisionError, ("division by zero",))
    return builder.fdiv(*operands)


def _larger(context: Any, builder: Any, operands: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", operands[1], operands[0]), operands[1], operands[0])


def _smaller(context: Any, builder: Any, operands: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", operands[1], operands[0]), operands[1], operands[0])


def _root(context: Any, builder: Any, operands: Any) -> Any:
    return _called(builder, "llvm.sqrt", operands)


def _absolute(context: Any, builder: Any, operands: Any) -> Any:
    return _called(builder, "llvm.fabs", operands)


def _called(builder: Any, name: str, operands: Any) -> Any:
    function = get_or_insert_function(
        builder.module, ir.FunctionType(_LLVM, [_LLVM] * len(operands)), f"{name}.v{LANES}f64"
    )
    return builder.call(function, operands)


_OPERATIONS: dict[Any, Any] = {
    operator.add: lambda context, builder, operands: builder.fadd(*operands),
    operator.sub: lambda context, builder, operands: builder.fsub(*operands),
    operator.mul: lambda context, builder, operands: builder.fmul(*operands),
    operator.truediv: _divided,
    operator.neg: lambda context, builder, operands: builder.fneg(*operands),
    operator.pos: lambda context, builder, operands: operands[0],
    max: _larger,
    min: _smaller,
    abs: _absolute,
    math.sqrt: _root,
    math.fabs: _absolute,
}
_COMPARISONS = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}


def _define(function: Any, template: type, generate: Any, n_operands: int) -> None:
    """Register an operation for vectors, and for vectors and numbers."""
    infer_global(function)(type(f"Vector_{function.__name__}", (template,), {"key": function}))

    def lowered(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
        operands = [_widened(builder, kind, value) for kind, value in zip(typing.args, arguments, strict=True)]
        return generate(context, builder, operands)

    kinds = [(Vector,)] if n_operands == 1 else [(Vector, Vector), (Vector, types.Float), (types.Float, Vector)]
    for arguments in kinds:
        lower_builtin(function, *arguments)(lowered)


for _function, _generate in _OPERATIONS.items():
    _unary = _function in (operator.neg, operator.pos, abs, math.sqrt, math.fabs)
    _define(_function, _Operation, _generate, 1 if _unary else 2)
for _function, _sign in _COMPARISONS.items():
    _compare = "fcmp_unordered" if _sign == "!=" else "fcmp_ordered"

    def _compared(context: Any, builder: Any, operands: Any, name: str = _compare, sign: str = _sign) -> Any:
        return getattr(builder, name)(sign, *operands)

    _define(_function, _Comparison, _compared, 2)


@infer_global(bool)
class _Truth(templates.AbstractTemplate):
    key = bool

    def generic(self, args: Any, kws: Any) -> Any:
        return signature(types.boolean, CONDITION) if tuple(args) == (CONDITION,) else None


@lower_builtin(bool, Condition)  # type: ignore[untyped-decorator]
def _truth(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
    """Return a condition that all lanes agree on, or raise."""
    (condition,) = arguments
    holds = _all(builder, condition)
    with builder.if_then(builder.xor(holds, _any(builder, condition)), likely=False):
        context.call_conv.return_user_exc(builder, ValueError, ("lanes differ",))
    return holds


@lower_cast(Vector, Vector)  # type: ignore[untyped-decorator]
def _cast(context: Any, builder: Any, origin: Any, target: Any, value: Any) -> Any:
    return value


@lower_cast(types.Float, Vector)  # type: ignore[untyped-decorator]
def _from_number(context: Any, builder: Any, origin: Any, target: Any, value: Any) -> Any:
    return _splat(builder, context.cast(builder, value, origin, types.float64))


def _can_be(self: Any, context: Any, other: Any) -> Any:
    """Return how a vector may become another: as a vector that is no longer one of parameters only."""
    return Conversion.safe if other == VECTOR else None


def _unified(self: Any, context: Any, other: Any) -> Any:
    return VECTOR if isinstance(other, Vector) or _is_number(other) else None


def _from_other(self: Any, context: Any, other: Any) -> Any:
    return Conversion.safe if other == types.float64 and not self.is_parameter else None


Vector.can_convert_to = _can_be
Vector.can_convert_from = _from_other
Vector.unify = _unified


_VERSION = digest_of_texts(Path(__file__).read_text(encoding="utf-8"))


def _operation(define: Any) -> Any:
    """Return an intrinsic whose code depends on all of this module."""
    define.version = _VERSION
    return intrinsic(define)


# Operations of kernels ----------------------------------------------------------------------------------------------


@_operation
def load(typing_context: Any, pointer: Any, index: Any) -> Any:
    """Return the vector at `LANES` numbers behind a pointer, from an index on."""

    def generate(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
        place = builder.gep(arguments[0], [arguments[1]])
        return builder.load(builder.bitcast(place, _LLVM.as_pointer()), align=8)

    return VECTOR(_FLOATS, types.int64), generate


@_operation
def store(typing_context: Any, pointer: Any, index: Any, value: Any) -> Any:
    """Write a vector to `LANES` numbers behind a pointer, from an index on."""

    def generate(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
        place = builder.gep(arguments[0], [arguments[1]])
        builder.store(arguments[2], builder.bitcast(place, _LLVM.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.none(_FLOATS, types.int64, value), generate


@_operation
def splat(typing_context: Any, number: Any) -> Any:
    """Return the vector with one number in all lanes."""

    def generate(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
        return _splat(builder, arguments[0])

    return VECTOR(types.float64), generate


@_operation
def as_parameter(typing_context: Any, vector: Any) -> Any:
    """Return a vector as one of a parameter of laws."""

    def generate(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
        return arguments[0]

    return PARAMETER(VECTOR), generate


@_operation
def quotient(typing_context: Any, dividend: Any, divisor: Any) -> Any:
    """Return the quotient of two vectors, which is infinite or nan for a divisor of zero."""

    def generate(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
        return builder.fdiv(*arguments)

    return VECTOR(VECTOR, VECTOR), generate


@_operation
def every(typing_context: Any, vector: Any, number: Any) -> Any:
    """Return whether all lanes have a number, which they mostly do."""

    def generate(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
        equal = builder.fcmp_ordered("==", arguments[0], _splat(builder, arguments[1]))
        return _likely(builder, _all(builder, equal))

    return types.boolean(VECTOR, types.float64), generate


@_operation
def every_positive(typing_context: Any, vector: Any) -> Any:
    """Return whether all lanes are > 0, which they mostly are."""

    def generate(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
        return _likely(builder, _all(builder, builder.fcmp_ordered(">", arguments[0], _constant(0.0))))

    return types.boolean(VECTOR), generate


@_operation
def select_positive(typing_context: Any, vector: Any, positive: Any, otherwise: Any) -> Any:
    """Return `positive` in lanes in which a vector is > 0, and `otherwise` in all others."""

    def generate(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", arguments[0], _constant(0.0)), *arguments[1:])

    return VECTOR(VECTOR, VECTOR, VECTOR), generate


@_operation
def number_in(typing_context: Any, vector: Any, index: Any) -> Any:
    """Return the number in a lane."""

    def generate(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
        return builder.extract_element(arguments[0], arguments[1])

    return types.float64(VECTOR, types.int64), generate


@_operation
def with_lane(typing_context: Any, vector: Any, index: Any, number: Any) -> Any:
    """Return a vector with another number in a lane."""

    def generate(context: Any, builder: Any, typing: Any, arguments: Any) -> Any:
        return builder.insert_element(arguments[0], arguments[2], arguments[1])

    return VECTOR(VECTOR, types.int64, types.float64), generate
