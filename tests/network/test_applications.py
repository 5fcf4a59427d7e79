"""Applications that write over time: what they write, and what flows send of it."""

import numpy as np
import pytest

import ecc
from ecc.applications import Bulk, Bursts, Media, Responses
from ecc.models import CUBIC, NewReno
from ecc.network.network import Flow, Link, Network
from ecc.scenario import Scenario

ALL = [
    Bulk("1 Mb/s", until="0.5 s", size="200 kB"),
    Bursts("8 Mb/s", mean_on="50 ms", mean_off="150 ms"),
    Responses("30 kB", "0.2 s", distribution="pareto"),
    Media("2 Mb/s", key_every=30, key_factor=4.0, noise=0.2),
]
names = [type(application).__name__ for application in ALL]


def scenario(*applications, duration=3.0, protocol=None, seed=0, **flow):
    network = Network([Link("20 Mb/s", "10 ms", buffer="100 kB")], [Flow([0], writes=a, **flow) for a in applications])
    return Scenario(network, protocol or CUBIC(), duration, seed=seed)


@pytest.mark.parametrize("application", ALL, ids=names)
def test_writes_are_in_order_and_come_from_the_seed(application):
    times, sizes = application.writes(10.0, 3)
    assert times[0] == 0.0 and (np.diff(times) > 0.0).all() and times[-1] < 10.0
    assert sizes.dtype == np.int64 and (sizes > 0).all()
    again = application.writes(10.0, 3)
    assert (again[0] == times).all() and (again[1] == sizes).all()
    if not isinstance(application, Bulk):
        other = application.writes(10.0, 4)
        assert len(other[1]) != len(sizes) or (other[1] != sizes).any()


@pytest.mark.parametrize(
    ("application", "rate", "band"),
    [
        (Bulk("3 Mb/s", until="1000 s"), 3e6, 1e-6),
        (Bursts("8 Mb/s", mean_on="50 ms", mean_off="150 ms"), 2e6, 0.03),
        (Bursts("8 Mb/s", mean_on="50 ms", mean_off="150 ms", distribution="fixed"), 2e6, 1e-3),
        (Responses("30 kB", "0.2 s"), 1.2e6, 0.03),
        (Responses("30 kB", "0.2 s", intervals="fixed", distribution="fixed"), 1.2e6, 1e-3),
        (Media("2 Mb/s", key_every=30, key_factor=4.0, noise=0.2), 2e6, 0.01),
    ],
)
def test_the_mean_rate_is_that_of_the_parameters(application, rate, band):
    _, sizes = application.writes(1000.0, 1)
    assert 8.0 * sizes.sum() / 1000.0 == pytest.approx(rate, rel=band)


def test_pareto_draws_have_their_mean():
    _, sizes = Responses("30 kB", "10 ms", distribution="pareto").writes(2000.0, 5)
    assert np.median(sizes) == pytest.approx(10_000 * 2.0 ** (1.0 / 1.5), rel=0.02)  # minima of a third of the mean
    assert sizes.min() >= 10_000


def test_frames_have_key_frames_and_noise():
    _, sizes = Media("2.4 Mb/s", frames=30, key_every=10, key_factor=5.0).writes(10.0, 0)
    assert sizes[::10] == pytest.approx(5.0 * sizes[1], abs=3.0) and len(sizes) == 300
    _, noisy = Media("2.4 Mb/s", frames=30, noise=0.3).writes(1000.0, 0)
    assert noisy.std() / noisy.mean() == pytest.approx(0.3, rel=0.02)
    assert len(Media("1 Mb/s", stop="2 s").writes(10.0, 0)[0]) == 60


@pytest.mark.parametrize("transport", ["newreno", "sack", "rack"])
@pytest.mark.parametrize("application", ALL, ids=names)
def test_both_engines_send_what_is_written(application, transport):
    runs = [
        ecc.packet.simulate(scenario(application, protocol=NewReno(transport=transport)), engine=engine)
        for engine in ("c", "python")
    ]
    assert runs[0].stats["digest"] == runs[1].stats["digest"]
    written = int(application.writes(2.5, [0, 0])[1].sum())
    at_2_5 = float(runs[0].goodput.sel(time=slice(0.0, 3.0)).sum()) * float(runs[0].data["time"][0]) / 8.0
    assert written * 0.9 <= at_2_5 <= int(application.writes(3.0, [0, 0])[1].sum())


