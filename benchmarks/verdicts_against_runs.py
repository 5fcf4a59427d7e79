"""Verdicts of all linear models against fluid and packet runs, and the measured causes of their disagreements.

    python benchmarks/verdicts_against_runs.py [PROTOCOL ...] [--store FILE] [--output FILE]

takes each protocol of `ecc.models` with linear models on its reference loop (`Protocol.reference_loop`), over its queue
discipline if it has one. For each linear model (time, and clocking of windows) it runs the fluid of the same clocks and
packets 10 % below and 10 % above the stability limit of a parameter, or at the present parameters if the verdict does
not change nearby (`ecc.stability.check_boundary`). If a run contradicts the model, experiments look for the cause: each
changes one condition (packets ten times smaller, control intervals ten times shorter, ...), and repeats the comparison.

Results are kept in a store as soon as they are computed: a program that was killed continues where it ended. The output
is docs/models_disagreements.json, an object with

    comparisons    object: number of comparisons that "agree", "disagree", are "undecided", or were "not run"
    disagreements  list of objects, one for each linear model and engine that disagree:
        protocol   class name, or "NewReno over PI"
        clocking   "ack" or "rate" for windows, else ""
        time       "continuous", "discrete" or "hybrid": the time of the linear model
        engine     "fluid" or "packet"
        parameter  name of the parameter that is varied
        limit      its stability limit in the linear model; null: the verdict does not change, and `present` was run
        present    its value in the reference loop
        measured   stability limit of the runs; null: it was not measured; "inf" or 0: not found up to 3.5 times the
                   limit or down to its inverse
        runs       observation in one clause, for example "packets lose stability at 0.82 times the limit"
        cause      measured cause in one sentence; "not found: ..." with the experiments that failed
    undecided      list of objects with protocol, clocking, time, engine, parameter, and reason in one clause
    not_run        list of objects with protocol, clocking, time, engine, and reason
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf, isfinite, nan
from pathlib import Path
from time import process_time
from typing import Any

from ecc import queues
from ecc._support.digests import digest, package_digest
from ecc._support.store import Store
from ecc.contract.assignment import ProtocolAssignment, parameter_names, parameter_value, with_parameter
from ecc.errors import EccError
from ecc.linear.empty_queue import empty_queue_bound
from ecc.loops.closed_loop import has_clockings, linearize
from ecc.loops.options import LinearOptions
from ecc.models import Protocol, all_protocols
from ecc.network.network import Network
from ecc.stability.boundary_checks import RunSettings, rows_of_model
from ecc.stability.gains import critical_gain

HERE = Path(__file__).parents[1]
OUTPUT = HERE / "docs" / "models_disagreements.json"
PARAMETERS = {
    "XCP": "beta",
    "RCP": "beta",
    "ABC": "delta",
    "PI": "links.interval",
    "PI2": "links.beta",
    "DualPI2": "links.beta",
    "RampMarking": "links.max_threshold",
}
"""Class of a protocol or queue discipline -> parameter that is varied, if it is not the `main_parameter`."""
SEARCHED = ("explicit feedback", "stepped rates", "sampled prices", "granted windows", "ACK-clocked windows")
"""Kinds of loops whose critical gain takes less than a second."""
FACTORS = (1.0, 1.25, 0.8, 1.6, 0.625, 2.5, 0.4, 4.0, 0.25)
"""Multiples of a parameter at which the verdict is computed, if a search for its limit takes minutes."""
ENGINES = {"fluid": "fluid runs", "packet": "packets"}
CLOSE = 0.05
"""Relative difference of limits that count as equal."""


@dataclass(frozen=True)
class Check:
    """A comparison: a linear model of a protocol on a network, and an engine."""

    protocol: Protocol | ProtocolAssignment
    network: Network
    parameter: str
    time: str
    clocking: str | None
    engine: str
    settings: RunSettings = RunSettings()

    @property
    def name(self) -> str:
        """Name of the protocol, with its queue discipline."""
        return type(self.protocol).__name__ if isinstance(self.protocol, Protocol) else str(self.protocol)

    @property
    def present(self) -> float:
        """Value of the parameter in the reference loop."""
        return float(parameter_value(self.protocol, self.parameter))

    @property
    def options(self) -> LinearOptions:
        """Options of the linear model."""
        return LinearOptions(clocking=self.clocking)

    @property
    def text(self) -> str:
        """All that the result depends on, except the code."""
        kind = "" if isinstance(self.protocol, Protocol) else repr(vars(self.protocol))
        state = (repr(self.protocol), kind, json.dumps(self.network.to_dict(), default=str), repr(self.settings))
        return json.dumps([*state, self.parameter, self.time, self.clocking, self.engine, parameters(self.protocol)])

    def row(self, store: Store) -> dict[str, Any]:
        """Return the row of `check_boundary`, from the store if it is there."""
        key = digest("verdicts_against_runs", package_digest(), Path(__file__).read_text(), self.text)
        row = store.get(key)
        if row is None:
            began = process_time()
            row = self._computed()
            row["seconds"] = process_time() - began
            store.put(key, row)
        return row

    def _computed(self) -> dict[str, Any]:
        args = (self.protocol, self.network, self.parameter, self.time)
        limit: float | None = None
        try:
            if not isinstance(self.protocol, Protocol) or self.protocol.loop.kind not in SEARCHED:
                limit = nearest_limit(self)
            elif critical_gain(*args, options=self.options).value == 0.0:
                limit = nearest_limit(self)
            return next(rows_of_model(*args, (self.engine,), self.settings, self.options, lambda step: None, limit))
        except (ValueError, EccError, ArithmeticError) as error:
            return {"agrees": None, "reason": str(error), "limit": nan, "measured_limit": nan}

    def hybrid_limit(self, store: Store) -> float:
        """Return the limit of the hybrid model; nan if there is none."""
        if "hybrid" not in self.protocol.times:
            return nan
        return float(replace(self, time="hybrid", engine="packet").row(store)["limit"])

    def changed(self, **values: Any) -> Check:
        """Return the check with other parameters of the protocol."""
        return replace(self, protocol=replace(self.protocol, **values))  # type: ignore[type-var]


def parameters(protocol: Protocol | ProtocolAssignment) -> dict[str, str]:
    """Return all parameters as text."""
    return {name: repr(parameter_value(protocol, name)) for name in parameter_names(protocol)}


def nearest_limit(check: Check) -> float:
    """Return the nearest value at which the verdict changes; inf if it is the same up to a factor of 4."""

    def is_stable(factor: float) -> bool:
        changed = with_parameter(check.protocol, check.parameter, factor * check.present)
        return linearize(changed, check.network, check.time, clocking=check.clocking).is_stable

    verdicts: dict[float, bool] = {}
    for factor in FACTORS:
        try:
            verdicts[factor] = is_stable(factor)
        except (ValueError, EccError):
            if factor == 1.0:
                raise
            continue
        if verdicts[factor] != verdicts[1.0]:
            same = [f for f, verdict in verdicts.items() if verdict == verdicts[1.0]]
            inner = max(f for f in same if f < factor) if factor > 1.0 else min(f for f in same if f > factor)
            outer = factor
            while abs(outer - inner) > 1e-3 * inner:
                middle = 0.5 * (inner + outer)
                inner, outer = (middle, outer) if is_stable(middle) == verdicts[1.0] else (inner, middle)
            return 0.5 * (inner + outer) * check.present
    return inf


# ---- subjects ----------------------------------------------------------------------------------------------


def subjects(names: list[str]) -> Iterator[Check]:
    """Yield the comparisons of all protocols with linear models, or of the named ones."""
    for name, kind in all_protocols().items():
        if names and name not in names:
            continue
        host = kind()
        reference = host.reference_loop
        if reference is None:
            continue
        loop: Protocol | ProtocolAssignment = host
        label = name
        if reference.discipline:
            label = reference.discipline
            router = getattr(queues, label)(packet_size=reference.packet_size, **reference.settings)
            loop = ProtocolAssignment(host, router)
        elif host.linear_refusal is not None or not host.times:
            continue
        parameter = PARAMETERS.get(label, host.main_parameter)
        if not parameter:
            continue
        network = reference.network()
        if host.overloads_at_equilibrium:  # its queue would grow without limit
            network = _small_buffer(network)
        for time in loop.times:
            for clocking in ("ack", "rate") if has_clockings(loop) else (None,):
                for engine in ENGINES:
                    yield Check(loop, network, parameter, time, clocking, engine)


# ---- causes ------------------------------------------------------------------------------------------------


def has_ticks(check: Check, row: dict[str, Any], store: Store) -> str | None:
    """Packets that have the limit of the hybrid model."""
    limit, measured = check.hybrid_limit(store), row.get("measured_limit", nan)
    if check.time == "hybrid" or not isfinite(limit) or not isfinite(measured or nan):
        return None
    if abs(measured / limit - 1.0) > CLOSE:
        return None
    leaves_out = {
        "continuous": "the continuous model spreads their actions over the interval",
        "discrete": "the discrete model rounds delays up to whole intervals",
    }[check.time]
    has = f"the hybrid model, with ticks and exact delays, has the limit {limit:.4g}"
    return f"routers act at ticks, and {leaves_out}; {has}"


def has_exact_times(check: Check, row: dict[str, Any], store: Store) -> str | None:
    """Packets that have the limit of the fluid with exact times of routers and hosts."""
    if check.engine != "packet" or not isinstance(check.protocol, Protocol) or check.protocol.fluid_form is None:
        return None
    settings = replace(check.settings, fluid="continuous", tolerance=CLOSE, max_runs=8)
    fluid, measured = replace(check, engine="fluid", settings=settings).row(store), row["measured_limit"]
    exact = fluid["measured_limit"]
    if not (exact == measured or abs(exact / measured - 1.0) < CLOSE):
        return None
    shown = f"loses stability at {exact:.4g}" if isfinite(exact) and exact > 0.0 else "does the same"
    return (
        f"routers and hosts act at their own times instead of one clock: the fluid with these times {shown}, without "
        "packets"
    )


def has_no_queue(check: Check, row: dict[str, Any], store: Store) -> str | None:
    """Runs below the proven limit of the loop that switches at an empty queue."""
    if check.parameter != "beta" or not any("unconstrained" in note for note in _notes(check)):
        return None
    bound = empty_queue_bound(check.protocol.alpha, check.network.rtts)  # type: ignore[union-attr]
    measured = row["measured_limit"]
    if not bound > 1.1 * row["limit"] or (isfinite(measured) and measured < bound):
        return None
    return (
        "the queue is empty at the equilibrium and cannot be negative, while the linear model has a signed queue; the "
        f"loop that switches at the empty queue is proven stable, in continuous time, for beta < {bound:.4g}"
    )


def _notes(check: Check) -> tuple[str, ...]:
    return linearize(check.protocol, check.network, check.time, clocking=check.clocking).notes


def has_clocked_acks(check: Check, row: dict[str, Any], store: Store) -> str | None:
    """Packets of the ACK-clocked model, compared with the paced one."""
    if check.clocking != "rate" or check.engine != "packet":
        return None
    other = replace(check, clocking="ack").row(store)
    if not other["agrees"]:
        return None
    limit = other["limit"]
    has = f"has the limit {limit:.4g}" if isfinite(limit) else f"is stable at all {check.parameter}"
    return f"hosts do not pace: ACKs clock packets, and the ACK-clocked model, with which packets agree, {has}"


def changing(change: Callable[[Check], Check], text: str) -> Callable[[Check, dict[str, Any], Store], str | None]:
    """Return an experiment: with a changed condition, the comparison agrees."""

    def experiment(check: Check, row: dict[str, Any], store: Store) -> str | None:
        try:
            changed = change(check)
        except (TypeError, ValueError, AttributeError, KeyError):
            return None
        changed = replace(changed, settings=replace(changed.settings, measures=False))
        return text if changed.row(store)["agrees"] else None

    return experiment


def _smaller_packets(check: Check) -> Check:
    flows = [replace(flow, packet_size=max(40, int(flow.mean_packet // 10))) for flow in check.network.flows]
    return replace(check, network=check.network.with_flows(flows))


def _shorter_intervals(check: Check) -> Check:
    return check.changed(interval=check.protocol.interval / 10.0)  # type: ignore[union-attr]


def _small_buffer(network: Network) -> Network:
    """Return the network with buffers of a tenth of the data of an RTT."""
    pipe = float(network.capacities.min() * network.rtts.mean()) / 8.0
    return Network([replace(link, buffer=max(6000, int(0.1 * pipe))) for link in network.links], network.flows)


def _equal_rtts(check: Check) -> Check:
    rtt = float(check.network.rtts.min())
    flows = check.network.flows
    size = int(flows[0].mean_packet)
    return replace(
        check, network=Network.dumbbell(float(check.network.capacities[0]), [rtt] * len(flows), packet_size=size)
    )


def _smaller_perturbation(check: Check) -> Check:
    floor = {"fluid": 1e-6, "packet": 2e-4}
    return replace(check, settings=replace(check.settings, perturbation=0.002, floor=floor, ceiling=0.006))


EXPERIMENTS: dict[str, Callable[[Check, dict[str, Any], Store], str | None]] = {
    "ticks of routers": has_ticks,
    "an empty queue": has_no_queue,
    "clocking by ACKs": has_clocked_acks,
    "steps to proposed rates": changing(
        lambda check: check.changed(proposed_rate=False),
        "hosts propose a rate one RTT before they send at it, so that routers respond to the next rate; without "
        "proposed rates (proposed_rate=False) packets agree",
    ),
    "exact times": has_exact_times,
    "packets ten times smaller": changing(
        _smaller_packets, "granularity of packets: with packets ten times smaller, runs agree"
    ),
    "intervals ten times shorter": changing(
        _shorter_intervals,
        "the control interval is not small against the RTT: with an interval ten times shorter, runs agree",
    ),
    "equal RTTs": changing(_equal_rtts, "heterogeneous RTTs: with equal RTTs, runs agree"),
    "a perturbation ten times smaller": changing(
        _smaller_perturbation, "the perturbation of 2 % is not small: with 0.2 %, runs agree"
    ),
}
"""Condition -> experiment that returns the cause in one sentence, or None."""


def cause(check: Check, row: dict[str, Any], store: Store) -> str:
    """Return the measured cause of a disagreement, or the experiments that did not explain it."""
    for experiment in EXPERIMENTS.values():
        try:
            found = experiment(check, row, store)
        except (ValueError, EccError):
            continue
        if found:
            return found
    return f"not found: it remains with {', '.join(list(EXPERIMENTS)[5:])}"


# ---- output ------------------------------------------------------------------------------------------------


def observation(check: Check, row: dict[str, Any]) -> str:
    """Return in one clause what runs show."""
    who, measured, limit = ENGINES[check.engine], row["measured_limit"], row["limit"]
    if limit == inf:
        model = "stable" if row["growth_below"] < 0.0 else "unstable"
        return f"{who} are {row['status_below']} at the present value, the model is {model}"
    if isfinite(measured) and measured > 0.0:
        return f"{who} lose stability at {measured:.4g}, {measured / limit:.2f} times the limit"
    if row["reason"].startswith("runs are"):
        return row["reason"].replace("runs", who, 1)
    return f"{who} are {row['status_below'] or 'not run'} below and {row['status_above'] or 'not run'} above the limit"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("protocols", nargs="*", choices=[*all_protocols(), []], help="default: all")
    parser.add_argument("--store", type=Path, default=HERE / "build" / "verdicts_against_runs.sqlite")
    parser.add_argument("--output", type=Path, help=f"default: {OUTPUT.relative_to(HERE)} for all protocols, else none")
    given = parser.parse_args()
    store = Store(given.store)
    count = dict.fromkeys(("agree", "disagree", "undecided", "not run"), 0)
    table: dict[str, list[dict[str, Any]]] = {"disagreements": [], "undecided": [], "not_run": []}
    for check in subjects(given.protocols):
        row = check.row(store)
        outcome = {True: "agree", False: "disagree"}.get(row["agrees"], "not run" if row["reason"] else "undecided")
        count[outcome] += 1
        place = {"protocol": check.name, "clocking": check.clocking or "", "time": check.time, "engine": check.engine}
        limit = f"{check.parameter} = {row['limit']:.4g} (present {check.present:.4g})"
        print(f"{' '.join(place.values()):45} {limit:45} {outcome}, {row.get('seconds', 0.0):.1f} s", flush=True)
        if outcome == "disagree":
            entry = {
                **place,
                "parameter": check.parameter,
                "limit": _number(row["limit"]),
                "present": check.present,
                "measured": _number(row["measured_limit"]),
                "runs": observation(check, row),
                "cause": cause(check, row, store),
            }
            table["disagreements"].append(entry)
            print(f"    {entry['runs']}\n    cause: {entry['cause']}", flush=True)
        elif outcome == "undecided":
            statuses = " and ".join(filter(None, (row["status_below"], row["status_above"])))
            table["undecided"].append({**place, "parameter": check.parameter, "reason": f"runs are {statuses}"})
        elif outcome == "not run":
            table["not_run"].append({**place, "reason": row["reason"]})
            print(f"    {row['reason']}")
    print(", ".join(f"{name}: {number}" for name, number in count.items()))
    output = given.output or (None if given.protocols else OUTPUT)
    if output is not None:
        output.write_text(json.dumps({"comparisons": count, **table}, indent=1) + "\n")
    if store.trouble:
        print(store.trouble, file=sys.stderr)


def _number(value: float) -> float | str | None:
    """Return a number for JSON: four digits, "inf", or None for nan."""
    if isfinite(value):
        return float(f"{value:.5g}")
    return "inf" if value == inf else None


if __name__ == "__main__":
    main()
