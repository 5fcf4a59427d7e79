"""The limit cycle of a closed loop: `limit_cycle` asks the methods of `METHODS` in turn.

A method is a function of a loop, a network and a time ("continuous" or "discrete") that returns a `LimitCycle`. It
declines a loop that it does not model by a `LinearizationError` with the reason, and one whose cycle it does not find
by a `ConvergenceError`. The next method then gets the loop, unless the error is `AtRest`. To add a method, write its
module in `ecc/cycles/` and add its function to `METHODS`, before the methods that are more general.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ecc._support.arguments import check_arguments, shown
from ecc._support.reports import ProgressCallback, Step
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.protocol import Protocol
from ecc.cycles.codel import codel_cycle
from ecc.cycles.cycle_proofs import proven_cycle
from ecc.cycles.declared import declared_cycle
from ecc.cycles.delay_targets import delay_target_cycle
from ecc.cycles.delayed_windows import delayed_window_cycle
from ecc.cycles.limit_cycle import AtRest, LimitCycle
from ecc.cycles.load_reports import load_report_cycle
from ecc.cycles.losses import loss_cycle
from ecc.cycles.observed import observed_cycle
from ecc.cycles.probing import probing_cycle
from ecc.cycles.random_cycles import random_cycle
from ecc.cycles.rate_updates import rate_update_cycle
from ecc.cycles.reference_cases import cycle_case, host_of, named_protocol
from ecc.cycles.relays import relay_limit_cycle
from ecc.cycles.round_maps import round_map_cycle
from ecc.cycles.step_marking import step_marking_cycle
from ecc.errors import ConvergenceError, LinearizationError
from ecc.network.network import Network

__all__ = ["METHODS", "TIMES", "limit_cycle"]

Loop = Protocol | ProtocolAssignment
TIMES = ("continuous", "discrete")

METHODS: tuple[Callable[[Loop, Network, str], LimitCycle], ...] = (
    declared_cycle,
    round_map_cycle,
    relay_limit_cycle,
    load_report_cycle,
    step_marking_cycle,
    loss_cycle,
    codel_cycle,
    probing_cycle,
    random_cycle,
    rate_update_cycle,
    delay_target_cycle,
    delayed_window_cycle,
    observed_cycle,
)
"""The methods, in the order in which they are asked: special ones first, the cycles observed in fluid runs last."""


@check_arguments
def limit_cycle(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any] | type | str,
    network: Network | None = None,
    time: str = "continuous",
    certify: bool = False,
    *,
    progress: ProgressCallback | None = None,
) -> LimitCycle:
    """Return the limit cycle of a closed loop, with the multipliers of deviations over a period.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment, mapping, class or str
        Protocol; hosts and queue disciplines, {"flows": ..., "links": ...}, as for `Scenario`; or a class or its name,
        for example "NewReno", for its default parameters.
    network : Network, optional
        None: the network of `cycle_loop` of the hosts, or else of their `reference_loop`, with its queue discipline.
    time : str, optional
        "continuous": of the fluid, with exact delays. "discrete": of the map from one round to the next.
    certify : bool, optional
        Prove the cycle by interval arithmetic, as `prove_cycle` does. In discrete time only.
    progress : callable, optional
        Called with a `Progress` before each method is tried: its name, as `text`.

    Returns
    -------
    LimitCycle
        Cycle of the first method of `ecc.cycles.closed_loop.METHODS` that finds one.

    Raises
    ------
    ValueError
        An unknown time or name; `certify` in continuous time.
    LinearizationError
        No method finds a cycle; the message has the reasons of the methods that model the loop, else of all.

    Examples
    --------
    >>> cycle = limit_cycle("Vivace", time="discrete")
    >>> round(cycle.dominant.real, 4), cycle.stable
    (0.8441, True)
    """
    if time not in TIMES:
        raise ValueError(f"time must be one of {', '.join(TIMES)}, got {shown(time)}")
    if certify and time != "discrete":
        raise ValueError(f"certify must be False for time {shown(time)}: proofs are of maps from round to round")
    loop = named_protocol(protocol)
    if network is None:
        loop, network = cycle_case(loop)
    declined, failed = dict[str, None](), dict[str, None]()
    for number, method in enumerate(METHODS, 1):
        if progress is not None:
            words = method.__name__.replace("_", " ")
            progress(Step(f"method {number} of {len(METHODS)}, {words}", (number - 1) / len(METHODS)))
        try:
            cycle = method(loop, network, time)
            return proven_cycle(cycle, loop, network) if certify and not cycle.proven else cycle
        except AtRest as error:
            failed[str(error)] = None
            break  # a run would show noise at most
        except LinearizationError as error:
            declined[str(error)] = None
        except ConvergenceError as error:
            failed[str(error)] = None
    why = "; ".join(failed or declined) or "no method models its kind of loop"
    raise LinearizationError(f"{type(host_of(loop)).__name__} has no computed cycle in {time} time: {why}")