def test_each_write_leaves_at_its_time():
    application = Media("800 kb/s", frames=10.0)  # a frame of 10 packets each 100 ms
    frames = scenario(application, duration=1.0, protocol=NewReno(initial=10), start=0.01)
    run = ecc.packet.simulate(frames, sample="20 ms")
    packets = np.round(run.rate[:, 0].to_numpy() * 0.02 / 8000.0)
    assert packets.tolist() == [10.0 if k % 5 == 0 else 0.0 for k in range(50)]


def test_a_bulk_follows_the_limited_phase():
    run = ecc.packet.simulate(scenario(Bulk("1 Mb/s", until="1 s"), duration=2.5), sample=0.1)
    goodput = run.goodput[:, 0]
    assert float(goodput.sel(time=slice(0.3, 0.95)).mean()) == pytest.approx(1e6, rel=0.05)
    assert float(goodput.sel(time=slice(1.5, 2.5)).mean()) > 15e6


def test_flows_and_seeds_draw_their_own_writes():
    bursts = Bursts("8 Mb/s", mean_on="50 ms", mean_off="150 ms")
    run = ecc.packet.simulate(scenario(bursts, bursts))
    assert (run.rate[:, 0] != run.rate[:, 1]).any()
    members = ecc.packet.ensemble(scenario(bursts), seeds=[1, 2], series=["goodput"], sample=0.1)
    for seed in (1, 2):
        single = ecc.packet.simulate(scenario(bursts, seed=seed), sample=0.1)
        assert (members["goodput"].sel(seed=seed).to_numpy().ravel() == single.goodput.to_numpy().ravel()).all()


def test_an_application_without_writes_sends_nothing():
    run = ecc.packet.simulate(scenario(ecc.applications.Application(), Bursts("1 Mb/s", 0.1, 0.1), duration=1.0))
    assert run.flows["delivered"][0] == 0.0 and run.flows["delivered"][1] > 0.0
    assert len(Bursts("1 Mb/s", 0.1, 0.1).writes(0.0, 0)[0]) == 0


def test_toml_round_trip():
    before = scenario(*ALL, ("3 kB", "10 ms"), "1 Mb/s", None)
    text = before.to_toml()
    assert 'name = "Media"' in text
    assert [flow.writes for flow in Scenario.from_toml(text).network.flows] == [f.writes for f in before.network.flows]


def test_fluid_runs_refuse_applications():
    with pytest.raises(ValueError, match=r"writes must be None except in packet runs, got Media\("):
        ecc.fluid.simulate(scenario(ALL[3]))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Bulk("0 Mb/s", until=1.0), "rate must be > 0 bit/s"),
        (lambda: Bulk("1 Mb/s", until=0.0), "until must be > 0 s"),
        (lambda: Bursts("1 Mb/s", 0.1, 0.1, distribution="normal"), "distribution must be one of 'exponential', "),
        (lambda: Bursts("1 Mb/s", 0.0, 0.1), "mean_on must be > 0 s"),
        (lambda: Responses(0, 0.1), "mean_size must be "),
        (lambda: Media("1 Mb/s", noise=1.0), "noise must be < 1, got 1"),
        (lambda: Media("1 Mb/s", key_factor=0.5), "key_factor must be >= 1"),
        (lambda: Flow([0], writes={"name": "Medea"}), "writes must have a name, one of Bulk, .*did you mean Media"),
        (lambda: Flow([0], writes={"rate": 3}), "writes must have a name, one of Bulk, .*, got None"),
        (lambda: Media("1 Mb/s", frames=1e6).writes(1e4, 0), "writes must be at most 10000000 in a run, got 1e"),
    ],
)
def test_bad_values_get_one_line(build, message):
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", [None, -1, 1.5, [1, -2], "a"], ids=str)
def test_a_seed_is_one_integer_or_several(seed):
    with pytest.raises((TypeError, ValueError), match="^seed must be an integer >= 0 or a sequence of these, got "):
        ALL[1].writes(1.0, seed)
    assert ALL[1].writes(1.0, [1, 2])[0][0] == 0.0
