"""Workloads: what is drawn, in which order, and every refusal in one line."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ecc.models import RCP
from ecc.network.network import Flow, Network
from ecc.scenario import Scenario
from ecc.traffic.workload import Arrivals, OnOff, Workload


def drawn(*streams, duration=2000.0, transfers=(), seed=1):
    arrivals = [s for s in streams if isinstance(s, Arrivals)]
    blocks = list(Workload(transfers, arrivals, [s for s in streams if isinstance(s, OnOff)]).blocks(seed, duration))
    return np.concatenate(blocks)


@pytest.mark.parametrize(
    ("fields", "deviation"),
    [
        ({}, 0.0),
        ({"distribution": "exponential"}, 1.0),
        ({"distribution": "lognormal", "shape": 0.5}, math.sqrt(math.exp(0.25) - 1.0)),
        ({"shape": 6.0}, math.sqrt(1.0 / 24.0)),  # Pareto: 1 / sqrt(shape (shape - 2))
    ],
    ids=lambda value: str(value),
)
@pytest.mark.parametrize("amount", ["mean_size", "mean_duration"])
def test_sizes_and_durations_have_mean_and_deviation(fields, deviation, amount):
    x = drawn(Arrivals([0], 0.05, **{amount: 10_000}, **fields), duration=5000.0)
    values = x["size"] if amount == "mean_size" else x["stop"] - x["start"]
    assert len(x) == pytest.approx(100_000, rel=0.02)
    assert values.mean() == pytest.approx(10_000, rel=0.02)
    # 1e5 draws estimate it within 0.002 (lognormal), 0.003 (exponential), 0.006 (Pareto of shape 6): five of these
    assert values.std() / 10_000 == pytest.approx(deviation, abs=1e-9 if deviation == 0.0 else 0.03)
    other = x["stop"] if amount == "mean_size" else x["size"]
    assert (other == (math.inf if amount == "mean_size" else -1)).all()


@pytest.mark.parametrize("shape", [1.2, 1.5, 3.0])
def test_heavy_tails_have_their_quantiles(shape):
    """Whose deviation says nothing: below shape 4 that of a sample has no finite variance itself."""
    sizes = drawn(Arrivals([0], 0.05, 10_000, shape=shape), duration=5000.0)["size"]
    least = 10_000 * (shape - 1.0) / shape
    for above in (0.5, 0.1, 0.01, 0.001):
        share = float((sizes > least * above ** (-1.0 / shape)).mean())
        assert share == pytest.approx(above, abs=4.0 * math.sqrt(above / len(sizes)))  # four standard errors


def test_poisson_gaps_are_exponential_and_regular_ones_equal():
    gaps = np.diff(drawn(Arrivals([0], 0.2, 1000))["start"])
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05) and gaps.mean() == pytest.approx(0.2, rel=0.05)
    x = drawn(Arrivals([0], 10, duration=(1, 15), spacing="regular", batch=10, start=30), duration=100.0)
    assert x["start"].tolist() == np.repeat(np.arange(30.0, 100.0, 10.0), 10).tolist()
    lives = x["stop"] - x["start"]
    assert 1.0 <= lives.min() < 3.0 and 13.0 < lives.max() <= 15.0


def test_a_count_a_stop_and_a_range_of_delays():
    x = drawn(Arrivals([0], 0.01, 1000, count=2500, access_delay=("10 ms", "30 ms")))
    assert len(x) == 2500
    assert x["access_delay"].min() == pytest.approx(0.01, abs=1e-4)
    assert x["access_delay"].max() == pytest.approx(0.03, abs=1e-4)
    within = drawn(Arrivals([0], 0.01, 1000, start=3.0, stop=4.0))["start"]
    assert within.min() > 3.0 and within.max() < 4.0 and 60 < len(within) < 140


def test_sources_go_on_and_off():
    source = OnOff([0], mean_on=1.0, mean_off=3.0, sources=1, access_delay=(0.01, 0.03))
    x = drawn(source, duration=50_000.0)
    assert (x["start"][1:] > x["stop"][:-1]).all() and x["start"][0] > 0.0
    assert (x["stop"] - x["start"]).mean() == pytest.approx(1.0, rel=0.03)
    assert (x["start"][1:] - x["stop"][:-1]).mean() == pytest.approx(3.0, rel=0.03)
    assert len(set(x["access_delay"])) == 1
    many = drawn(OnOff([0], 1.0, 3.0, sources=40), duration=1000.0)
    share = (np.minimum(many["stop"], 1000.0) - many["start"]).sum() / (40 * 1000.0)
    assert share == pytest.approx(0.25, rel=0.03)
    ends = drawn(OnOff([0], 1.0, 1.0, distribution="fixed", stop=5.5), duration=50.0)
    assert ends["start"].tolist() == [1.0, 3.0, 5.0] and ends["stop"].tolist() == [2.0, 4.0, 5.5]


def test_streams_are_merged_in_order_and_do_not_change_each_other():
    one, other = Arrivals([0], 0.01, 1000), Arrivals([1], 0.03, mean_duration=2.0)
    given = [Flow([0], start=3.0, size=7), Flow([1], start=1.0)]
    x = drawn(one, other, OnOff([0], 1.0, 1.0, sources=3), transfers=given, duration=100.0)
    assert (np.diff(x["start"]) >= 0.0).all()
    work = Workload(given, [one, other])
    assert [flow.route for flow in work.templates] == [(0,), (1,)]
    alone = drawn(one, duration=100.0)
    assert x["start"][(x["template_index"] == 0) & (x["size"] == 1000)].tolist() == alone["start"].tolist()
    flows = work.draw(seed=1, duration=100.0)
    assert [f for f in flows if f.size == 7] == [given[0]] and given[1] in flows


def test_what_the_papers_use():
    mice = Arrivals.lifetimes([0])
    x = drawn(mice)
    rtts = 2.0 * (x["access_delay"] + 0.02)
    assert len(x) == 500 and rtts.min() >= 0.04 and rtts.max() <= 1.04 and mice.templates[0].packet_size == (800, 1300)
    assert (x["stop"] - x["start"]).mean() == pytest.approx(10.0, rel=0.2)
    assert math.isnan(mice.offered_rate)
    load = Arrivals.at_load([0], 0.9, "2.4 Gb/s", 30_000)
    assert load.offered_rate == pytest.approx(0.9 * 2.4e9) and load.shape == 1.4
    assert Arrivals.at_load([0], 0.5, "1 Gb/s", 1000, distribution="exponential").shape is None


def test_workloads_survive_toml():
    work = Workload(
        [Flow([0], 1.0, size="1 MB")],
        [Arrivals.lifetimes([0]), Arrivals([0], 10, duration=(1, 15), spacing="regular", batch=10, count=70)],
        [OnOff([0], "1 s", "2 s", 5, access_delay=("1 ms", "2 ms"))],
    )
    before = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.1]), RCP(), 10.0, workload=work)
    assert Scenario.from_toml(before.to_toml()).workload == work


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "arrivals must have one of mean_size, mean_duration and duration, got none"),
        ({"mean_size": 1, "mean_duration": 2}, "got mean_size, mean_duration"),
        ({"mean_size": 1, "distribution": "weibull"}, "distribution must be one of 'fixed', .*, got 'weibull'"),
        ({"mean_size": 1, "distribution": "lognormal"}, "shape is needed for distribution 'lognormal', got None"),
        ({"mean_size": 1, "distribution": "fixed", "shape": 2.0}, "shape must be None for distribution 'fixed', got 2"),
        ({"mean_size": 1, "shape": 0.9}, "shape must be > 1 "),
        ({"mean_size": 1, "spacing": "even"}, "spacing must be one of 'poisson', 'regular', got 'even'"),
        ({"mean_size": 1, "batch": 0}, "batch must be >= 1, got 0"),
        ({"mean_size": 1, "count": 0}, "count must be >= 1, got 0"),
        ({"mean_size": 1, "start": 2.0, "stop": 2.0}, r"stop must be > start \(2 s\), got 2 s"),
        ({"mean_size": 1, "access_delay": (2.0, 1.0)}, r"access_delay must be \(lowest, highest\), got \(2.0, 1.0\)"),
        ({"duration": (0.0, 1.0)}, "duration must be > 0 s, got 0.0 s"),
        ({"duration": (3.0, 1.0)}, r"duration must be \(lowest, highest\), got"),
        ({"duration": (1.0, 3.0), "shape": 2.0}, "distribution and shape must be None for duration"),
        ({"mean_duration": 0.0}, "mean_duration must be > 0 s"),
        ({"mean_duration": 1e7}, r"mean_duration must be < 4e\+06 s, which the clock holds, got 10000000\.0"),
        ({"mean_size": 1, "access_delay": (0.0, 1e6)}, r"access_delay must be < 1e\+06 s"),
        ({"mean_size": 0.4}, "mean_size must be >= 1 bytes, got 0.4"),
    ],
)
def test_bad_arrivals_are_refused_in_one_line(fields, message):
    with pytest.raises(ValueError, match=message):
        Arrivals([0], 0.1, **fields)


def test_other_refusals():
    with pytest.raises(TypeError, match=r"duration must be \(lowest, highest\), got 3"):
        Arrivals([0], 0.1, duration=3)
    with pytest.raises(ValueError, match="mean_off must be > 0 s"):
        OnOff([0], 1.0, 0.0)
    with pytest.raises(ValueError, match="sources must be >= 1, got 0"):
        OnOff([0], 1.0, 1.0, sources=0)
    with pytest.raises(ValueError, match=r"rtts must be >= twice the delay \(0.1 s\), got 0.04 s"):
        Arrivals.lifetimes([0], delay="50 ms")
    with pytest.raises(TypeError, match="on_off must be a sequence of OnOff"):
        Workload(on_off=[Arrivals([0], 1.0, 1)])
    with pytest.raises(TypeError, match=r"arrivals must be a sequence of Arrivals, got Arrivals\("):
        Workload(arrivals=Arrivals([0], 1.0, 1))
    small = Network.dumbbell("10 Mb/s", rtts=[0.1], buffer=1000)
    with pytest.raises(
        ValueError, match=r"buffer must be >= a packet of workload.arrivals\[0\] \(1500 bytes\), got 1000"
    ):
        Scenario(small, RCP(), 1.0, workload=Workload([], [Arrivals([0], 1.0, 1, packet_size=(40, 1500))]))
    network = Network.dumbbell("10 Mb/s", rtts=[0.1])
    with pytest.raises(ValueError, match=r"route must use links 0 to 0, got 3 \(workload.on_off\[0\]\)"):
        Scenario(network, RCP(), 1.0, workload=Workload(on_off=[OnOff([3], 1.0, 1.0)]))
