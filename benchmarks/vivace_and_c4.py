"""C4 and Vivace with themselves, and beside flows that fill buffers.

    python benchmarks/vivace_and_c4.py [alone | shares [FILE.png] | queues]

prints the tables of docs/vivace_and_c4.md that are not those of claims; the file is its figure, of the shares. `queues`
is of Vivace as the paper has it, with what its queues come from left out in turns.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
from data_centers import row

import ecc
from ecc.models import BBR, C4, CUBIC, NewReno, Protocol, Vivace, monitor_intervals, vivace
from ecc.network.network import Network
from ecc.scenario import Scenario

CAPACITY, RTT, PACKET, DURATION = 50e6, 0.05, 1500, 60.0
HOSTS = {"C4": C4(), "Vivace": Vivace(), "Vivace, pcc-uspace": Vivace(form="pcc-uspace")}
OTHERS = {"CUBIC": CUBIC(transport="sack"), "NewReno": NewReno(transport="sack"), "BBR": BBR()}
BUFFERS = (0.5, 1.0, 2.0, 4.0, 8.0)  # bandwidth-delay products


def run(
    hosts: Protocol | Mapping[str, object], rtts: Sequence[float], products: float, seed: int = 0
) -> tuple[np.ndarray, float, float]:
    """Return goodput over the second half [bit/s], the mean queue there over the buffer, and the share lost."""
    starts = [0.3 * k + 0.02 * seed for k in range(len(rtts))]
    buffer = products * CAPACITY * RTT / 8.0
    network = Network.dumbbell(CAPACITY, list(rtts), packet_size=PACKET, buffer=buffer, starts=starts)
    found = ecc.packet.simulate(Scenario(network, hosts, DURATION, seed=seed), sample=0.1)
    half = len(found.queue) // 2
    lost, delivered = found.flows["lost"].sum(), found.flows["delivered"].sum()
    rates = found.goodput[half:].mean("time").to_numpy()
    return rates, float(found.queue[half:, 0].mean()) / buffer, float(lost / (lost + delivered))


def alone() -> None:
    """Flows of one protocol: Jain's index, use of the link, queue and losses."""
    row("protocol", "flows", "RTTs [ms]", "buffer [BDP]", "Jain", "of the link", "queue/buffer", "lost [%]")
    for name in ("C4", "Vivace, pcc-uspace"):
        for rtts in ((RTT,), (RTT,) * 2, (RTT,) * 5, (RTT,) * 10, (0.02, 0.1)):
            for products in (1.0, 4.0):
                runs = [run(HOSTS[name], rtts, products, seed) for seed in range(3)]
                jain = np.mean([rates.sum() ** 2 / (len(rtts) * (rates**2).sum()) for rates, _, _ in runs])
                used = np.mean([rates.sum() / CAPACITY for rates, _, _ in runs])
                times = f"{1e3 * rtts[0]:g}" if len(set(rtts)) == 1 else ", ".join(f"{1e3 * one:g}" for one in rtts)
                row(
                    name,
                    len(rtts),
                    times,
                    products,
                    round(float(jain), 3),
                    round(float(used), 3),
                    round(float(np.mean([one[1] for one in runs])), 2),
                    round(100.0 * float(np.mean([one[2] for one in runs])), 2),
                )


def share(host: Protocol, other: Protocol, products: float) -> float:
    """Return what two flows have of the link beside two others, a mean of three seeds."""
    found = [run({"flows": {"0-1": host, "default": other}}, (RTT,) * 4, products, seed)[0] for seed in range(3)]
    return float(np.mean([rates[:2].sum() / rates.sum() for rates in found]))


