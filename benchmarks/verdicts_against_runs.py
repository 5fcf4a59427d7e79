"""Verdicts of all linear models against fluid and packet runs, and the measured causes of their disagreements.

    python benchmarks/verdicts_against_runs.py [PROTOCOL ...] [--store FILE] [--output FILE]

takes each protocol of `ecc.models` with linear models on its reference loop (`Protocol.reference_loop`), over its queue
discipline if it has one. For each linear model (time, and clocking of windows) it runs the fluid of the same clocks and
packets 10 % below and 10 % above the stability limit of a parameter, or at the present parameters if the verdict does
not change nearby (`ecc.stability.check_boundary`). If a run contradicts the model, experiments look for the cause: each
changes one condition (packets ten times smaller, control intervals ten times shorter, ...), and repeats the comparison.

If an RTT of the reference loop exceeds 1 s (MKC, EMKC, EMKCAVQ), all its RTTs are divided by ten, which the output
reports. A comparison has 12 s of CPU time, the search for a cause too (over queue disciplines: 4 s), and a packet run
has 5 million packets; the output reports longer ones as not run. Results are kept in a store as soon as they are
computed: a program that was killed continues where it ended. The output is docs/models_disagreements.json, an object
with

    comparisons    object: number of comparisons that "agree", "disagree", are "undecided", or were "not run"
    disagreements  list of objects, one for each linear model and engine that disagree:
        protocol   class name, or "NewReno over PI"
        clocking   "ack" or "rate" for windows, else ""
        time       "continuous", "discrete" or "hybrid": the time of the linear model
        engine     "fluid" or "packet"
        parameter  name of the parameter that is varied
        limit      its stability limit in the linear model; null: the verdict does not change, and `present` was run
        present    its value in the reference loop
        rtts       list of the RTTs of the flows [s]
        measured   stability limit of the runs; null: it was not measured; "inf" or 0: not found up to 3.5 times the
                   limit or down to its inverse
        runs       observation in one clause, for example "packets lose stability at 0.82 times the limit"
        measured_small  the same for packets ten times smaller, which have less noise; null: not measured
        cause      measured cause in one sentence; "not found: ..." with the experiments that failed
    undecided      list of objects with protocol, clocking, time, engine, parameter, and reason in one clause
    not_run        list of objects with protocol, clocking, time, engine, and reason
"""

from __future__ import annotations

import argparse
import inspect
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
MAX_SECONDS = 12.0
"""CPU time of a comparison [s]; a run in progress ends first."""
MAX_DISCIPLINE_SECONDS = 4.0
"""CPU time of a search for the cause of a disagreement of hosts over a queue discipline [s]."""
LONG_RTT = 1.0
"""RTT [s] above which the RTTs of a reference loop are divided by ten: linear models with its delays take minutes."""
MAX_PACKETS = 5e6
"""Maximum number of packets of a run."""


class BudgetError(ValueError):
    """A comparison takes more than `MAX_SECONDS`."""


class NotRunError(ValueError):
    """An experiment was not run."""


class Budget:
    """CPU time of one comparison."""

    def __init__(self) -> None:
        self.began = process_time()

    def check(self, step: object = None) -> None:
        """Raise `BudgetError` if the time is spent."""
        if process_time() - self.began > MAX_SECONDS:
            raise BudgetError(f"it takes more than {MAX_SECONDS:g} s of CPU time")


@dataclass(frozen=True)
class Check:
    """A comparison: a linear model of a protocol on a network, and an engine."""

    protocol: Protocol | ProtocolAssignment
    network: Network
    parameter: str
    time: str
    clocking: str | None
    engine: str
    settings: RunSettings = RunSettings(max_packets=MAX_PACKETS)

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

    @property
    def key(self) -> str:
        """Key of the row in a store."""
        code = inspect.getsource(Check._computed), inspect.getsource(_searched_limit)
        constants = repr((SEARCHED, FACTORS, MAX_SECONDS))
        return digest("verdicts_against_runs", package_digest(), *code, constants, self.text)

    def row(self, store: Store) -> dict[str, Any]:
        """Return the row of `check_boundary`, from the store if it is there."""
        row: dict[str, Any] | None = store.get(self.key)
        if row is None:
            began = process_time()
            row = self._computed()
            row["seconds"] = process_time() - began
            store.put(self.key, row)
        return row

    def _computed(self) -> dict[str, Any]:
        args = (self.protocol, self.network, self.parameter, self.time)
        limit: float | None = None
        budget = Budget()
        try:
            if not isinstance(self.protocol, Protocol) or self.protocol.loop.kind not in SEARCHED:
                limit = nearest_limit(self, budget)
            elif critical_gain(*args, options=self.options).value == 0.0:
                limit = nearest_limit(self, budget)
            return next(rows_of_model(*args, (self.engine,), self.settings, self.options, budget.check, limit))
        except (ValueError, EccError, ArithmeticError) as error:
            return {"agrees": None, "reason": str(error), "limit": nan, "measured_limit": nan}

    def limit_of(self, time: str, store: Store) -> float:
        """Return the limit of the model of another time; nan if there is none."""
        if time not in self.protocol.times:
            return nan
        return float(replace(self, time=time, engine="packet").row(store)["limit"])

    def ran(self, store: Store) -> dict[str, Any]:
        """Return the row, or raise `NotRunError`."""
        row = self.row(store)
        if row["agrees"] is None and row["reason"]:
            raise NotRunError(row["reason"])
        return row

    def changed(self, **values: Any) -> Check:
        """Return the check with other parameters of the protocol."""
        return replace(self, protocol=replace(self.protocol, **values))  # type: ignore[type-var]


