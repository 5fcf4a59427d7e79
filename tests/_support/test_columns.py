"""A column has the results of its members' numbers, or raises."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecc._support.columns import Column, Differ
from ecc._support.quantity import as_number
from ecc.contract.assignment import with_parameters
from ecc.models import PIQIRCP, RCP

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5)


def formula(x):
    return 1.0 - (2 * x + 3.0 / (x * x + 1.0)) * -x + x / 7


@given(VALUES)
def test_arithmetic_has_the_bits_of_numbers(values):
    assert formula(Column.of(values)).values.tolist() == [formula(value) for value in values]


@given(VALUES, st.floats(-1e6, 1e6))
def test_comparisons_hold_for_all_members_or_raise(values, limit):
    each = [value < limit for value in values]
    if len(set(each)) == 1:
        assert (Column.of(values) < limit) == each[0]
    else:
        with pytest.raises(Differ):
            Column.of(values) < limit  # noqa: B015


@pytest.mark.parametrize(
    "use",
    [
        float,
        hash,
        math.exp,
        np.sqrt,
        "{}".format,
        lambda x: x**2,
        lambda x: 1.0 / (x - 2.0),
        lambda x: np.ones(3) * x,
        lambda x: Column.of([1, True]),
    ],
)
def test_all_other_uses_raise(use):
    with pytest.raises((Differ, TypeError)):
        use(Column.of([1.0, 2.0]))


def test_parameters_are_checked_for_all_members():
    alphas = Column.of([0.1, 0.4])
    assert as_number(alphas, "alpha", positive=True) is alphas
    assert with_parameters(PIQIRCP(), {"alpha": alphas}).params()["alpha2"] is alphas
    assert with_parameters(PIQIRCP(), {"rtt_gain": alphas}).params()["rtt_rest"].values.tolist() == [0.9, 0.6]
    for kind, values in (
        (PIQIRCP, {"alpha": [0.1, -0.1]}),
        (PIQIRCP, {"tau1": [1.9, 2.1]}),
        (RCP, {"alpha": [np.nan]}),
    ):
        with pytest.raises(Differ):
            with_parameters(kind(), {name: Column.of(column) for name, column in values.items()})
