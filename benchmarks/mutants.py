"""Faults in BBR and CUBIC, and whether the conformance laboratory finds them.

    python benchmarks/mutants.py [NAME...]

A mutant is the file of a protocol with one piece of its text replaced. It is caught if a case refutes it that does not
refute the protocol itself. The table has, for each, the cases that do: twenty faults of BBR and CUBIC, then twelve
more, of BBR's later parts and of version 1. Where a text is no longer in its file, nothing is run.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ecc import conform
from ecc.models import BBR, CUBIC, BBRv1, Protocol
from ecc.scenario import protocol_class

GROUPS = {BBR: "bbr", BBRv1: "bbr", CUBIC: "cubic"}
"""What the ids of the cases of a protocol begin with."""


@dataclass(frozen=True)
class Mutant:
    """A fault: `text` of the file of a protocol is `instead`; `case`: one that finds it, empty: none does."""

    name: str
    kind: type[Protocol]
    text: str
    instead: str
    case: str


MUTANTS = (
    Mutant("Drain paces at 0.75", BBR, "drain_gain: float = 0.5", "drain_gain: float = 0.75", "bbr-drain-inflight"),
    Mutant("UP paces at 1.1", BBR, "PROBE_RTT_GAIN = 2.77, 1.25,", "PROBE_RTT_GAIN = 2.77, 1.1,", "bbr-up-plateau"),
    Mutant("a plateau is two rounds", BBR, "DRAIN_ROUNDS = 1.25, 3,", "DRAIN_ROUNDS = 1.25, 2,", "bbr-startup-plateau"),
    Mutant(
        "max_bw never expires",
        BBR,
        "flow.max_bw_filter[0] = flow.max_bw_filter[1]",
        "flow.max_bw_filter[0] = max(flow.max_bw_filter[0], flow.max_bw_filter[1])",
        "bbr-bandwidth-down",
    ),
    Mutant(
        "min_rtt never expires",
        BBR,
        "or is_over(env.now, flow.min_rtt_stamp + p.min_rtt_window):",
        "or False:",
        "bbr-min-rtt-filter",
    ),
    Mutant(
        "the window has no floor",
        BBR,
        "import INFINITE, MIN_PACKETS, restore_cwnd, save_cwnd, set_pacing_rate\n",
        "import INFINITE, restore_cwnd, save_cwnd, set_pacing_rate\nMIN_PACKETS = 1.0\n",
        "bbr-small-bdp",
    ),
    Mutant(
        "ProbeRTT keeps a whole product in flight",
        BBR,
        "PROBE_RTT_GAIN = 2.77, 1.25, 2.0, 0.5",
        "PROBE_RTT_GAIN = 2.77, 1.25, 2.0, 1.0",
        "bbr-probe-rtt",
    ),
    Mutant("CRUISE has no headroom", BBR, "max(s, p.headroom * flow.inflight_longterm)", "0.0", "bbr-down-inflight"),
    Mutant(
        "extra_acked does not enlarge the window",
        BBR,
        "flow, p, env) + flow.extra_acked, flow",
        "flow, p, env), flow",
        "bbr-aggregation-cruise",
    ),
    Mutant(
        "losses do not end UP",
        BBR,
        "target_inflight(flow, p, env))\n    if flow.state == UP:",
        "target_inflight(flow, p, env))\n    if False:",
        "bbr-policer",
    ),
    Mutant(
        "REFILL keeps the bounds of losses",
        BBR,
        'a fully used path."""\n    reset_short_term_model(flow)',
        'a fully used path."""',
        "bbr-cruise-losses",
    ),
    Mutant(
        "20 % may be lost before UP ends",
        BBR,
        "loss_threshold: float = 0.02",
        "loss_threshold: float = 0.2",
        "bbr-up-loss-longterm",
    ),
    Mutant(
        "pacing has no margin",
        BBR,
        "set_pacing_rate(flow, pacing_gain(flow, p), env)",
        "set_pacing_rate(flow, pacing_gain(flow, p) / 0.99, env)",
        "bbr-cruise-losses",
    ),
    Mutant("a loss leaves half", CUBIC, "beta: float = 0.7", "beta: float = 0.5", "cubic-window"),
    Mutant("C is 0.8", CUBIC, "C: float = 0.4", "C: float = 0.8", "cubic-window"),
    Mutant(
        "K is half as long",
        CUBIC,
        "return exp(log(cubed) / 3.0) if",
        "return 0.5 * exp(log(cubed) / 3.0) if",
        "cubic-window",
    ),
    Mutant("no fast convergence", CUBIC, "0.5 * (1.0 + p.beta) * W if", "W if", "cubic-fast-convergence"),
    Mutant(
        "as fast as Reno with beta = 0.5", CUBIC, "else 3.0 * (1.0 - p.beta) / (1.0 + p.beta)", "else 1.0", "cubic-reno"
    ),
    Mutant("growth has no bound", CUBIC, "MAX_GROWTH = 1.5", "MAX_GROWTH = 100.0", "cubic-growth"),
    Mutant(
        "a timeout leaves all for slow start",
        CUBIC,
        "windows.time_out(flow, window, env)",
        "windows.time_out(flow, window / p.beta, env)",
        "cubic-timeout",
    ),
)
"""The twenty."""
MORE = (
    Mutant(
        "the application's samples count",
        BBR,
        "if flow.rate >= flow.max_bw or flow.sample_app_limited == 0:",
        "if True:",
        "",
    ),
    Mutant(
        "the application's rounds end Startup",
        BBR,
        "if flow.full_bw_now > 0 or flow.sample_app_limited > 0:",
        "if flow.full_bw_now > 0:",
        "bbr-application-limited",
    ),
    Mutant("losses do not end Startup", BBR, "flow.loss_events >= p.full_losses", "False", "bbr-startup-loss"),
    Mutant(
        "a spurious recovery keeps its window",
        BBR,
        'HandleSpuriousLossDetection."""\n    restore_cwnd(flow, env)',
        'HandleSpuriousLossDetection."""',
        "bbr-spurious-timeout",
    ),
    Mutant(
        "spurious losses do not bring Startup back",
        BBR,
        "if flow.undo_state == STARTUP and flow.state != STARTUP:",
        "if False:",
        "bbr-spurious-recovery",
    ),
    Mutant(
        "an idle flow is sent into ProbeRTT",
        BBR,
        "flow.probe_rtt_expired > 0 and flow.idle_restart == 0:",
        "flow.probe_rtt_expired > 0:",
        "bbr-probe-rtt-idle",
    ),
    Mutant(
        "UP grows by a packet a round", BBR, "growth = 1 << flow.bw_probe_up_rounds", "growth = 1", "bbr-bandwidth-up"
    ),
    Mutant(
        "ProbeRTT does not restore the window",
        BBR,
        "probe_rtt_min_stamp = env.now\n    restore_cwnd(flow, env)",
        "probe_rtt_min_stamp = env.now",
        "bbr-probe-rtt",
    ),
    Mutant("Drain paces at 1/2", BBRv1, "739 / 256, 88 / 256,", "739 / 256, 128 / 256,", "bbr-drain-inflight"),
    Mutant(
        "the bandwidth never expires",
        BBRv1,
        "CYCLE, BW_ROUNDS = 8, 10.0",
        "CYCLE, BW_ROUNDS = 8, 1e9",
        "bbr-bandwidth-down",
    ),
    Mutant(
        "the least RTT never expires",
        BBRv1,
        "if env.rtt < flow.min_rtt or has_expired:",
        "if env.rtt < flow.min_rtt:",
        "bbr-min-rtt-filter",
    ),
    Mutant(
        "ProbeRTT keeps the window", BBRv1, "env.window = min(env.window, MIN_PACKETS * s)\n", "pass\n", "bbr-probe-rtt"
    ),
)
"""Twelve more; as with the twenty, the list was fixed before the cases were run on it."""


