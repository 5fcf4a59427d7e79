"""`LinearOptions`: one object for the options of linear models, or its fields as keywords."""

import inspect
from dataclasses import FrozenInstanceError, fields, replace
from typing import get_type_hints

import numpy as np
import pytest

import ecc
from ecc import LinearOptions
from ecc.loops import closed_loop
from ecc.loops.options import NAMES, LinearKeywords
from ecc.stability import NetworkRange, analyze, cover_range, design, rtt_margin, stability_map, stable_interval

NETWORK = ecc.Network.dumbbell("1 Gb/s", [0.1, 0.2])
QIRCP = ecc.models.QIRCP()
OPTIONS = LinearOptions(mean_rtt=[0.2])


def test_keywords_are_the_fields_and_have_the_defaults_of_the_models():
    assert get_type_hints(LinearKeywords) == get_type_hints(LinearOptions)
    parameters = inspect.signature(closed_loop.linearize).parameters
    assert [(field.name, field.default) for field in fields(LinearOptions)] == [
        (name, one.default) for name, one in parameters.items() if name in NAMES
    ]
    assert len(parameters) == 3 + len(NAMES)


CALLS = {
    "linearize": lambda **options: ecc.linearize(QIRCP, NETWORK, **options).spectral_abscissa,
    "critical_gain": lambda **options: ecc.critical_gain(QIRCP, NETWORK, **options).value,
    "stable_interval": lambda **options: stable_interval(QIRCP, NETWORK, **options).upper,
    "analyze": lambda **options: analyze(QIRCP, NETWORK, times=["continuous"], **options).models[0].interval.upper,
    "stability_map": lambda **options: float(stability_map(QIRCP, NETWORK, {"alpha": [1.0]}, **options)[0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_an_object_and_keywords_give_the_same_result(name):
    by_object, by_keyword, without = (
        CALLS[name](**given)
        for given in (
            {"options": OPTIONS},
            {"mean_rtt": [0.2]},
            {},
        )
    )
    assert by_object == by_keyword != without


@pytest.mark.parametrize("name", CALLS)
def test_both_are_refused_in_one_line(name):
    with pytest.raises(TypeError, match="^options and mean_rtt cannot be combined: make mean_rtt a field of options$"):
        CALLS[name](options=OPTIONS, mean_rtt=[0.2])


@pytest.mark.parametrize("name", CALLS)
def test_an_unknown_keyword_is_refused_with_those_that_there_are(name):
    with pytest.raises(TypeError, match=f"^{name} must have arguments among .*, mean_rtt, .*, got 'mean_rt'$"):
        CALLS[name](mean_rt=[0.2])


def test_an_assignment_alone_may_stand_in_for_options():
    parking_lot = ecc.Network.parking_lot(["100 Mb/s", "100 Mb/s"])
    protocol = ecc.models.RCP(queue_term=False)
    link = [int(flow.route[0]) for flow in parking_lot.flows]
    expected = ecc.linearize(protocol, parking_lot, "discrete", LinearOptions(assignment=link)).spectral_radius
    for given in (link, np.array(link)):
        assert ecc.linearize(protocol, parking_lot, "discrete", given).spectral_radius == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: analyze(QIRCP, NETWORK, phases=[0.5]),
            "of analyze must be among assignment, mean_rtt, clocking, got phases",
        ),
        (lambda: rtt_margin(QIRCP, NETWORK, options=OPTIONS), "options of rtt_margin must be among .*, got mean_rtt"),
        (
            lambda: design(QIRCP, NETWORK, {"alpha": (0.1, 1.0)}, options=OPTIONS),
            "^options of design must be among clocking, got mean_rtt$",
        ),
        (
            lambda: cover_range(QIRCP, NetworkRange("30 Mb/s", 60, 0.1), assignment=[0]),
            "^options of cover_range must be among clocking, got assignment$",
        ),
    ],
)
def test_options_that_a_function_does_not_support_are_refused_with_its_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_values_are_checked_where_they_are_given():
    with pytest.raises(ValueError, match=r"mean_rtt must be a one-dimensional array of finite numbers .*, got \[nan\]"):
        LinearOptions(mean_rtt=[float("nan")])
    with pytest.raises(TypeError, match="clocking must be a string or None, got 3"):
        ecc.critical_gain(QIRCP, NETWORK, clocking=3)


def test_options_are_frozen_comparable_and_shown_without_defaults():
    assert repr(LinearOptions()) == "LinearOptions()"
    assert repr(LinearOptions(clocking="rate", phases=[0.5])) == "LinearOptions(phases=[0.5], clocking='rate')"
    assert replace(OPTIONS, clocking="ack").given() == {"mean_rtt": [0.2], "clocking": "ack"}
    assert LinearOptions(mean_rtt=np.array([0.2])) == OPTIONS != LinearOptions(mean_rtt=[0.1])
    assert hash(LinearOptions(mean_rtt=(0.2,))) == hash(OPTIONS) and OPTIONS != {"mean_rtt": [0.2]}
    with pytest.raises(FrozenInstanceError):
        OPTIONS.clocking = "rate"
