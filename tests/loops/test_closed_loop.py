"""The choice of the linear model by the kind of loop, and the options that are refused."""

import pytest

from ecc import models
from ecc.contract.kinds import Kind, kind_of_laws
from ecc.loops import closed_loop
from ecc.loops.closed_loop import linearize
from ecc.models import PIQIRCP, all_protocols
from ecc.network.network import Network

NET = Network.dumbbell("1 Gb/s", rtts=[0.12, 0.3, 0.205])


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "time must be one of 'continuous', 'discrete', 'hybrid', got 'digital'", {"time": "digital"}),
        (ValueError, "approximation must be None or one of '4.64', '4.75'", {"approximation": "4.1"}),
        (ValueError, "approximation must be None", {"approximation": "4.64", "time": "discrete"}),
        (ValueError, "phases belong to time='hybrid'", {"phases": [0.5]}),
        (ValueError, "intervals belong to time='hybrid'", {"intervals": [0.01]}),
        (ValueError, r"intervals must be 1 times > 0 s, got \[0.0\]", {"intervals": [0.0], "time": "hybrid"}),
        (ValueError, r"phases must be 1 numbers in \[0, 1\)", {"phases": [1.5], "time": "hybrid"}),
        (ValueError, "updates_per_rtt applies to hosts that set windows", {"updates_per_rtt": 2, "time": "discrete"}),
        (ValueError, "updates_per_rtt must be >= 1, got 0", {"updates_per_rtt": 0, "time": "discrete"}),
        (
            ValueError,
            "updates_per_rtt belongs to time='discrete', got time='hybrid'",
            {"updates_per_rtt": 2, "time": "hybrid"},
        ),
        (ValueError, "assignment must have 3 link indices", {"assignment": [0]}),
    ],
)
def test_bad_input_gets_one_line(error, message, call):
    with pytest.raises(error, match=message):
        linearize(PIQIRCP(), NET, **call)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("RCP", "linearize_explicit"),
        ("XCP", "linearize_explicit"),
        ("EMKC", "linearize_explicit"),
        ("JetMax", "linearize_explicit"),
        ("FAST", "linearize_windows"),
        ("ABC", "linearize_paced"),
        ("PowerTCP", "linearize_paced"),
        ("TIMELY", "linearize_rates"),
    ],
)
def test_the_kind_of_a_loop_chooses_the_model(name, model):
    chosen = closed_loop._MODELS.get(kind_of_laws(getattr(models, name)()), closed_loop.linearize_explicit)
    assert chosen is getattr(closed_loop, model)


def test_every_kind_with_a_linear_model_has_rates_or_is_in_the_table():
    by_rates = {Kind.EXPLICIT_FEEDBACK, Kind.SAMPLED_PRICES, Kind.STEPPED_RATES, Kind.GRANTED_WINDOWS}
    kinds = {kind_of_laws(protocol()) for protocol in all_protocols().values() if protocol().linear_refusal is None}
    assert kinds - {Kind.PACKETS_ONLY, Kind.QUEUE_DISCIPLINE} <= by_rates | set(closed_loop._MODELS)
