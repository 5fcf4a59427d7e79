"""Parts of a protocol's declaration that each kind of fluid supports (`ecc.contract.entries`)."""

from __future__ import annotations

from dataclasses import replace

from ecc.contract.entries import Taken
from ecc.contract.kinds import Kind, kind_of, router_takes, sets_windows, source_takes, steps_from_rate
from ecc.contract.protocol import Protocol

__all__ = [
    "AVERAGED",
    "EQUATIONS",
    "GRANTED",
    "MACHINES",
    "RECURRENCE",
    "ROUNDS",
    "SAMPLED",
    "STEPPED",
    "UPDATES",
    "WINDOWS",
    "taken_by",
]

_MEASURED = ("u", "N", "N_all", "q", "C", "d", "T", "p")
_ALL_THE_TIME = "routers act on averages and queues at every moment here; in packets, by intervals"
_LIMITED = {
    "scaling_rtt_limit": "RTTs above the limit that routers set them (scaling_rtt_limit) count in full in d here"
}
_WINDOW = ("w", "w_rtt", "m", "R", "D", "T", "since", "s", "a", "marked", "p")
_SOURCE = ("x", "x_rtt", "R", "R_prev", "D", "T", "p")

EQUATIONS = Taken(
    "a fluid run",
    {
        "router_law": ("R", "y", "y_prev", *_MEASURED),
        "announce_law": ("R", "y", "x", *_MEASURED),
        "priority_law": ("R", "y", "x", *_MEASURED),
        "source_law": (*_SOURCE, "s"),
    },
    {
        "combine": None,
        "scaling_rtt": None,
        "rtt_weights": None,
        "router_clock": None,
        "source_clock": None,
        "stamping": None,
        "windowed": None,
        "opening_rate": None,
        "floor": None,
        "initial": None,
        "states": None,
    },
    {
        "fluid_form": _ALL_THE_TIME,
        **_LIMITED,
    },
    without_memory=("y", "x", *_MEASURED),
    acted_on={
        "router_clock": lambda protocol: not router_takes(protocol, "R"),  # the clock of averages
        "source_clock": steps_from_rate,  # the clock of steps from a rate
        "windowed": steps_from_rate,
        "opening_rate": steps_from_rate,
        "states": lambda protocol: source_takes(protocol, "x"),  # they move as the rate is updated
    },
    of_states=(*_SOURCE, "s"),
)
"""Declaration supported by `ecc.fluid.network.continuous`."""

AVERAGED = replace(
    EQUATIONS,
    engine="an averaged fluid run",
    instead={
        "fluid_form": "routers and hosts spread every action over its interval here, and wait for no interval; in "
        "packets, they act at its end (time='continuous' has their timing)",
        **_LIMITED,
    },
)
"""Declaration supported by `ecc.fluid.network.continuous` for `time` "averaged"."""

RECURRENCE = Taken(
    "a recurrence",
    {
        "router_law": ("R", "y", "y_prev", *_MEASURED),
        "announce_law": ("R", "y", "y_prev", "x", *_MEASURED),
        "priority_law": ("R", "y", "y_prev", *_MEASURED),
        "source_law": _SOURCE,
    },
    {"combine": None, "scaling_rtt": None, "opening_rate": None, "floor": None, "initial": None},
    {
        "stamping": "",  # queueing delays do not delay feedback here
        "rtt_weights": "routers weight RTTs by rates here, not by flows (rtt_weights)",
        **_LIMITED,
        **dict.fromkeys(
            (
                "windowed",
                "source_clock",
                "router_clock",
                "fluid_form",
            ),
            "routers and sources step once an interval here, for any declared clocks and windows",
        ),
    },
    without_memory=("y", "y_prev", "x", *_MEASURED),
)
"""Declaration supported by `ecc.fluid.network.recurrence`: the papers' systems."""

STEPPED = Taken(
    "a fluid of stepped rates",
    {
        "router_law": ("R", "y", "u", "N", "q", "C", "T", "p"),
        "priority_law": ("R", "y", "u", "N", "q", "C", "T", "p"),
        "refusal_law": ("R", "y", "u", "N", "q", "C", "T", "p"),
        "source_law": ("x", "x_rtt", "R", "T", "p"),
    },
    {"fluid_form": None, "stamping": ("arrival",), "floor": None},
)
"""Declaration supported by `ecc.fluid.network.stepped_rates`."""

