"""Loss recovery in the packet engine: which packet is sent when, against what RFC 6582, 6675 and 6298 prescribe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import ecc
from ecc.impairments import RandomLoss
from ecc.models.base import Equilibrium, Hook, Protocol
from ecc.network import Network
from ecc.scenario import Scenario

# A window protocol as small as can be: slow start, additive increase, halving -----------------------------------------


@dataclass
class WindowState:
    ssthresh: float = 1e15
    losses: int = 0
    timeouts: int = 0
    flight: int = 0


def window_on_start(flow: Any, header: Any, p: Any, env: Any) -> None:
    env.window = p.first * env.packet_size


def window_on_ack(flow: Any, header: Any, p: Any, env: Any) -> None:
    if env.recovered == 1:
        env.window = flow.ssthresh
    elif env.recovering == 0 and env.acked > 0:
        size = float(env.packet_size)
        env.window += size if env.window < flow.ssthresh else size * size / env.window


def window_on_loss(flow: Any, header: Any, p: Any, env: Any) -> None:
    flow.flight = env.in_flight
    flow.ssthresh = max(0.5 * env.in_flight, 2.0 * env.packet_size)
    if env.kind == 1:
        flow.timeouts += 1
        env.window = 1.0 * env.packet_size
    else:
        flow.losses += 1
        env.window = flow.ssthresh


@dataclass(frozen=True)
class Window(Protocol):
    transport: str | None = "newreno"
    receiver_window: int = 0
    min_rto: float = 1.0
    rto_granularity: float = 0.0
    first: float = 2.0

    FlowState = WindowState

    def params(self) -> dict[str, float]:
        return {"first": self.first}

    def link_hooks(self) -> dict[str, Hook]:
        return {}

    def flow_hooks(self) -> dict[str, Hook]:
        return {"on_start": window_on_start, "on_ack": window_on_ack, "on_loss": window_on_loss}

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, capacity

    def equilibrium(self, network: Network, assignment: Any = None) -> Equilibrium:
        raise NotImplementedError


BOTH = pytest.mark.parametrize("transport", ["newreno", "sack"])


@BOTH
def test_a_transfer_arrives_whole_through_random_loss(transport: str) -> None:
    net = Network.dumbbell("10 Mb/s", rtts=[0.04], buffer="50 kB", sizes=[1_000_000])
    scenario = Scenario(net, Window(transport), duration=60.0, impairments=[RandomLoss(0.02, link=0)])
    run = ecc.packet.simulate(scenario, sample=1.0)
    flow = run.flows.iloc[0]
    assert flow["delivered"] == 1_000_000 and flow["completion_time"] < 20.0
    assert 0.01 * 1_000_000 < flow["retransmitted"] == flow["lost"] < 0.06 * 1_000_000
    assert run.goodput.sum().item() / 8.0 == pytest.approx(1_000_000)
    assert run.rate.sum().item() / 8.0 == pytest.approx(1_000_000 + flow["retransmitted"])


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(ValueError, match="transport must be one of None, 'newreno', 'sack', got 'tahoe'"):
        ecc.packet.simulate(Scenario(Network.dumbbell("10 Mb/s", rtts=[0.04]), Window("tahoe"), duration=1.0))
