"""Compiled functions of a user: arrays that they return only to hand over numbers are not allocated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ecc.fluid import solve_dde
from ecc.fluid.dde.callbacks import _jitted


def literal(t: float, y: Any, ylag: Any) -> Any:
    return np.array([y[1], -y[0]])


def in_branches(t: float, y: Any, ylag: Any) -> Any:
    if t < 0.5:
        return np.array([y[1], -y[0]])
    return np.array([2.0 * y[1], -y[0]])


def of_two_types(t: float, y: Any, ylag: Any) -> Any:
    return np.array([1, -y[0]])


def changed(t: float, y: Any, ylag: Any) -> Any:
    out = np.array([y[1], y[0]])
    out[1] *= -1.0
    return out


def used_twice(t: float, y: Any, ylag: Any) -> Any:
    out = np.array([y[1], -y[0]])
    doubled = 2 * out
    out[0] = 0.5 * doubled[0]
    return out


def twice_as_large(t: float, y: Any, ylag: Any) -> Any:
    out = np.array([y[1], -y[0]])
    if len(2 * out) > 2:
        return np.array([0.0, 0.0])
    return out


def with_a_type(t: float, y: Any, ylag: Any) -> Any:
    return np.array([y[1], -y[0]], np.float32)


def either(t: float, y: Any, ylag: Any) -> Any:
    return np.array([y[1], -y[0]]) if t < 0.5 else np.zeros(2)


FUNCTIONS = [literal, in_branches, of_two_types, changed, used_twice, twice_as_large, with_a_type, either]


@pytest.mark.slow
@pytest.mark.parametrize("f", FUNCTIONS)
def test_compiled_functions_return_the_values_of_python(f: Callable[..., Any]) -> None:
    compiled, called = (solve_dde(f, (0.0, 1.0), [1.0, 0.5], [], rtol=1e-8, jit=jit) for jit in (True, False))
    assert compiled.compiled and not called.compiled
    assert compiled.y.tolist() == called.y.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("f", "allocates"), [(literal, False), (in_branches, False), (changed, True)])
def test_an_array_of_numbers_that_is_only_returned_is_not_allocated(f: Callable[..., Any], allocates: bool) -> None:
    code = _jitted(f, ((2,), (0, 2)), 2, scalar=False, extra=0).inspect_llvm()
    assert ("call" in code) and (("@NRT_MemInfo_alloc" in code) is allocates)
