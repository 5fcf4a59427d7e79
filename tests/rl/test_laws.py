"""Environments observe and act by the laws of the protocols that run their policies."""

from __future__ import annotations

import numpy as np
import pytest

from ecc.models.shared import policies
from ecc.rl import Interval, aurora, orca

PACKET = 1500.0
RNG = np.random.default_rng(7)


def drawn() -> Interval:
    """An interval with all values in plausible ranges."""
    values = {name: float(RNG.uniform(0.05, 0.2)) for name in Interval._fields}
    sizes = {name: PACKET * float(RNG.integers(1, 400)) for name in ("sent", "delivered", "window", "in_flight")}
    rates = {name: float(RNG.uniform(0.5e6, 8e6)) for name in ("rate", "max_delivery_rate")}
    return Interval(**(values | sizes | rates | {"lost": PACKET * RNG.integers(0, 3), "n_rtts": 5.0}))


def statistics(interval: Interval) -> dict[str, float]:
    """The arguments of laws for an interval."""
    return {
        "send_rate": interval.send_rate,
        "delivery_rate": interval.delivery_rate,
        "lost_rate": 8.0 * interval.lost / interval.duration,
        "loss": interval.loss,
        "rtt": interval.rtt,
        "gradient": interval.gradient,
        "samples": interval.n_rtts,
        "duration": interval.duration,
        "srtt": interval.srtt,
        "min_rtt": interval.path_rtt,
        "min_mean_rtt": interval.min_mean_rtt,
        "max_delivery_rate": interval.max_delivery_rate,
        "x": interval.rate,
        "w": 8.0 * interval.window,
        "s": 8.0 * PACKET,
    }


def value(law, known, **more):
    code = law.__code__
    return law(**{name: (known | more)[name] for name in code.co_varnames[: code.co_argcount]})


@pytest.mark.parametrize(("name", "module"), [("aurora", aurora), ("orca", orca)])
def test_observations_are_the_laws_of_the_protocol(name, module):
    for _ in range(50):
        interval = drawn()
        known = statistics(interval)
        laws = [value(law, known) for law in policies.OBSERVATIONS[name]]
        assert np.array(module.observe(interval), float) == pytest.approx(laws, rel=1e-12)


def test_actions_are_the_laws_of_the_protocol():
    limits = type("Params", (), {"min_rate": aurora.MIN_RATE})
    for _ in range(50):
        interval, a = drawn(), float(RNG.uniform(-0.95, 0.95))
        known = statistics(interval)
        rate = value(policies.change_rate, known, a=a, p=limits)
        assert aurora.change_rate(a, interval) == pytest.approx(min(rate, aurora.MAX_RATE), rel=1e-12)
        assert aurora.change_rate(np.array([a]), interval)[0] == pytest.approx(min(rate, aurora.MAX_RATE), rel=1e-12)
        window = value(policies.change_window, known, a=a) / 8.0
        assert float(orca.change_window(a, interval)) == pytest.approx(window, rel=1e-12)
        assert aurora.interval(interval) == policies.half_rtt(interval.rtt)
