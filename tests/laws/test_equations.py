"""The laws as SymPy shows them are the laws that run."""

from __future__ import annotations

import pytest
import sympy

from ecc.contract.protocol import Protocol
from ecc.laws.equations import router_equation, source_equation
from ecc.models import PIQIRCP, QIRCP, RCP

VALUES = {"R": 2e6, "R_prev": 1.9e6, "x": 1.5e6, "y": 8e7, "y_prev": 7e7, "q": 5e4, "C": 1e8, "d": 0.12, "T": 0.01}


@pytest.mark.parametrize("protocol", [RCP(), RCP(queue_term=False), QIRCP(), PIQIRCP(alpha1=0.3)], ids=str)
def test_equations_give_the_numbers_of_the_laws(protocol: Protocol):
    for law, equation in (
        (protocol.router_law, router_equation(protocol)),
        (protocol.source_law, source_equation(protocol)),
    ):
        known = VALUES | protocol.params()
        value = equation.rhs.subs({symbol: known[symbol.name] for symbol in equation.rhs.free_symbols})
        names = law.__code__.co_varnames[: law.__code__.co_argcount]
        direct = law(**{n: protocol.namespace() if n == "p" else VALUES[n] for n in names})
        assert float(value) == pytest.approx(direct, rel=1e-14)


def test_terms_that_a_variant_switches_off_are_not_shown():
    assert "beta" in {symbol.name for symbol in router_equation(RCP()).free_symbols}
    assert "beta" not in {symbol.name for symbol in router_equation(RCP(queue_term=False)).free_symbols}


def test_minimum_and_branches():
    class Capped(RCP):
        @staticmethod
        def router_law(R, C):
            return min(2.0 * R, C)

        @staticmethod
        def source_law(R, x):
            return R if R < x else x

    R, C = sympy.symbols("R C", real=True)
    assert router_equation(Capped()).rhs == sympy.Min(2 * R, C)
    with pytest.raises(TypeError, match="truth value"):
        source_equation(Capped())