def parameters(protocol: Protocol | ProtocolAssignment) -> dict[str, str]:
    """Return all parameters as text."""
    return {name: repr(parameter_value(protocol, name)) for name in parameter_names(protocol)}


def nearest_limit(check: Check, budget: Budget) -> float:
    """Return the nearest value at which the verdict changes; inf if it is the same up to a factor of 4.

    Runs of all engines and settings have the same value, which is computed once.
    """
    key = replace(check, engine="", settings=RunSettings()).text
    if key not in LIMITS:
        LIMITS[key] = _searched_limit(check, budget)
    return LIMITS[key]


LIMITS: dict[str, float] = {}
"""Linear model -> value that `nearest_limit` found in this process."""


def _searched_limit(check: Check, budget: Budget) -> float:

    def is_stable(factor: float) -> bool:
        budget.check()
        changed = with_parameter(check.protocol, check.parameter, factor * check.present)
        return linearize(changed, check.network, check.time, clocking=check.clocking).is_stable

    verdicts: dict[float, bool] = {}
    for factor in FACTORS:
        try:
            verdicts[factor] = is_stable(factor)
        except (ValueError, EccError):
            if factor == 1.0 or process_time() - budget.began > MAX_SECONDS:
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
        if network.rtts.max() > LONG_RTT:
            network = _shorter_rtts(network)
        if host.overloads_at_equilibrium:  # its queue would grow without limit
            network = _small_buffer(network)
        for time in loop.times:
            for clocking in ("ack", "rate") if has_clockings(loop) else (None,):
                for engine in ENGINES:
                    yield Check(loop, network, parameter, time, clocking, engine)


# ---- causes ------------------------------------------------------------------------------------------------

LARGE: dict[str, Any] = {"perturbation": 0.1, "floor": {"fluid": 1e-6, "packet": 0.01}, "ceiling": 0.3}
"""Settings of runs whose noise would hide the response to a perturbation of 2 %."""
LEAVES_OUT = {
    "continuous": "the continuous model spreads the actions of routers and hosts over their intervals",
    "discrete": "the discrete model rounds delays up to whole intervals of one common clock",
    "hybrid": "the hybrid model spreads the actions of hosts over time",
}
"""Time of a linear model -> simplification that runs do not have."""
CLOCKS = {
    "hybrid": "the hybrid model, with ticks and exact delays,",
    "continuous": "the continuous model, with exact delays and without ticks,",
    "discrete": "the discrete model, with ticks of one common clock,",
}
"""Time of a linear model -> its name, with the times of its actions."""


def has_ticks(check: Check, row: dict[str, Any], store: Store) -> str | None:
    """Packets that have the limit of the hybrid model."""
    limit, measured = check.limit_of("hybrid", store), row.get("measured_limit", nan)
    if check.time == "hybrid" or not isfinite(limit) or not isfinite(measured or nan):
        return None
    if abs(measured / limit - 1.0) > CLOSE:
        return None
    has = f"the hybrid model, with ticks and exact delays, has the limit {limit:.4g}"
    return f"routers act at ticks, and {LEAVES_OUT[check.time]}; {has}"


