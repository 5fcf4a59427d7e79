"""`protocol.loop` agrees with the engines: they run what it offers, and refuse what it rules out."""

from dataclasses import dataclass
from typing import Any

import pytest

import ecc
from ecc.contract.forms import SampledPrices
from ecc.contract.kinds import Kind, kind_of
from ecc.contract.states import State
from ecc.models import FAST, JetMax, NewReno, Protocol, all_protocols

PROTOCOLS = all_protocols()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_engines_are_those_that_the_loop_names(name: str) -> None:
    protocol = PROTOCOLS[name]()
    loop = protocol.loop
    capacity, rtt = (sum(values) / 2.0 for values in (protocol.operating_range.capacity, protocol.operating_range.rtt))
    network = ecc.Network.dumbbell(capacity, rtts=[rtt, rtt])
    case = ecc.Scenario(network, protocol, duration=20.0 * rtt)
    if loop.fluid is None:
        assert ecc.fluid.simulate(case).stopped == "completed"
    else:
        with pytest.raises(ValueError, match="has no fluid"):
            ecc.fluid.simulate(case)
    if loop.packet is None:
        assert ecc.packet.simulate(case).stopped == "completed"
    if loop.linear is not None:
        with pytest.raises((ValueError, ecc.LinearizationError)):
            ecc.linearize(protocol, network)
    for time in loop.times:
        clocking = "rate" if name == "ABC" else None  # the ACK-clocked model needs a queue at the equilibrium
        assert ecc.linearize(protocol, network, time=time, clocking=clocking) is not None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("RCP", Kind.EXPLICIT_FEEDBACK),
        ("EMKC", Kind.SAMPLED_PRICES),
        ("JetMax", Kind.STEPPED_RATES),
        ("XCP", Kind.GRANTED_WINDOWS),
        ("NewReno", Kind.ACK_CLOCKED_WINDOWS),
        ("CUBIC", Kind.WINDOWS_WITH_STATES),
        ("ABC", Kind.WINDOWS_WITH_STATES),
        ("PowerTCP", Kind.PACED_WINDOWS),
        ("DCQCN", Kind.HOST_RATES),
        ("BBR", Kind.STATE_MACHINE),
        ("ExpressPass", Kind.ROUND_MAP),
        ("C4", Kind.PACKETS_ONLY),
    ],
)
def test_kinds(name: str, kind: Kind) -> None:
    assert kind_of(PROTOCOLS[name]()) is kind


def test_a_queue_discipline_is_half_of_a_loop() -> None:
    loop = ecc.queues.PIE().loop
    assert loop.kind is Kind.QUEUE_DISCIPLINE and "half of a loop" in str(loop.fluid)


def test_the_loop_is_shown_with_reasons() -> None:
    text = repr(NewReno().loop)
    assert "ACK-clocked windows" in text and "no: NewReno has no equilibrium" in text


def test_a_custom_protocol_has_a_loop_with_reasons() -> None:
    @dataclass(frozen=True)
    class Halves(Protocol):
        @staticmethod
        def source_law(x: float, R: float) -> float:
            return 0.5 * (x + R)

    loop = Halves().loop
    assert loop.kind is Kind.EXPLICIT_FEEDBACK
    assert loop.packet == "it does not define link_hooks and flow_hooks"
    assert loop.fluid == "it does not define router_law"


def test_missing_hooks_and_a_missing_equilibrium_are_reasons() -> None:
    @dataclass(frozen=True)
    class Partial(Protocol):
        interval: float = 0.01

        @staticmethod
        def router_law(y: float, C: float) -> float:
            return C - y

        @staticmethod
        def source_law(R: float) -> float:
            return R

        def link_hooks(self) -> dict[str, Any]:
            return {}

    loop = Partial().loop
    assert loop.packet == "it does not define flow_hooks"
    assert loop.fluid is None
    assert loop.linear == "it does not define equilibrium" and loop.times == ()


def test_a_form_of_no_kind_is_refused_with_the_list_of_forms() -> None:
    @dataclass(frozen=True)
    class Formless(Protocol):
        fluid_form: Any = "windows"

        @staticmethod
        def source_law(x: float, R: float) -> float:
            return R

    with pytest.raises(TypeError, match="must be SampledPrices, SteppedRates, GrantedWindows, StateMachine or None"):
        _ = Formless().loop


def test_a_class_that_fits_two_kinds_is_refused_with_the_list_of_kinds() -> None:
    @dataclass(frozen=True)
    class Both(FAST):
        fluid_form: Any = SampledPrices()

    message = f"Both must fit one kind of closed loop, and it fits sampled prices and {kind_of(FAST())}; the kinds are "
    with pytest.raises(ValueError, match=message) as refusal:
        _ = Both().loop
    assert str(refusal.value).endswith(", ".join(Kind))
    network = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05])
    with pytest.raises(ValueError, match=message):
        ecc.fluid.simulate(ecc.Scenario(network, Both(), 1.0))
    with pytest.raises(ValueError, match=message):
        ecc.linearize(Both(), network)


@pytest.mark.parametrize("changes", [{"states": {}}, {"source_clock": "interval"}])
def test_stepped_rates_with_states_or_a_continuous_clock_are_two_kinds(changes: dict[str, Any]) -> None:
    assert kind_of(type("Stepped", (JetMax,), changes)()) is Kind.STEPPED_RATES
    other = {"states": {"v": State(lambda v: v, "update", 1.0)}, "source_clock": "continuous"}
    kind = type("Stepped", (JetMax,), {name: other[name] for name in changes})
    with pytest.raises(ValueError, match="it fits stepped rates and host rates"):
        kind_of(kind())


def test_a_class_that_fits_no_kind_is_refused_with_the_list_of_kinds() -> None:
    @dataclass(frozen=True)
    class Empty(Protocol):
        pass

    with pytest.raises(ValueError, match="it fits none, without a source_law and without hooks; the kinds are"):
        _ = Empty().loop
