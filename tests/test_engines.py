"""`ecc.simulate`: one call for all engines."""

import inspect

import pytest

import ecc

NETWORK = ecc.Network.dumbbell("10 Mb/s", rtts=["50 ms"])
SCENARIO = ecc.Scenario(NETWORK, ecc.models.QIRCP(), duration=2.0)


def test_a_run_is_that_of_the_engine():
    for engine, room in (("packet", ecc.packet), ("fluid", ecc.fluid)):
        run = ecc.simulate(SCENARIO, engine, sample=0.5, start="equilibrium", perturbation=0.1)
        expected = room.simulate(SCENARIO, sample=0.5, start="equilibrium", perturbation=0.1)
        assert run.data.drop_attrs().identical(expected.data.drop_attrs())


def test_packets_are_the_default():
    assert ecc.simulate(SCENARIO).stats["digest"] == ecc.packet.simulate(SCENARIO).stats["digest"]


def test_options_of_each_engine_reach_it():
    assert ecc.simulate(SCENARIO, "fluid", time="discrete").data.attrs["time"] == "discrete"
    assert len(ecc.simulate(SCENARIO, "packet", trace=7).trace) == 7
    with pytest.raises(ValueError, match="slow must be > 0 and finite, got 0"):
        ecc.simulate(SCENARIO, "live", slow=0.0)


@pytest.mark.parametrize("engine", ["ns3", "Packet", None, ["packet"]])
def test_an_unknown_engine_is_refused_with_the_choices(engine):
    with pytest.raises(ValueError, match="^engine must be one of 'packet', 'fluid', 'live', got "):
        ecc.simulate(SCENARIO, engine)


def test_an_option_of_another_engine_is_refused_with_the_engine():
    with pytest.raises(TypeError, match="^rtol is an option of engine='fluid', got engine='packet'$"):
        ecc.simulate(SCENARIO, rtol=1e-3)
    with pytest.raises(TypeError, match="^capture is an option of engine='packet' and 'live', got engine='fluid'$"):
        ecc.simulate(SCENARIO, "fluid", capture={})


def test_an_unknown_option_is_refused_with_those_of_the_engine():
    text = r"^engine='fluid' must have options among sample, start, perturbation, .*signals, .*, got 'sampel'$"
    with pytest.raises(TypeError, match=text):
        ecc.simulate(SCENARIO, "fluid", sampel=0.1)


def test_all_engines_take_the_options_that_the_docstring_names():
    for name in ("sample", "start", "perturbation", "record", "progress", "cancel"):
        for room in (ecc.packet, ecc.fluid, ecc.live):
            assert name in inspect.signature(room.simulate).parameters
