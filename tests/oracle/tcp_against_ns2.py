"""The TCPs here and in ns-2, on the same links: `python tests/oracle/tcp_against_ns2.py [CASE ...] [--seeds N]`.

With `--windows` their windows are compared: means and quantiles over time.

Flows over one drop-tail link of 100 Mb/s with an RTT of 100 ms and a buffer of one bandwidth-delay product start at
random within the first second; single flows lose packets at random on the wire; others have half that buffer, RTOs from
0.2 s on, an RTT of 1 s, delayed ACKs, which count here too, and not their bytes (L = 0). The numbers are means over
seeds, taken once the first losses are over. ns-2 is set to the RFCs where its defaults differ: RTOs of a second at
least, from every ACK and no longer backed off once one has measured the RTT again (RFC 6298, with the timestamps of RFC
7323), the window after fast recovery (RFC 6582 sec. 3.2, step 3, option 1). Senders of neither wait at
random (`overhead_`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from typing import Any

import ns2
import numpy as np

import ecc
from ecc.laws.elementary import exp, log
from ecc.models import BIC, CUBIC, Compound, NewReno, Vegas, bic, compound, cubic
from ecc.models.shared import windows as windows_part
from ecc.network.impairments import RandomLoss
from ecc.network.network import Network

CAPACITY, RTT, PACKET = 1e8, 0.1, 1500  # bit/s, s, bytes
PERIOD, LOOK = 0.5, 0.01  # s, over which rates are averaged; s, between looks at queues
_STEP = 0.05  # s, between looks at windows
SPANS = {1: (200.0, 1000.0), 2: (150.0, 500.0), 10: (60.0, 200.0), 50: (30.0, 120.0)}  # s: from when to when, by flows
LOSSY_SPAN = (20.0, 320.0)
LOSSES = (0.001, 0.01, 0.02, 0.03, 0.04, 0.05)


FAR = 1e300  # bytes, a window that is never reached; s


class CUBIC2007(CUBIC):
    """CUBIC as Linux 2.6.22 has it, older than RFC 9438, in two points.

    The window that Reno would have never grows by a packet an RTT, as it does since RFC 9438 once it is that of the
    last loss; and the first ACK after a recovery adds a packet, as at a window equal to ssthresh Linux is still in slow
    start.
    """

    def flow_hooks(self) -> dict[str, Any]:
        return super().flow_hooks() | {"on_ack": on_ack_2007}


def on_ack_2007(flow: Any, header: Any, p: Any, env: Any) -> None:
    """Open the window."""
    flow.W_prior = FAR
    if env.recovered > 0:
        env.window += env.packet_size
    cubic.flow_on_ack(flow, header, p, env)


@dataclass
class Compound2006State(compound.FlowState):
    """A host's state for one flow; parts of the window in packets."""

    loss: float = 0.0
    count: float = 0.0  # ACKs since the loss part gained a packet
    begin: float = 0.0  # what had been ACKed or was in flight when what `mark` ends began [bytes]
    least: float = FAR  # RTT in this one [s]
    rtts_seen: int = 0  # in this one
    acks: float = 0.0  # every other one, in recovery


class Compound2006(Compound):
    """Compound as Linux 2.6.16 had it in a module of 2006, in whole packets.

    The delay part gains what `compound.gained` says rounded down, also in slow start and below `low_window`, at once
    and by the least RTT of the last one. A loss leaves it as it was if half of the window has room for it, and nothing
    of it otherwise. The loss part has the rest, and is in slow start until it alone is above ssthresh, so that it wins
    back within some RTTs what the delay part was. The first gain after a recovery is that of all that was sent in it
    and in the RTT before. In recovery windows come down by a packet every other ACK, as those of `BIC(form="linux")`.
    """

    FlowState = Compound2006State

    def flow_hooks(self) -> dict[str, Any]:
        return {"on_start": on_start_2006, "on_ack": on_ack_2006, "on_loss": on_loss_2006}


def on_start_2006(flow: Any, header: Any, p: Any, env: Any) -> None:
    """Open with the initial window."""
    windows_part.flow_on_start(flow, header, p, env)
    flow.loss = env.window / env.packet_size


