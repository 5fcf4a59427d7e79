"""A subclass that replaces a law changes packet runs too, or is refused; a host with ECN responds to marks."""

from __future__ import annotations

import re

import pytest
from faulty_protocols import (
    DeafToMarks,
    FasterGrowth,
    FromScratch,
    FurtherState,
    Halving,
    HalvingByBytes,
    HalvingByShare,
    StampingAtArrival,
    WithoutSlowStart,
)

import ecc
import ecc.queues
from ecc.contract.entries import LAWS
from ecc.contract.packet_hooks import check_hooks, flow_hooks_of, link_hooks_of
from ecc.contract.protocol import Protocol
from ecc.jit.reach import text_of
from ecc.laws.arguments import law_arguments
from ecc.models import DCTCP, NewReno
from ecc.models.shared.windows import EndToEndProtocol
from ecc.packet.prepare import prepare
from ecc.queues import PI2, StepMarking

LINK = ecc.Network.dumbbell("20 Mb/s", rtts=["10 ms", "20 ms"], packet_size=1250)
MARKING = StepMarking(threshold=10)


def instances():
    for module in (ecc.models, ecc.queues):
        for name in module.__all__:
            kind = getattr(module, name)
            if isinstance(kind, type) and issubclass(kind, Protocol) and kind.has_packet_hooks():
                yield kind("1 Mb/s") if name == "ConstantRate" else kind()


PROTOCOLS = {type(protocol).__name__: protocol for protocol in instances()}


def scaled(law):
    """A law of the same arguments with 0.9 of the value."""
    scope = {"law": law, "__name__": __name__}
    arguments = ", ".join(law_arguments(law))
    exec(f"def changed({arguments}):\n    return 0.9 * law({arguments})\n", scope)
    return scope["changed"]


def texts(protocol):
    flows = flow_hooks_of(protocol) if type(protocol).flow_hooks is not Protocol.flow_hooks else {}
    return {name: text_of(hook, {}) for name, hook in (link_hooks_of(protocol) | flows).items()}


def derived(protocol, **entries):
    """The same parameters in a subclass with other entries."""
    kind = type("Changed", (type(protocol),), entries)
    return kind("1 Mb/s") if type(protocol).__name__ == "ConstantRate" else kind()


def assert_changed_or_refused(protocol, changed, entry):
    try:
        check_hooks(changed)
    except ValueError as error:
        assert re.match(rf"Changed changes .*{entry}", str(error)), error
    else:
        assert texts(changed) != texts(protocol)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_each_law_that_a_subclass_replaces_changes_its_hooks_or_is_refused(name):
    protocol = PROTOCOLS[name]
    check_hooks(protocol)
    for law in LAWS:
        original = getattr(protocol, law, None)
        if original is None:
            continue
        assert_changed_or_refused(protocol, derived(protocol, **{law: staticmethod(scaled(original))}), law)
        assert_changed_or_refused(protocol, derived(protocol, **{law: None}), law)


@pytest.mark.parametrize("name", [name for name, protocol in PROTOCOLS.items() if protocol.states])
def test_each_state_that_a_subclass_replaces_changes_its_hooks_or_is_refused(name):
    protocol = PROTOCOLS[name]
    for state, original in protocol.states.items():
        changes = [original._replace(initial=0.25)]
        if original.law is not None:
            changes.append(original._replace(law=scaled(original.law)))
        for signal, jump in original.jumps.items():
            changes.append(original._replace(jumps={**original.jumps, signal: scaled(jump)}))
        for changed in changes:
            states = {**protocol.states, state: changed}
            assert_changed_or_refused(protocol, derived(protocol, states=states), f"state {state}")


@pytest.mark.slow
def test_one_changed_line_of_dctcp_changes_packets_of_both_engines():
    def digest(protocol, engine):
        scenario = ecc.Scenario(LINK, {"flows": protocol, "links": MARKING}, 0.4)
        return ecc.packet.simulate(scenario, sample=0.1, engine=engine).stats["digest"]

    assert digest(Halving(), "c") == digest(Halving(), "python") != digest(DCTCP(), "c")


@pytest.mark.slow
def test_one_changed_line_of_dctcp_halves_the_window_at_each_mark():
    path = ecc.Network.dumbbell("20 Mb/s", rtts=["50 ms"], packet_size=1250)
    run = {
        kind: ecc.packet.simulate(
            ecc.Scenario(path, {"flows": kind(), "links": MARKING}, 30.0), sample=0.01, record=["env.window"]
        )["env.window"][1000:, 0].to_numpy()
        for kind in (DCTCP, Halving)
    }
    falls = {kind: (window[1:] / window[:-1]).min() for kind, window in run.items()}
    assert falls[Halving] == pytest.approx(0.5, abs=0.02) and falls[DCTCP] > 0.6


@pytest.mark.slow
def test_a_law_with_fewer_arguments_is_called_with_those_it_takes():
    three_quarters = derived(NewReno(), loss_response_law=staticmethod(lambda w: 0.75 * w))
    reference = derived(NewReno(), loss_response_law=staticmethod(lambda w, s: 0.75 * w))
    small = ecc.Network.dumbbell("10 Mb/s", rtts=["20 ms"], buffer="20 kB")
    digests = [
        ecc.packet.simulate(ecc.Scenario(small, protocol, 2.0)).stats["digest"]
        for protocol in (three_quarters, reference, NewReno())
    ]
    assert digests[0] == digests[1] != digests[2]


