"""Runs do not depend on labels, idle flows, unused links, units, or a link that is split, for all protocols."""

from dataclasses import replace

import numpy as np
import pytest
from metamorphic_cases import (
    CONSTANTS,
    DISCIPLINES,
    EXCEPTIONS,
    LAST_BITS,
    NO_FLUID,
    PROTOCOLS,
    TRANSFORMATIONS,
    random_by_number,
    scenario,
)

from ecc import Flow, Link, Network, Scenario, fluid, models, packet, queues, testing

ENGINES = {"fluid": fluid.simulate, "packet": packet.simulate}
QUICK = ("DRR", "FAST", "JetMax", "NewReno", "PI2", "RCP", "XCP")
COMPARED = ("rate", "goodput", "queue", "arrival", "drops")

cases = pytest.mark.parametrize(
    "engine, name",
    [
        pytest.param(engine, name, marks=[] if name in QUICK else pytest.mark.slow)
        for engine in ENGINES
        for name in (*PROTOCOLS, *DISCIPLINES)
        if engine == "packet" or name not in NO_FLUID
    ],
)


def results(engine, transformed):
    period = round((transformed.scenario.duration - transformed.later) / 20.0, 12)
    return transformed.restored(ENGINES[engine](transformed.scenario, sample=period))


def unchanged(original):
    return testing.Transformed(original, tuple(range(original.network.n_flows)), tuple(range(original.network.n_links)))


def deviation(run, other):
    """Return the largest difference of rates, queues and drops, as a share of the largest value of the series."""
    found = 0.0
    for name in COMPARED:
        expected, values = run[name].to_numpy(), other[name].to_numpy()
        found = max(found, float(np.abs(values - expected).max() / max(expected.max(), 1e-9)))
    return found


def scale_constants(monkeypatch, name, transformed):
    """Scale the constants that the specification of a protocol fixes."""
    for constant in CONSTANTS.get(name, []):
        value = getattr(constant.owner, constant.name)
        scaled = value * constant.dimension.factor(transformed.size, transformed.time)
        monkeypatch.setattr(constant.owner, constant.name, type(value)(scaled))


@pytest.mark.slow
@cases
def test_results_are_the_same_to_the_last_bit(engine, name, monkeypatch):
    original = scenario(name)
    expected = results(engine, unchanged(original))
    for transformation, transform in TRANSFORMATIONS.items():
        if (engine, transformation) == ("fluid", "links in series"):
            continue  # below
        if random_by_number(engine, transformation, original):
            continue  # streams of random numbers have the numbers of flows and links; the cases "at the end" keep them
        transformed = transform(original)
        with monkeypatch.context() as patched:
            scale_constants(patched, name, transformed)
            other = results(engine, transformed)
        difference = deviation(expected, other)
        reason = EXCEPTIONS.get((engine, transformation), {}).get(name)
        tolerance = LAST_BITS.get((engine, transformation, name), 0.0)
        if reason is None:
            assert difference <= tolerance, f"{transformation} change results of {name}"
        else:
            assert difference > 0.0, f"{transformation} change nothing for {name}: no exception is needed for {reason}"


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in (*PROTOCOLS, *DISCIPLINES)
        if name not in NO_FLUID
    ],
)
def test_two_links_in_series_change_fluids_less_than_a_slightly_different_delay(name):
    original = scenario(name)
    network = original.network
    shift = 2e-3 * float(network.rtts.min())
    expected = results("fluid", unchanged(original))
    yardstick = 0.0
    for delay in (network.links[0].delay - shift, network.links[0].delay + shift):
        links = [replace(network.links[0], delay=delay), *network.links[1:]]
        control = unchanged(original.with_(network=replace(network, links=links)))
        yardstick = max(yardstick, deviation(expected, results("fluid", control)))
    difference = deviation(expected, results("fluid", TRANSFORMATIONS["links in series"](original)))
    reason = EXCEPTIONS["fluid", "links in series"].get(name)
    if reason is None:
        assert difference <= yardstick, f"links in series change results of {name}"
    else:
        assert difference > 0.0, f"links in series change nothing for {name}: no exception is needed for {reason}"


@pytest.mark.parametrize(
    "name",
    [
        name if name in (*QUICK, "CoDel", "Policer", "Swift") else pytest.param(name, marks=pytest.mark.slow)
        for name in (*PROTOCOLS, *DISCIPLINES)
    ],
)
def test_packets_do_not_depend_on_when_flows_start(name):
    original = scenario(name)
    network, shift = original.network, 0.0061 * original.duration  # so that no packet is sent as a sample ends
    flows = [replace(flow, start=round(flow.start + shift, 12)) for flow in network.flows]
    early = original.with_(network=replace(network, flows=flows))
    late = testing.start_later(early, 1.2 * early.duration)
    difference = deviation(results("packet", unchanged(early)), results("packet", late))
    reason = EXCEPTIONS["packet", "later starts"].get(name)
    if reason is None:
        assert difference == 0.0, f"later starts change results of {name}"
    else:
        assert difference > 0.0, f"later starts change nothing for {name}: no exception is needed for {reason}"


def test_exceptions_name_cases():
    for (engine, transformation), reasons in EXCEPTIONS.items():
        assert engine in ENGINES and transformation in (*TRANSFORMATIONS, "later starts")
        assert set(reasons) <= {*PROTOCOLS, *DISCIPLINES}
    assert set(CONSTANTS) <= set(PROTOCOLS)


def test_tokens_that_just_suffice_do_so_at_any_time():
    links = {"flows": models.ConstantRate("5 Mb/s"), "links": queues.Policer(rate="3 Mb/s", burst=2000)}
    network = Network([Link("10 Mb/s", "5 ms")], [Flow([0], start=0.0003, packet_size=500)])
    early = Scenario(network, links, 1.0, phase_jitter=False)
    late = testing.start_later(early, 2.0)
    assert deviation(results("packet", unchanged(early)), results("packet", late)) == 0.0