def has_other_limit_of_small_packets(check: Check, row: dict[str, Any], store: Store) -> str | None:
    """Packets that have the limit of the hybrid or continuous model, once their noise is small."""
    if check.engine != "packet" or row["limit"] == inf:
        return None
    if sentence := _other_model(check, check, "packets", store):
        return sentence
    smaller, change = _smaller_packets(check), "packets ten times smaller"
    if smaller.row(store)["agrees"]:
        return None
    limits = {time: smaller.limit_of(time, store) for time in ("hybrid", "continuous", "discrete")}
    measured = smaller.row(store)["measured_limit"]
    if not isfinite(measured) or measured == 0.0:  # noise hides the growth
        change += ", with a perturbation of 10 %,"
        measured = replace(smaller, settings=replace(check.settings, **LARGE)).ran(store)["measured_limit"]
    errors = {time: abs(measured / limit - 1.0) for time, limit in limits.items() if isfinite(limit)}
    time = min(errors, key=lambda name: errors[name], default="")
    if errors.get(check.time, inf) <= CLOSE:
        return None
    if not time or not errors[time] <= CLOSE:
        return _other_model(check, smaller, "packets ten times smaller", store)
    return (
        f"{LEAVES_OUT[check.time]}; {CLOCKS[time]} has the limit {limits[time]:.4g}, and {change} lose stability at "
        f"{measured:.4g}"
    )


def _other_model(check: Check, runs: Check, name: str, store: Store) -> str | None:
    """Return that packets agree with the model of another time, whose limit differs by more than the runs resolve."""
    for time in ("hybrid", "continuous"):
        if time == check.time or time not in check.protocol.times:
            continue
        row = replace(runs, time=time, settings=replace(runs.settings, measures=False)).row(store)
        limit = runs.limit_of(time, store)
        if not row["agrees"] or not isfinite(limit):
            continue
        if abs(limit / runs.limit_of(check.time, store) - 1.0) > runs.settings.margin:
            return f"{LEAVES_OUT[check.time]}; {name} agree with {CLOCKS[time]} whose limit is {limit:.4g}"
    return None


def has_exact_times(check: Check, row: dict[str, Any], store: Store) -> str | None:
    """Packets that have the limit of the fluid with exact times of routers and hosts."""
    if check.engine != "packet" or not isinstance(check.protocol, Protocol) or check.protocol.fluid_form is None:
        return None
    settings = replace(check.settings, fluid="continuous", tolerance=CLOSE, max_runs=8)
    fluid, measured = replace(check, engine="fluid", settings=settings).row(store), row["measured_limit"]
    exact = fluid["measured_limit"]
    if fluid["agrees"] is None and fluid["reason"]:
        raise NotRunError(fluid["reason"])
    if not (exact == measured or (measured > 0.0 and abs(exact / measured - 1.0) < CLOSE)):
        return None
    shown = f"loses stability at {exact:.4g}" if isfinite(exact) and exact > 0.0 else "does the same"
    return f"{LEAVES_OUT[check.time]}; the fluid with exact times of routers and hosts {shown}, without packets"


