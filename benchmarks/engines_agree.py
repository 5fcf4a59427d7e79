"""Every protocol on examples/three_bottlenecks.toml: packets, fluid, recurrence, equilibrium and linear models.

    python benchmarks/engines_agree.py [PROTOCOL ...]

prints for each protocol the rates at the end of each phase in every engine, settle times, peak queues and linear
verdicts, then the same for a start at the equilibrium with all rates off by 5 % and all flows active, and what
`ecc.compare` reports of it: the numbers of docs/fluid_against_packets.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import ecc
from ecc.comparison.agreement import growth_rate
from ecc.comparison.comparison import Comparison
from ecc.models import (
    ABC,
    BIC,
    CUBIC,
    DCTCP,
    EDN,
    EMKC,
    EMKCAVQ,
    FAST,
    MKC,
    PEDN,
    PIQIRCP,
    QIRCP,
    RCP,
    UTIL,
    VCP,
    XCP,
    Compound,
    Copa,
    JetMax,
    Kelly,
    MaxNet,
    NewReno,
    Protocol,
    Swift,
    Vegas,
)

SCENARIO = ecc.Scenario.from_toml(Path(__file__).parents[1] / "examples" / "three_bottlenecks.toml")
SAMPLE, WINDOW, PUSH = 0.5, 2.0, 0.05
PROTOCOLS: dict[str, Protocol] = {
    "RCP": RCP(),
    "RCP-1": RCP(queue_term=False),
    "RCP-2": RCP(rtt="max"),
    "RCP, stamped on arrival": RCP(stamping="arrival"),
    "QI-RCP": QIRCP(),
    "PIQI-RCP": PIQIRCP(),
    "PIQI-RCP, by ACK": PIQIRCP(update="ack"),
    "PIQI-RCP, by RTT": PIQIRCP(update="rtt"),
    "XCP": XCP(),
    "XCP, paced": XCP(paced=True),
    "JetMax": JetMax(),
    "JetMax, naive": JetMax(switching="naive"),
    "JetMax, no proposed rate": JetMax(proposed_rate=False),
    "JetMax, bottleneck by rate": JetMax(bottleneck="rate"),
    "MaxNet": MaxNet(),
    "MaxNet, thesis": MaxNet(form="thesis"),
    "MKC": MKC(),
    "EMKC": EMKC(),
    "EMKC-AVQ": EMKCAVQ(),
    "Kelly": Kelly(omega="1 Mb/s"),
    "NewReno": NewReno(),
    "Sack": NewReno(transport="sack"),
    "CUBIC": CUBIC(transport="sack"),
    "Compound": Compound(transport="sack"),
    "DCTCP": DCTCP(transport="sack"),
    "Vegas": Vegas(),
    "Vegas, alpha = beta": Vegas(alpha=2.0, beta=2.0),
    "FAST": FAST(alpha=20.0),
    "Copa": Copa(),
    "Swift": Swift(base_target="0.1 s", hop_scaling="20 ms", fs_range="2 s", fs_min_cwnd=1.0, fs_max_cwnd=1000.0),
    "BIC": BIC(transport="sack"),
    "BIC of Linux": BIC(transport="sack", form="linux"),
    "ABC": ABC(),
    "VCP": VCP(),
    "UTIL": UTIL(),
    "EDN": EDN(),
    "EDN, not quantized": EDN(quantized=False),
    "PEDN": PEDN(),
}
"""Every class and variant listed in docs/protocols.md except TIMELY: its rates oscillate too fast for this.

Capacities are small, so that Kelly pays and FAST queues less.
"""


def compared(name: str, perturbed: bool = False) -> Comparison:
    """Return the comparison of a protocol: with flows that come and go, or of all flows from near the equilibrium."""
    scenario = SCENARIO.with_(protocol=PROTOCOLS[name])
    if not perturbed:
        return ecc.compare(scenario, SAMPLE, WINDOW)
    flows = [ecc.Flow(flow.route, access_delay=flow.access_delay) for flow in scenario.network.flows]
    static = scenario.with_(network=scenario.network.with_flows(flows), duration=120.0)
    return ecc.compare(static, SAMPLE, WINDOW, start="equilibrium", perturbation=PUSH)


def show(found: Comparison) -> None:
    """Print rates and queues at the end of each phase, then what the comparison reports."""
    for phase, models in zip(found.phases, found.linear, strict=True):
        print(f"  {phase.begin:g} to {phase.end:g} s, flows {', '.join(map(str, phase.active))}")
        rows = dict(phase.rate)
        if phase.equilibrium is not None:
            rows["equilibrium"] = phase.equilibrium.rates
        for run, rates in rows.items():
            shown = " ".join(f"{1e-6 * rate:7.3f}" for rate in rates)
            queues = " ".join(f"{1e-3 * queue:7.1f}" for queue in phase.queue.get(run, ()))
            print(f"    {run:12}{shown} Mb/s" + (f"   queues {queues} kB" if queues else ""))
        verdicts = [
            f"{time} {growth_rate(model):+.4g} 1/s" for time, model in models.items() if not isinstance(model, str)
        ]
        if verdicts:
            print(f"    linear: {', '.join(verdicts)}")
    table = found.table
    for run in ("fluid", "packet"):
        settled = table.loc[table["series"] == "rate", f"{run}_settled"].max()
        peaks = " ".join(f"{1e-3 * peak:.1f}" for peak in table.loc[table["series"] == "queue", f"{run}_peak"])
        print(f"  {run}: settled at {settled:.4g} s; peaks of queues {peaks} kB")
    for what, why in found.refused.items():
        print(f"  no {what}: {why}")
    for note in found.notes:
        print(f"  note: {note}")


def main(names: list[str]) -> None:
    """Print everything of some protocols."""
    for name in names or PROTOCOLS:
        print(f"{name}", flush=True)
        show(compared(name))
        try:
            perturbed = compared(name, perturbed=True)
        except (ecc.errors.EccError, ValueError) as error:
            print(f"  no start at the equilibrium: {error}")
            continue
        print(f"  from {PUSH:.0%} beside the equilibrium:")
        show(perturbed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("protocols", nargs="*", choices=[*PROTOCOLS, []], help="names; default: all")
    main(parser.parse_args().protocols)