def shares(file: str | None = None) -> None:
    """Two flows beside two others, over the buffer; with a file, as a figure too."""
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.add_hline(y=0.5, line={"color": "gray", "width": 1})
    row("flows", "beside", *(f"{products:g} BDP" for products in BUFFERS))
    for (name, host), color in zip(HOSTS.items(), ("#0072b2", "#d55e00", "#009e73"), strict=True):
        for (beside, other), dash in zip(OTHERS.items(), ("solid", "dot", "dash"), strict=True):
            found = [round(share(host, other, products), 2) for products in BUFFERS]
            row(name, beside, *found)
            line = {"color": color, "dash": dash}
            figure.add_scatter(x=BUFFERS, y=found, mode="lines+markers", line=line, name=f"{name} beside {beside}")
    if file:
        figure.update_xaxes(title="buffer [bandwidth-delay products]", type="log", tickvals=BUFFERS)
        figure.update_yaxes(title="share of two flows beside two others", range=[0.0, 1.0])
        figure.update_layout(template="plotly_white", margin={"l": 60, "r": 20, "t": 20, "b": 60})
        figure.write_image(file, width=900, height=480, scale=2)


def decides_each_least_rtt(flow: Any, header: Any, p: Any, env: Any) -> None:
    """As `vivace.flow_on_send`, with intervals of the least RTT."""
    k = flow.number % monitor_intervals.SLOTS
    is_over = env.now - flow.began[k] >= env.min_rtt and flow.sent_in[k] >= vivace.MIN_PACKETS * env.packet_size
    if flow.number == 0 or flow.ends > 0 or (flow.number < flow.first + flow.needed and is_over):
        flow.ends = 0
        monitor_intervals.begin(flow, vivace.probe_rate(flow, p, env), env)
        env.rate = flow.target[flow.number % monitor_intervals.SLOTS]
    monitor_intervals.on_send(flow, header, p, env)


QUEUES: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "intervals of the least RTT": {"flow_on_send": decides_each_least_rtt},
    "steps of 5 % at most": {"BOUNDARY_STEP": 1e-9},
}


def queues() -> None:
    """Vivace on 100 Mb/s, 30 ms, 60 to 120 s of three seeds: queues, and decisions that go up while S > 1.02 C."""
    capacity, rtt, duration = 100e6, 0.03, 120.0
    row("flows", "steps", "queue [ms]", "largest [s]", "of the link", "Jain", "wrong [%]", "longest row")
    for flows in (2, 5, 10):
        for name, changed in QUEUES.items():
            found = []
            for seed in range(3):
                starts = [0.5 * k + 0.01 * seed for k in range(flows)]
                network = Network.dumbbell(capacity, [rtt] * flows, packet_size=PACKET, starts=starts)
                scenario = Scenario(network, Vivace(), duration, seed=seed)
                with patch.multiple(vivace, **changed) if changed else nullcontext():
                    made = ecc.packet.simulate(scenario, sample=0.02, record=["flow.x", "flow.confidence"])
                late = slice(len(made.queue) // 2, None)
                rates = made.goodput[late].mean("time").to_numpy()
                x = made.data["flow.x"].to_numpy()[late]
                steps = np.diff(x, axis=0)[x[:-1].sum(axis=1) > 1.02 * capacity]
                waits = made.queue[late, 0].to_numpy() * 8.0 / capacity
                found.append(
                    (
                        1e3 * waits.mean(),
                        waits.max(),
                        rates.sum() / capacity,
                        rates.sum() ** 2 / (flows * (rates**2).sum()),
                        100.0 * np.mean(steps[steps != 0.0] > 0.0),
                        np.abs(made.data["flow.confidence"].to_numpy()[late]).max(),
                    )
                )
            mean, most = np.mean(found, axis=0), np.max(found, axis=0)
            row(
                flows,
                name,
                f"{mean[0]:.3g}",
                f"{most[1]:.2g}",
                f"{mean[2]:.2f}",
                f"{mean[3]:.2f}",
                f"{mean[4]:.0f}",
                f"{most[5]:.0f}",
            )


if __name__ == "__main__":
    command, *files = sys.argv[1:] or ("all",)
    if command in ("alone", "all"):
        alone()
    if command in ("shares", "all"):
        shares(*files)
    if command in ("queues", "all"):
        queues()