def mutated(mutant: Mutant) -> str:
    """Return the file of a protocol with a fault.

    Parameters
    ----------
    mutant : Mutant

    Raises
    ------
    ValueError
        The text is not there, or more than once.
    """
    file = Path(inspect.getfile(mutant.kind))
    source = file.read_text(encoding="utf-8")
    found = source.count(mutant.text)
    if found != 1:
        raise ValueError(f"{mutant.name}: text must be once in {file.name}, is {found} times: {mutant.text!r}")
    return source.replace(mutant.text, mutant.instead)


def made(mutant: Mutant, folder: Path) -> Protocol:
    """Return a protocol with a fault, of a file in a folder.

    Parameters
    ----------
    mutant : Mutant
    folder : Path

    Raises
    ------
    ValueError
        As `mutated`.
    """
    file = folder / f"mutant_{(*MUTANTS, *MORE).index(mutant)}.py"
    file.write_text(mutated(mutant), encoding="utf-8")
    return protocol_class(f"{file}:{mutant.kind.__name__}")()


def refuted(protocol: Protocol, group: str) -> set[str]:
    """Return the ids of the cases of a group that a protocol does not pass.

    Parameters
    ----------
    protocol : Protocol
    group : str
        What their ids begin with.
    """
    return {one.claim.id for one in conform.run(protocol, [group]).findings if str(one.verdict) == "refuted"}


def main(names: list[str]) -> None:
    """Print, for each mutant, the cases that catch it, and how many are caught.

    Parameters
    ----------
    names : list of str
        Parts of names; none: all mutants.

    Raises
    ------
    SystemExit
        A name of no mutant, or a text that is not in its file: before anything is run.
    """
    every = (*MUTANTS, *MORE)
    for name in names:
        if not any(name in one.name for one in every):
            raise SystemExit(f"NAME must be a part of the name of a mutant, got {name!r}")
    chosen = [one for one in every if not names or any(name in one.name for name in names)]
    lost = []
    for one in chosen:
        try:
            mutated(one)
        except ValueError as error:
            lost.append(str(error))
    if lost:
        raise SystemExit("\n".join(lost))
    own: dict[type[Protocol], set[str]] = {}
    caught = set()
    with TemporaryDirectory() as folder:
        for one in chosen:
            group = GROUPS[one.kind]
            if one.kind not in own:
                own[one.kind] = refuted(one.kind(), group)
            found = sorted(refuted(made(one, Path(folder)), group) - own[one.kind])
            if found:
                caught.add(one)
            print(f"{one.kind.__name__:<6} {one.name:<42} {', '.join(found) or 'not caught'}", flush=True)
    for said, all_of in (("the twenty", MUTANTS), ("the twelve", MORE)):
        run = [one for one in all_of if one in chosen]
        if run:
            print(f"{sum(one in caught for one in run)} of {len(run)} caught, of {said}")


if __name__ == "__main__":
    main(sys.argv[1:])
