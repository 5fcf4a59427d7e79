"""Questions about the arguments of a law."""

import pytest

from ecc.contract.kinds import router_takes, source_takes, steps_from_rate
from ecc.laws.arguments import (
    arguments_beyond,
    arguments_except,
    arguments_from,
    arguments_text,
    call_law,
    takes,
    with_arguments_of,
)
from ecc.models import RCP, JetMax, NewReno
from ecc.queues import CoDel


def law(x, R, p):
    return x * R + p


def test_a_law_takes_its_arguments_and_no_law_takes_any():
    assert takes(law, "R")
    assert not takes(law, "q")
    assert not takes(None, "R")


def test_arguments_that_a_caller_or_another_law_lacks():
    assert arguments_except(law, {"R": 1.0}) == ["x", "p"]
    assert arguments_except(None, ()) == []
    assert arguments_beyond(law, lambda p, x: 0.0) == ["R"]
    assert arguments_beyond(None, law) == []


def test_a_law_is_called_with_those_of_a_supply_that_it_takes():
    supply = {"R": 3.0, "y": 5.0, "p": 1.0, "x": 2.0}
    assert list(arguments_from(law, supply).items()) == [("x", 2.0), ("R", 3.0), ("p", 1.0)]
    assert call_law(law, supply) == 7.0
    with pytest.raises(KeyError, match="'p'"):
        call_law(law, {"x": 1.0, "R": 2.0})


def test_the_text_of_a_call():
    assert arguments_text(law) == "x, R, p"
    assert arguments_text(law, lambda name: f"record.{name}") == "record.x, record.R, record.p"
    assert arguments_text(None) == ""


def test_a_law_with_the_arguments_of_another():
    def other(p, q, R, x):
        return 0.0

    adapted = with_arguments_of(law, other)
    assert (adapted.__name__, arguments_text(adapted)) == ("other", "p, q, R, x")
    assert adapted(1.0, 9.0, 3.0, 2.0) == law(x=2.0, R=3.0, p=1.0)
    assert with_arguments_of(law, law) is law


def test_arguments_of_the_laws_of_a_protocol():
    assert router_takes(RCP(), "R")
    assert not router_takes(RCP(), "w")
    assert source_takes(NewReno(), "w")
    assert not any(asked(CoDel(), "w") for asked in (router_takes, source_takes))
    assert steps_from_rate(JetMax())
    assert not steps_from_rate(NewReno())
