"""A protocol of hooks alone: packets run it; what needs its laws or its equilibrium says so; no note costs a run."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any

import numpy as np
import pytest

import ecc
import ecc.fluid
import ecc.packet
from ecc._support.quantity import as_time
from ecc.errors import LinearizationError
from ecc.models import Protocol
from ecc.scenario import protocol_class

NETWORK = ecc.Network.dumbbell("10 Mb/s", rtts=["20 ms", "20 ms"], buffer="100 kB")


def begin(flow, header, p, env):
    env.window = p.packets * env.packet_size


def count(flow, header, p, env):
    flow.acks += 1


@dataclass(frozen=True)
class Constant(Protocol):
    """A window that stays; what it is called does not concern its hooks."""

    packets: float = 8.0
    words: str = "constant"
    FlowState = make_dataclass("FlowState", [("acks", int, 0)])

    def link_hooks(self):
        return {}

    def flow_hooks(self):
        return {"on_start": begin, "on_ack": count}


class Unfinished(Constant):
    def equilibrium(self, network, assignment=None):
        raise NotImplementedError


class Nothing(Constant):
    def equilibrium(self, network, assignment=None):
        return None


class Broken(Constant):
    @property
    def equilibrium_is_static(self):
        raise KeyError("equilibrium_is_static")


def test_hooks_are_all_that_packets_need():
    assert Constant().params() == {"packets": 8.0} and Constant().rate_range(1e6) == (0.0, 1e6)
    run = ecc.packet.simulate(ecc.Scenario(NETWORK, Constant(), 8.0))
    assert run.is_complete and run.notes == ()
    assert run.rate[-1].to_numpy() == pytest.approx([8.0 * 8000.0 / 0.02] * 2, rel=0.02)  # 8 packets an RTT


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        (Unfinished(), "of Unfinished: NotImplementedError"),
        (Nothing(), "of Nothing: TypeError: equilibrium of Nothing must return an Equilibrium, got None"),
        (Broken(), "of Broken: KeyError: 'equilibrium_is_static'"),
    ],
)
def test_a_note_that_cannot_be_made_does_not_lose_the_run(protocol, said):
    run = ecc.packet.simulate(ecc.Scenario(NETWORK, protocol, 8.0))
    assert run.is_complete and len(run.rate) > 10
    assert run.notes == (f"how the run ended could not be compared with the equilibrium {said}",)


def test_what_needs_an_equilibrium_or_laws_says_that_there_are_none():
    with pytest.raises(LinearizationError, match="^Constant has no equilibrium: it does not define equilibrium$"):
        Constant().equilibrium(NETWORK)
    case = ecc.Scenario(NETWORK, Constant(), 1.0)
    with pytest.raises(LinearizationError, match="^Constant has no equilibrium: it does not define equilibrium$"):
        ecc.packet.simulate(case, start="equilibrium")
    with pytest.raises(ValueError, match="^Constant has no fluid model: it has no router_law and no source_law$"):
        ecc.fluid.simulate(case)
    with pytest.raises(ValueError, match="^Constant has no linear model: it has no router_law and no source_law$"):
        ecc.linearize(Constant(), NETWORK)
    with pytest.raises(ValueError, match="^Protocol has no packet runs: it does not define link_hooks and flow_hooks$"):
        ecc.packet.simulate(ecc.Scenario(NETWORK, protocol_class("ecc.models:Protocol")(), 1.0))


def test_text_for_a_number_is_refused_by_the_name_of_its_field():
    table = ecc.Scenario(NETWORK, ecc.models.RCP(), 1.0).to_dict() | {
        "protocol": {"name": f"{__name__}:Constant", "packets": "60 kB"}
    }
    with pytest.raises(
        TypeError, match=r"^packets must be a number, got '60 kB': a class reads units with check_number"
    ):
        ecc.Scenario.from_dict(table)
    with pytest.raises(TypeError, match="^packets must be a number, got True$"):
        Constant(packets=True)

    @dataclass(frozen=True)
    class Own(Constant):
        wait: float = 0.0
        room: float = 0.0

        def __post_init__(self) -> None:
            object.__setattr__(self, "wait", as_time(self.wait, "wait"))

    assert Own(wait="20 ms").wait == 0.02
    with pytest.raises(TypeError, match="^room must be a number, got '60 kB': a class reads units with check_number$"):
        Own(room="60 kB")
    assert Constant(packets=np.int64(4)).params() == {"packets": 4.0} and Constant(words="other").words == "other"


def test_a_parameter_that_cannot_be_kept_is_refused_before_the_run():
    told = "^protocol.words must be a value that TOML can hold, got <object object at"
    with pytest.raises(TypeError, match=told):
        ecc.packet.Run(ecc.Scenario(NETWORK, Constant(words=object()), 1.0))

    @dataclass(frozen=True)
    class Named(ecc.models.RCP):
        words: Any = ""

    seen = []
    with pytest.raises(TypeError, match=told):
        ecc.fluid.simulate(ecc.Scenario(NETWORK, Named(words=object()), 1.0), progress=seen.append)
    assert seen == []