def has_no_queue(check: Check, row: dict[str, Any], store: Store) -> str | None:
    """Runs below the proven limit of the loop that switches at an empty queue."""
    if check.parameter != "beta" or not any("unconstrained" in note for note in _notes(check)):
        return None
    bound = empty_queue_bound(check.protocol.alpha, check.network.rtts)  # type: ignore[union-attr]
    measured = row["measured_limit"]
    if not bound > 1.1 * row["limit"] or measured < 1.1 * row["limit"]:
        return None
    text = (
        "the queue is empty at the equilibrium and cannot be negative, while the linear model has a signed queue; the "
        f"loop that switches at the empty queue is proven stable, in continuous time, for beta < {bound:.4g}"
    )
    if not isfinite(measured) or check.engine != "packet":
        return text
    smaller = _smaller_packets(check).ran(store)["measured_limit"]
    settings = replace(check.settings, fluid="continuous")
    fluid = replace(check, engine="fluid", settings=settings).ran(store)["measured_limit"]
    return (
        f"{text}; routers act at ticks, and the fluid with exact times loses stability at {fluid:.4g}, packets ten "
        f"times smaller at {smaller:.4g}"
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
            raise NotRunError("it does not apply") from None
        changed = replace(changed, settings=replace(changed.settings, measures=False))
        return text if changed.ran(store)["agrees"] else None

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


def _shorter_rtts(network: Network) -> Network:
    """Return the reference loop, which has one link, with RTTs of a tenth."""
    size, rtts = int(network.flows[0].mean_packet), (0.1 * network.rtts).tolist()
    return Network.dumbbell(float(network.capacities[0]), rtts, packet_size=size)


def _equal_rtts(check: Check) -> Check:
    rtt = float(check.network.rtts.min())
    if check.network.rtts.max() == rtt:
        raise ValueError("RTTs are equal")
    flows = check.network.flows
    size = int(flows[0].mean_packet)
    return replace(
        check, network=Network.dumbbell(float(check.network.capacities[0]), [rtt] * len(flows), packet_size=size)
    )


def _smaller_perturbation(check: Check) -> Check:
    floor = {"fluid": 1e-6, "packet": 2e-4}
    return replace(check, settings=replace(check.settings, perturbation=0.002, floor=floor, ceiling=0.006))


def has_granularity(check: Check, row: dict[str, Any], store: Store) -> str | None:
    """Runs that agree with packets ten times smaller, and possibly a perturbation above their noise."""
    smaller = replace(_smaller_packets(check), settings=replace(check.settings, measures=False))
    if smaller.row(store)["agrees"]:
        if check.engine == "fluid":
            return (
                "size of packets, on which transmission times and minimum rates depend: with packets ten times "
                "smaller, fluid runs agree"
            )
        return "granularity of packets: with packets ten times smaller, runs agree"
    if check.engine == "fluid":
        return None
    found = _smaller_packets(check).row(store)
    if abs(found["measured_limit"] / found["limit"] - 1.0) <= CLOSE:
        return (
            f"granularity of packets: packets ten times smaller lose stability at {found['measured_limit']:.4g}, and "
            f"the limit of the model with such packets is {found['limit']:.4g}"
        )
    large = replace(smaller, settings=replace(smaller.settings, **LARGE)).ran(store)
    change = "granularity of packets: with packets ten times smaller and a perturbation of 10 %, runs"
    if large["agrees"]:
        return f"{change} agree"
    if large["agrees"] is None and large["status_above"]:
        sides = f"{large['status_below']} below, {large['status_above']} above the limit"
        return f"{change} do not contradict the model ({sides})"
    return None


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
    "the limit of packets ten times smaller": has_other_limit_of_small_packets,
    "packets ten times smaller": has_granularity,
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
CONDITIONS = (
    "packets ten times smaller",
    "intervals ten times shorter",
    "equal RTTs",
    "a perturbation ten times smaller",
)
"""Experiments that change one condition, each named as in "it remains with equal RTTs"."""


def cause(check: Check, row: dict[str, Any], store: Store) -> str:
    """Return the measured cause of a disagreement, or the experiments that did not explain it."""
    outcome: dict[str, str] = {}
    began, limit = process_time(), MAX_SECONDS if isinstance(check.protocol, Protocol) else MAX_DISCIPLINE_SECONDS
    for name, experiment in EXPERIMENTS.items():
        if process_time() - began > limit:
            outcome[name] = f"experiments take more than {limit:g} s of CPU time"
            continue
        try:
            sentence = experiment(check, row, store)
        except (ValueError, EccError) as error:
            outcome[name] = str(error)
            continue
        if sentence:
            return sentence
        outcome[name] = ""
    remains = [name for name in CONDITIONS if not outcome[name]]
    tried = f"it remains with {', '.join(remains)}" if remains else "no experiment was run"
    budget = [name for name in CONDITIONS if "CPU time" in outcome[name] or "packets, and" in outcome[name]]
    return f"not found: {tried}" + (f"; not run, because runs take too long: {', '.join(budget)}" if budget else "")


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
        return str(row["reason"]).replace("runs", who, 1)
    return f"{who} are {row['status_below'] or 'not run'} below and {row['status_above'] or 'not run'} above the limit"


def small_packet_limit(check: Check, store: Store) -> float:
    """Return the limit of packets ten times smaller if an experiment measured it; nan otherwise."""
    row = store.get(_smaller_packets(check).key) if check.engine == "packet" else None
    return row["measured_limit"] if row else nan


def undecided(check: Check, row: dict[str, Any], store: Store) -> str:
    """Return the statuses of runs, and whether packets ten times smaller agree with the model."""
    sides = [row[f"status_{side}"] for side in ("below", "above") if row[f"status_{side}"]]
    if len(sides) == 2:
        text = f"runs are {sides[0]} below and {sides[1]} above the limit"
    else:
        text = f"runs are {sides[0]} at the present value"
    if check.engine == "packet":
        smaller = replace(_smaller_packets(check), settings=replace(check.settings, measures=False)).row(store)
        if smaller["agrees"]:
            text += "; with packets ten times smaller, they agree with the model"
    return text


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
                "rtts": [round(float(rtt), 9) for rtt in check.network.rtts],
                "measured": _number(row["measured_limit"]),
                "runs": observation(check, row),
                "cause": cause(check, row, store),
                "measured_small": _number(small_packet_limit(check, store)),
            }
            table["disagreements"].append(entry)
            print(f"    {entry['runs']}\n    cause: {entry['cause']}", flush=True)
        elif outcome == "undecided":
            entry = {**place, "parameter": check.parameter, "reason": undecided(check, row, store)}
            table["undecided"].append(entry)
            print(f"    {entry['reason']}", flush=True)
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