def test_inherited_hooks_next_to_hooks_of_the_subclass_call_the_new_law():
    class Noting(Halving):
        def flow_hooks(self):
            return super().flow_hooks() | {"on_loss": lose}

    class HalvingAndNoting(DCTCP):
        mark_response_law = staticmethod(Halving.mark_response_law)

        def flow_hooks(self):
            return super().flow_hooks() | {"on_loss": lose}

    on_ack = [text_of(flow_hooks_of(kind())["on_ack"], {}) for kind in (Halving, Noting, HalvingAndNoting, DCTCP)]
    assert on_ack[0] == on_ack[1] == on_ack[2] != on_ack[3]


def test_inherited_hooks_that_a_hook_of_the_subclass_calls_call_the_new_law():
    def counting(host):
        class Counting(host):
            def flow_hooks(self):
                hooks = super().flow_hooks()
                inherited = hooks["on_ack"]

                def on_ack(flow, header, p, env):
                    flow.acked += 0.0
                    inherited(flow, header, p, env)

                return hooks | {"on_ack": on_ack}

        return Counting()

    halved, plain = (text_of(flow_hooks_of(counting(host))["on_ack"], {}) for host in (Halving, DCTCP))
    assert halved != plain


def lose(flow, header, p, env):
    env.window = 1.0 * env.packet_size


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            FasterGrowth,
            "FasterGrowth changes source_law, which the packet hooks of DCTCP do not use: define flow_hooks",
        ),
        (HalvingByBytes, "changes mark_response_law to a law that does not scale with w and s: .* multiples of s"),
        (HalvingByShare, "changes mark_response_law to a law of marked, and the packet hooks .* with w, alpha, s"),
        (WithoutSlowStart, "changes slow_start_law, which the packet hooks of NewReno do not use"),
        (FurtherState, "changes the law of state more|changes clock of state more"),
        (
            StampingAtArrival,
            "changes combine, which the packet hooks of PIQIRCP do not use: define link_hooks and flow",
        ),
        (DeafToMarks, r"must have a packet hook that reads env.marked: .*\(ecn_echo = 'accurate'\)"),
    ],
)
def test_what_packets_would_ignore_is_refused(kind, message):
    with pytest.raises(ValueError, match=message):
        prepare(ecc.Scenario(LINK, kind(), 1.0))


def test_a_fluid_run_of_a_law_that_packets_do_not_have_is_possible():
    grown = ecc.fluid.simulate(ecc.Scenario(LINK, {"flows": FasterGrowth(), "links": MARKING}, 2.0))
    assert grown.is_complete


def test_a_subclass_may_add_the_laws_of_hooks_that_have_none():
    class Model(ecc.models.Vivace):
        router_law = staticmethod(lambda loss: loss)

    check_hooks(Model())


def test_a_host_written_as_documented_responds_to_marks():
    """372,066 marks without a response, a queue of 938 kB: the hooks were not completed (fluid: 125 kB)."""
    ten = ecc.Network.dumbbell("100 Mb/s", rtts=["20 ms"] * 10, packet_size=1000)
    protocol = {"flows": FromScratch(ecn=True), "links": PI2(mark=True)}
    scenario = ecc.Scenario(ten, protocol, 12.0)
    packets = ecc.packet.simulate(scenario, sample=0.5)
    fluid = ecc.fluid.simulate(scenario, sample=0.5)
    assert float(packets.queue[10:].mean()) == pytest.approx(float(fluid.queue[10:].mean()), rel=0.25)
    dropping = ecc.packet.simulate(ecc.Scenario(ten, {"flows": FromScratch(), "links": PI2()}, 12.0), sample=0.5)
    assert float(packets.drops.sum()) == 0.0 < float(dropping.drops.sum())


def test_hosts_with_and_without_marks_call_the_hooks_of_the_class():
    assert flow_hooks_of(FromScratch())["on_ack"] is FromScratch().flow_hooks()["on_ack"]
    assert flow_hooks_of(FromScratch(ecn=True))["on_ack"] is not FromScratch().flow_hooks()["on_ack"]

    def on_ack(flow, header, p, env):
        if env.marked > 0:
            env.window = 0.5 * env.window

    class Reading(FromScratch):
        def flow_hooks(self):
            return super().flow_hooks() | {"on_ack": on_ack}

    assert flow_hooks_of(Reading(ecn=True))["on_ack"] is on_ack


def test_all_hosts_with_ecn_respond_to_it():
    for name, protocol in PROTOCOLS.items():
        if isinstance(protocol, EndToEndProtocol):
            marked = type(protocol)(ecn=True)
            check_hooks(marked)
            assert texts(marked) != texts(protocol), name


class PassingOn(FasterGrowth):
    def flow_hooks(self):
        return super().flow_hooks()


def test_hooks_that_are_passed_on_are_inherited_hooks():
    with pytest.raises(ValueError, match="PassingOn changes source_law, which the packet hooks of DCTCP do not use"):
        check_hooks(PassingOn())
