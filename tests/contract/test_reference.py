"""The reference loop of each protocol: a network on which its equilibrium, cycle or set of equilibria is examined."""

import pytest

from ecc import queues
from ecc.contract.reference import ReferenceLoop
from ecc.models import all_protocols

PROTOCOLS = all_protocols()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_has_a_reference_loop_with_its_source(name):
    loop = PROTOCOLS[name]().reference_loop
    assert isinstance(loop, ReferenceLoop)
    network = loop.network()
    assert network.capacities.tolist() == [loop.capacity]
    assert network.rtts.tolist() == pytest.approx(list(loop.rtts))
    assert {flow.mean_packet for flow in network.flows} == {loop.packet_size}
    assert loop.source
    if loop.discipline:
        getattr(queues, loop.discipline)(packet_size=loop.packet_size, **loop.settings)


@pytest.mark.parametrize("name", [name for name, kind in PROTOCOLS.items() if kind().cycle_loop is not None])
def test_a_cycle_loop_has_a_source_and_a_buffer_a_discipline_or_smaller_packets(name):
    loop = PROTOCOLS[name]().cycle_loop
    assert loop.source
    reference = PROTOCOLS[name]().reference_loop
    assert [loop.buffer is not None, bool(loop.discipline), loop.packet_size < reference.packet_size].count(True) == 1
    assert loop.network().links[0].buffer == loop.buffer


def test_a_reference_loop_follows_the_parameters_of_a_variant():
    from ecc.models import HPCC

    loop = HPCC(line_rate="25 Gb/s", base_rtt="20 us").reference_loop
    assert (loop.capacity, loop.rtts) == (25e9, (20e-6, 20e-6))


def test_a_custom_protocol_has_none_unless_it_declares_one():
    from dataclasses import dataclass

    from ecc.models import Protocol

    @dataclass(frozen=True)
    class Mine(Protocol):
        gain: float = 1.0

    assert Mine().reference_loop is None
    assert Mine().cycle_loop is None
