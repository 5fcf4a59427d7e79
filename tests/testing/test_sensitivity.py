"""Runs that are one draw of many say so: those that draw random numbers, and, if asked for, sensitive ones."""

import pytest
from metamorphic_cases import scenario

from ecc import Flow, Link, Network, Scenario, fluid, models, packet, queues, testing
from ecc.network.impairments import RandomLoss

DRAW = "draws random numbers: this trajectory is one draw, and ecc.fluid.ensemble"
NETWORK = Network([Link("10 Mb/s", "5 ms", buffer="60 kB")], [Flow([0], access_delay=0.01)])


@pytest.mark.parametrize(
    "protocol, options, impairments, part",
    [
        ({"flows": models.NewReno(ecn=True), "links": queues.DualPI2()}, {}, (), "DualPI2"),
        ({"flows": models.NewReno(), "links": queues.RED()}, {"signals": "random"}, (), "signals='random'"),
        (models.NewReno(), {}, (RandomLoss(0.01, link=0),), "RandomLoss"),
    ],
)
def test_fluids_that_draw_random_numbers_say_so(protocol, options, impairments, part):
    run = fluid.simulate(Scenario(NETWORK, protocol, 0.5, impairments=impairments), **options)
    assert [note for note in run.notes if note.startswith(f"{part} {DRAW}")]


@pytest.mark.parametrize(
    "protocol", [models.NewReno(), {"flows": models.NewReno(), "links": queues.RED()}, models.RCP()]
)
def test_fluids_that_draw_nothing_say_nothing_of_draws(protocol):
    assert not any(DRAW in note for note in fluid.simulate(Scenario(NETWORK, protocol, 0.5)).notes)


def test_a_sensitive_run_has_a_note():
    run = testing.check_sensitivity(scenario("Vivace"), packet.simulate, sample=0.1)
    assert run.stats["sensitivity"] > 0.01
    assert "the trajectory is sensitive: delays that are longer by a factor of 1.000001 change" in run.notes[-1]


def test_a_run_that_is_not_sensitive_has_none():
    run = testing.check_sensitivity(scenario("NewReno"), fluid.simulate, sample=0.1)
    assert 0.0 < run.stats["sensitivity"] < 0.01
    assert not any("sensitive" in note for note in run.notes)


def test_the_check_needs_delays():
    network = Network([Link("10 Mb/s")], [Flow([0], access_delay=0.01)])
    with pytest.raises(ValueError, match="links must have a delay > 0 s for one of them to be changed, got 0 s"):
        testing.check_sensitivity(Scenario(network, models.NewReno(), 1.0), fluid.simulate)