def on_ack_2006(flow: Any, header: Any, p: Any, env: Any) -> None:
    """Open both parts."""
    flow.base = min(flow.base, env.rtt)
    flow.least = min(flow.least, env.rtt)
    flow.rtts_seen += 1
    flow.acked += env.acked
    if env.recovering + env.recovered > 0:
        bic.rate_halving(flow, 1.0 * env.packet_size, env)
    if env.recovered > 0:
        flow.mark = flow.acked + env.in_flight
        flow.rtts_seen = 0
        flow.least = FAR
    if windows_part.opens(flow, env):
        s = 1.0 * env.packet_size
        W = env.window // s
        if flow.loss + flow.delay > W:
            if flow.loss > W or flow.delay > W:
                flow.delay = 0.0
            flow.loss = W - flow.delay
        if flow.loss <= flow.ssthresh // s:
            flow.loss += 1.0
        else:
            flow.count += 1.0
            if flow.count >= W:
                flow.loss += 1.0
                flow.count = 0.0
        if flow.acked > flow.mark:
            decide_2006(flow, s, p, env)
        env.window = (flow.loss + flow.delay) * s


def decide_2006(flow: Any, s: float, p: Any, env: Any) -> None:
    """Move the delay part, an RTT later."""
    W = (flow.mark - flow.begin) // s
    if flow.rtts_seen > 2 and W >= 1.0:
        excess = W * (flow.least - flow.base) / flow.least
        if excess < p.gamma:
            flow.delay += max((p.alpha * exp(p.k * log(W)) + 1e-9) // 1.0 - 1.0, 0.0)
        else:
            flow.delay = max((flow.delay - p.zeta * excess) // 1.0, 0.0)
    flow.rtts_seen = 0
    flow.least = FAR
    flow.begin = flow.mark
    flow.mark = flow.acked + env.in_flight


def on_loss_2006(flow: Any, header: Any, p: Any, env: Any) -> None:
    """Half of the window, once the recovery is over."""
    if env.kind == 0:
        W = env.window
        windows_part.cut(flow, 0.5 * W // env.packet_size * env.packet_size, env)
        env.window = W
    else:
        windows_part.time_out(flow, 0.5 * env.window, env)


PEERS: dict[str, tuple[Callable[[], Any], ns2.Agents]] = {
    "NewReno": (lambda: NewReno(initial=2), ns2.NEWRENO),
    "Sack": (lambda: NewReno(transport="sack", initial=2), ns2.SACK),
    "Vegas": (lambda: Vegas(initial=2), ns2.Agents("TCP/Vegas", "TCPSink")),
    "BIC": (
        # as Linux and its agent in ns-2, whatever minrto_ says
        lambda: BIC(form="linux", transport="sack", initial=2, min_rto=0.2),
        ns2.Agents("TCP/Linux", "TCPSink/Sack1", set_up="$tcp select_ca bic; $sink set ts_echo_rfc1323_ true"),
    ),
    "CUBIC": (
        lambda: CUBIC2007(transport="sack", beta=819 / 1024, initial=2, min_rto=0.2),
        ns2.Agents("TCP/Linux", "TCPSink/Sack1", set_up="$tcp select_ca cubic; $sink set ts_echo_rfc1323_ true"),
    ),
    "Compound": (
        lambda: Compound2006(transport="sack", initial=2, min_rto=0.2),
        ns2.Agents(  # without timestamps it is given no RTTs, and is Reno
            "TCP/Linux",
            "TCPSink/Sack1",
            options=(("Agent/TCP", "timestamps_", 1),),
            set_up="$tcp select_ca compound; $sink set ts_echo_rfc1323_ true",
        ),
    ),
}


@dataclass(frozen=True)
class Case:
    """Flows of a protocol on the link, the share that it loses at random, and what is different from the others.

    `buffer` in bandwidth-delay products; `min_rto` [s], None: 1 s, or what the protocol has; `over`: from when to when.
    `delayed`: an ACK for two packets, or after 100 ms, ns-2's default.
    """

    protocol: str
    flows: int
    loss: float = 0.0
    buffer: float = 1.0
    min_rto: float | None = None
    capacity: float = CAPACITY
    rtt: float = RTT
    over: tuple[float, float] | None = None
    delayed: bool = False

    @property
    def span(self) -> tuple[float, float]:
        return self.over or (LOSSY_SPAN if self.loss > 0.0 else SPANS[self.flows])

    def network(self, seed: int) -> Network:
        """Return the link with flows that start at random.

        Parameters
        ----------
        seed : int
        """
        starts = np.random.default_rng(seed).random(self.flows)
        packets = int(self.buffer * self.capacity * self.rtt / 8.0) // PACKET
        network = Network.dumbbell(
            self.capacity, [self.rtt] * self.flows, packets * PACKET, packet_size=PACKET, starts=list(starts)
        )
        delayed = (2, 0.1) if self.delayed else None
        return network.with_flows([replace(flow, delayed_acks=delayed) for flow in network.flows])


CASES = {
    **{f"{name} {flows}": Case(name, flows) for name in PEERS for flows in SPANS},
    **{f"{name} {loss:.1%}": Case(name, 1, loss) for name in PEERS for loss in LOSSES},
    **{
        f"{name} {flows} half": Case(name, flows, buffer=0.5, min_rto=0.2, over=(0.0, 600.0))
        for name in ("NewReno", "Sack")
        for flows in (1, 2)
    },
    **{f"{name} 1 RTO": Case(name, 1, min_rto=0.2, over=(0.0, 600.0)) for name in ("NewReno", "Sack")},
    **{f"{name} 1 long": Case(name, 1, capacity=1e7, rtt=1.0, over=(50.0, 600.0)) for name in ("NewReno", "Sack")},
    **{f"{name} 2 delayed": Case(name, 2, delayed=True) for name in ("NewReno", "Sack")},
}


_SMALL = {"capacity": 2e7, "rtt": 0.05, "over": (20.0, 140.0)}
WINDOWS = {
    **{
        f"{name} {flows}": Case(name, flows, **_SMALL)
        for name in ("NewReno", "Sack", "CUBIC", "Compound")
        for flows in (1, 2, 4)
    },
    **{f"{name} {loss:.1%}": Case(name, 1, loss, **_SMALL) for name in ("CUBIC", "Compound") for loss in LOSSES[:2]},
}
"""Cases whose windows are compared, on a link of 20 Mb/s and 50 ms."""
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Outcome:
    """`utilization` of the link, mean `queue` [bytes], `loss` in the queue, `goodput` of all flows [bit/s]."""

    utilization: float
    queue: float
    loss: float
    goodput: float


def here(case: Case, seed: int) -> Outcome:
    """Return the outcome of the packet engine.

    Parameters
    ----------
    case : Case
    seed : int
    """
    impairments = [RandomLoss(case.loss, link=0)] if case.loss > 0.0 else []
    protocol = PEERS[case.protocol][0]()
    protocol = protocol if case.min_rto is None else replace(protocol, min_rto=case.min_rto)
    protocol = replace(protocol, L=0.0) if case.delayed else protocol
    scenario = ecc.Scenario(case.network(seed), protocol, case.span[1], impairments=impairments, seed=seed)
    run = ecc.packet.simulate(scenario, sample=LOOK)
    goodput, arrival, queue, drops = (
        x.to_numpy().reshape(-1, round(PERIOD / LOOK), x.shape[1])
        for x in (run.goodput, run.arrival, run.queue, run.drops)
    )
    return _outcome(case, goodput.mean(axis=1), arrival.mean(axis=1), queue.mean(axis=1), drops.sum(axis=1))


def in_ns2(case: Case, seed: int) -> Outcome:
    """Return the outcome of ns-2.

    Parameters
    ----------
    case : Case
    seed : int
    """
    agents = PEERS[case.protocol][1]
    agents = replace(agents, receiver=f"{agents.receiver}/DelAck") if case.delayed else agents
    seen = ns2.run(
        case.network(seed),
        case.span[1],
        PERIOD,
        LOOK,
        seed=seed,
        tick=0.001,
        rto=case.min_rto or 1.0,
        window=10_000,
        agents=agents,
        loss=case.loss,
    )
    return _outcome(case, seen.goodput, seen.arrival, seen.queue, seen.drops)


def _outcome(case: Case, goodput: Any, arrival: Any, queue: Any, drops: Any) -> Outcome:
    settled = slice(round(case.span[0] / PERIOD), None)
    arrived = arrival[settled, 0].mean() * PERIOD
    dropped = 8.0 * PACKET * drops[settled, 0].mean()
    return Outcome(
        utilization=float((arrived - dropped) / (case.capacity * PERIOD)),
        queue=float(queue[settled, 0].mean()),
        loss=float(dropped / arrived),
        goodput=float(goodput[settled].sum(axis=1).mean()),
    )


def mean(outcomes: list[Outcome]) -> Outcome:
    """Return the mean over seeds.

    Parameters
    ----------
    outcomes : list of Outcome
        Of the same case.
    """
    return Outcome(*np.mean([astuple(one) for one in outcomes], axis=0).tolist())


def compared(name: str, seeds: int) -> tuple[Outcome, Outcome]:
    """Return the mean outcome in ns-2 and here; one flow alone without random loss is the same from any start.

    Parameters
    ----------
    name : str
        A key of CASES.
    seeds : int
        Number of runs.
    """
    case = CASES[name]
    alone = case.flows == 1 and case.loss == 0.0
    theirs, ours = (mean([run(case, seed) for seed in range(1, 2 if alone else seeds + 1)]) for run in (in_ns2, here))
    return theirs, ours


def windows(name: str, seeds: int) -> tuple[Any, Any]:
    """Return goodput [Mb/s], mean window and quantiles of it [packets] in ns-2 and here, means over seeds.

    Parameters
    ----------
    name : str
        A key of WINDOWS.
    seeds : int
        Number of runs.
    """
    case = WINDOWS[name]
    protocol, agents = PEERS[case.protocol][0](), PEERS[case.protocol][1]
    losses = [RandomLoss(case.loss, link=0)] if case.loss > 0.0 else []
    late = slice(round(case.span[0] / _STEP), None)

    def summary(goodput: Any, window: Any) -> list[float]:
        seen = window[late] / PACKET
        rate = float(goodput[late].sum(axis=1).mean()) / 1e6
        return [rate, float(seen.mean()), *(float(np.quantile(seen, share)) for share in SHARES)]

    both: tuple[list[Any], list[Any]] = ([], [])
    for seed in range(1, seeds + 1):
        network = case.network(seed)
        theirs = ns2.run(
            network,
            case.span[1],
            _STEP,
            LOOK,
            seed=seed,
            tick=0.001,
            rto=1.0,
            window=10_000,
            agents=agents,
            loss=case.loss,
        )
        scenario = ecc.Scenario(network, protocol, case.span[1], impairments=losses, seed=seed)
        ours = ecc.packet.simulate(scenario, sample=_STEP, record=["env.window"])
        both[0].append(summary(theirs.goodput, theirs.window))
        both[1].append(summary(ours.goodput.to_numpy(), ours.data["env.window"].to_numpy()))
    return np.mean(both[0], axis=0), np.mean(both[1], axis=0)


def print_windows(names: list[str], seeds: int) -> None:
    """Print a row a case: ns-2 / here.

    Parameters
    ----------
    names : list of str
        Keys of WINDOWS; none: all.
    seeds : int
    """
    print(f"| case | goodput [Mb/s] | mean window | {' | '.join(f'{share:.0%}' for share in SHARES)} |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names or WINDOWS:
        theirs, ours = windows(name, seeds)
        cells = [
            f"{a:.{2 + (k == 0)}f} / {b:.{2 + (k == 0)}f}" for k, (a, b) in enumerate(zip(theirs, ours, strict=True))
        ]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print a row a case: ns-2 / here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--windows", action="store_true")
    arguments = parser.parse_args()
    if arguments.windows:
        print_windows(arguments.cases, arguments.seeds)
        return
    print("| case | utilization | mean queue [kB] | loss | goodput [Mb/s] |\n|---|---|---|---|---|")
    for name in arguments.cases or CASES:
        theirs, ours = compared(name, arguments.seeds)
        print(
            f"| {name} | {theirs.utilization:.4f} / {ours.utilization:.4f} | "
            f"{theirs.queue / 1e3:.1f} / {ours.queue / 1e3:.1f} | {theirs.loss:.3e} / {ours.loss:.3e} | "
            f"{theirs.goodput / 1e6:.3f} / {ours.goodput / 1e6:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