SAMPLED = Taken(
    "a fluid of sampled prices",
    {
        "router_law": ("R", "y", "y_prev", "q", "C", "d", "T", "p"),
        "announce_law": ("R", "y", "y_prev", "q", "C", "d", "T", "p"),
        "source_law": ("x", "x_rtt", "R", "D", "T", "p"),
    },
    {
        "combine": None,
        "scaling_rtt": None,
        "source_clock": ("interval", "always"),
        "stamping": ("arrival",),
        "fluid_form": None,
        "opening_rate": None,
        "floor": None,
    },
    _LIMITED,
)
"""Declaration supported by `ecc.fluid.network.sampled_prices`."""

GRANTED = Taken(
    "a fluid of granted windows",
    {
        "router_law": ("x", "y", "q", "N_all", "C", "d", "T", "p"),
        "interval_law": ("d", "p"),
        "queue_interval_law": ("d", "q", "C", "p"),
        "source_law": ("x", "R", "p"),
    },
    {
        "scaling_rtt": None,
        "rtt_weights": ("flows",),
        "router_clock": ("rtt",),
        "source_clock": ("always",),
        "windowed": (True,),
        "fluid_form": None,
        "initial": None,
    },
    _LIMITED,
)
"""Declaration supported by `ecc.fluid.network.granted_windows`."""

WINDOWS = Taken(
    "a fluid of windows",
    {
        "router_law": ("R", "y", "q", "q_mean", "q_flow", "loss", "C", "T", "s", "p"),
        "announce_law": ("R", "y", "q", "q_mean", "C", "T", "p"),
        **dict.fromkeys(
            ("source_law", "slow_start_law", "decrease_law", "loss_response_law", "mark_response_law", "memory_law"),
            _WINDOW,
        ),
    },
    {"combine": None, "receiver_window": None, "paced_over": None, "initial": None, "opening_window": None},
    {
        "mark_response_law": "",  # without disciplines no packet is marked
        "states": "",  # they move; only laws that take them depend on that
    },
    of_states=_WINDOW,
)
"""Declaration supported by `ecc.fluid.network.windows`."""

ROUNDS = replace(WINDOWS, engine="a fluid of windows in rounds")
"""Declaration supported by `ecc.fluid.network.rounds`."""

UPDATES = Taken(
    "a fluid of rate updates",
    {"router_law": ("q", "C", "T", "p"), "source_law": (*_SOURCE, "s")},
    {
        "combine": ("sum",),
        "source_clock": None,
        "stamping": None,
        "opening_rate": None,
        "floor": None,
        "states": None,
    },
    of_states=(*_SOURCE, "s"),
)
"""Declaration supported by `ecc.fluid.network.rate_updates`."""

MACHINES = Taken(
    "a fluid of machines",
    {},
    {"receiver_window": None, "fluid_form": None},
    {"combine": "", "initial": ""}  # losses are summed; hooks have `initial` among the parameters
    | dict.fromkeys(
        (
            "router_law",
            "source_law",
            "slow_start_law",
            "decrease_law",
            "loss_response_law",
            "mark_response_law",
            "memory_law",
            "states",
        ),
        "hosts run their machine of states here (fluid_form), and not their laws",
    ),
    needs=(),
)
"""Declaration supported by `ecc.fluid.network.machines`, a part of the fluid of windows."""

_TAKEN_OF = {
    Kind.SAMPLED_PRICES: SAMPLED,
    Kind.STEPPED_RATES: STEPPED,
    Kind.GRANTED_WINDOWS: GRANTED,
    Kind.ACK_CLOCKED_WINDOWS: WINDOWS,
    Kind.PACED_WINDOWS: WINDOWS,
    Kind.WINDOWS_WITH_STATES: WINDOWS,
    Kind.STATE_MACHINE: MACHINES,
}
"""Kind of loop -> declarations that its fluid uses; all other kinds run by their equations."""


def taken_by(protocol: Protocol, time: str, ack_clocked: bool) -> Taken:
    """Return the declaration that the fluid of a protocol supports.

    Parameters
    ----------
    protocol : Protocol
    time : str
        "continuous", "averaged" or "discrete".
    ack_clocked : bool
        Whether ACKs clock windows.

    Raises
    ------
    TypeError
        If its `fluid_form` has a wrong type.
    """
    kind = kind_of(protocol)
    sets_rates = kind is not Kind.STATE_MACHINE and not sets_windows(protocol)
    if sets_rates and time == "discrete":
        return UPDATES if kind is Kind.HOST_RATES else RECURRENCE
    if sets_rates and time == "averaged":
        return AVERAGED
    if kind is Kind.GRANTED_WINDOWS and not ack_clocked:
        return EQUATIONS
    taken = _TAKEN_OF.get(kind, EQUATIONS)
    return ROUNDS if taken is WINDOWS and time == "discrete" else taken
