"""Operations on vectors round as those on numbers, in each lane."""

import math
from collections import namedtuple
from itertools import product

import numba
import numpy as np
import pytest

from ecc.fluid.compiled import entry, unpacker
from ecc.fluid.network import vectors
from ecc.jit.reach import jitable

Parameters = namedtuple("Parameters", ("a", "b"))
SPECIAL = [0.0, -0.0, 1.0, -1.5, 3e-310, 1.7e308, np.inf, -np.inf, np.nan, 1.0 / 3.0]
PAIRS = np.array(list(product(SPECIAL, SPECIAL)) + [(0.1, 0.2)] * 4)


def in_lanes(law, x, y, a=1.0, b=2.0):
    """Return the results of a law in all lanes, from a compiled kernel."""
    scope = {
        **{name: getattr(vectors, name) for name in vectors.__all__},
        "law": jitable(law, from_python=False, allocates=False),
        "unpack": unpacker("ff"),
        "Parameters": Parameters,
        "__name__": __name__,
    }
    lines = [
        "numbers, results = unpack(table)",
        "p = Parameters(as_parameter(load(numbers, 0)), as_parameter(load(numbers, 8)))",
        "store(results, 0, law(load(numbers, 16), load(numbers, 24), p))",
    ]
    exec("\n    ".join(["def kernel(table):", *lines]), scope)
    numbers = np.concatenate([np.broadcast_to(value, vectors.LANES) for value in (a, b, x, y)]).astype(float)
    results = np.empty(vectors.LANES)
    kernel = entry(scope["kernel"])
    kernel.compile((numba.types.int64[::1],))
    kernel(np.array([numbers.ctypes.data, results.ctypes.data]))
    return results


LAWS = {
    "sum": lambda x, y, p: x + 2.0 * y - p.a + 1,
    "product": lambda x, y, p: -x * y * 3,
    "minimum": lambda x, y, p: min(x, y),
    "maximum": lambda x, y, p: max(x, y),
    "limits": lambda x, y, p: min(max(x, 0.0), 1.5) + max(0.0, y),
    "root": lambda x, y, p: math.sqrt(abs(x)) + math.fabs(y),
    "branch": lambda x, y, p: x if p.a > 0.5 else y,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_each_lane_has_the_bits_of_a_number(name):
    law = LAWS[name]
    compiled = numba.njit(law)
    p = Parameters(1.0, 2.0)
    for first in range(0, len(PAIRS), vectors.LANES):
        x, y = PAIRS[first : first + vectors.LANES].T
        expected = np.array([compiled(*pair, p) for pair in zip(x, y, strict=True)])
        np.testing.assert_array_equal(in_lanes(law, x, y).view("u8"), expected.view("u8"), err_msg=name)


@pytest.mark.slow
def test_a_division_by_zero_in_a_lane_raises():
    def law(x, y, p):
        return x / y

    y = np.arange(1.0, 9.0)
    np.testing.assert_array_equal(in_lanes(law, 3.0, y), 3.0 / y)
    y[5] = 0.0
    with pytest.raises(ZeroDivisionError):
        in_lanes(law, 3.0, y)


@pytest.mark.slow
def test_lanes_must_agree_on_branches():
    with pytest.raises(ValueError, match="lanes differ"):
        in_lanes(LAWS["branch"], 1.0, 2.0, a=np.linspace(0.0, 1.0, 8))


@pytest.mark.parametrize(
    "law",
    [lambda x, y, p: x if x > y else y, lambda x, y, p: x**p.a, lambda x, y, p: math.exp(x), lambda x, y, p: x // y],
)
def test_laws_that_vectors_cannot_follow_are_refused(law):
    made = jitable(law, from_python=False, allocates=False)
    record = numba.types.NamedUniTuple(vectors.PARAMETER, 2, Parameters)
    with pytest.raises(numba.core.errors.NumbaError):
        made.compile((vectors.VECTOR, vectors.VECTOR, record))
