"""What each fluid takes of a protocol's declaration (`ecc.models.declared`)."""

from __future__ import annotations

from ecc.models.declared import Taken

__all__ = ["EQUATIONS", "GRANTED", "RECURRENCE", "SAMPLED", "STEPPED", "WINDOWS", "module_of"]

_MEASURED = ("u", "N", "N_all", "q", "C", "d", "T", "p")
_ALL_THE_TIME = "routers heed averages and queues all the time here; in packets, by intervals"
_LIMITED = {
    "scaling_rtt_limit": "RTTs above the limit that routers set them (scaling_rtt_limit) count in full in d here"
}
_WINDOW = ("w", "m", "R", "D", "T", "since", "s", "p")
_SOURCE = ("x", "x_rtt", "R", "R_prev", "D", "T", "p")

EQUATIONS = Taken(
    "a fluid run",
    {
        "router_law": ("R", "y", "y_prev", *_MEASURED),
        "announce_law": ("R", "y", "x", *_MEASURED),
        "priority_law": ("R", "y", "x", *_MEASURED),
        "source_law": _SOURCE,
    },
    {
        "combine": None, "scaling_rtt": None, "rtt_weights": None, "router_clock": None, "source_clock": None,
        "stamping": None, "windowed": None, "opening_rate": None,
    },
    {
        "interval_law": _ALL_THE_TIME,
        "queue_interval_law": _ALL_THE_TIME,
        **_LIMITED,
    },
    without_memory=("y", "x", *_MEASURED),
    acted_on={
        "router_clock": lambda router, source: "R" not in router,  # of averages
        "source_clock": lambda router, source: "x" in source or "x_rtt" in source,  # of steps from a rate
        "windowed": lambda router, source: "x" in source or "x_rtt" in source,
        "opening_rate": lambda router, source: "x" in source or "x_rtt" in source,
    },
)  # fmt: skip
"""Of `ecc.fluid.network.continuous`."""

RECURRENCE = Taken(
    "a recurrence",
    {
        "router_law": ("R", "y", "y_prev", *_MEASURED),
        "announce_law": ("R", "y", "y_prev", "x", *_MEASURED),
        "priority_law": ("R", "y", "y_prev", *_MEASURED),
        "source_law": _SOURCE,
    },
    {"combine": None, "scaling_rtt": None, "opening_rate": None},
    {
        "stamping": "",  # waits delay nothing here
        "sampled": "",  # as all are
        "rtt_weights": "routers weight RTTs by rates here, not by flows (rtt_weights)",
        **_LIMITED,
        **dict.fromkeys(
            (
                "windowed",
                "source_clock",
                "router_clock",
                "interval_law",
                "queue_interval_law",
                "stepping",
                "refusal_law",
            ),
            "routers and sources step once an interval here, whatever clocks and windows of their own they have",
        ),
    },
    without_memory=("y", "y_prev", "x", *_MEASURED),
)
"""Of `ecc.fluid.network.recurrence`: the papers' systems."""

STEPPED = Taken(
    "a fluid of steps",
    {
        "router_law": ("R", "y", "u", "N", "q", "C", "T", "p"),
        "priority_law": ("R", "y", "u", "N", "q", "C", "T", "p"),
        "refusal_law": ("R", "y", "u", "N", "q", "C", "T", "p"),
        "source_law": ("x", "x_rtt", "R", "T", "p"),
    },
    {"stepping": None, "stamping": ("arrival",)},
)
"""Of `ecc.fluid.network.stepped_rates`."""

SAMPLED = Taken(
    "a sampled fluid",
    {
        "router_law": ("R", "y", "y_prev", "q", "C", "d", "T", "p"),
        "announce_law": ("R", "y", "y_prev", "q", "C", "d", "T", "p"),
        "source_law": ("x", "x_rtt", "R", "D", "T", "p"),
    },
    {
        "combine": None, "scaling_rtt": None, "source_clock": ("interval", "always"), "stamping": ("arrival",),
        "sampled": (True,), "opening_rate": None,
    },
    _LIMITED,
)  # fmt: skip
"""Of `ecc.fluid.network.sampled_prices`."""

GRANTED = Taken(
    "a fluid of grants",
    {
        "router_law": ("x", "y", "q", "N_all", "C", "d", "T", "p"),
        "interval_law": ("d", "p"),
        "queue_interval_law": ("d", "q", "C", "p"),
        "source_law": ("x", "R", "p"),
    },
    {
        "scaling_rtt": None, "rtt_weights": ("flows",), "router_clock": ("rtt",), "source_clock": ("always",),
        "windowed": (True,),
    },
    _LIMITED,
)  # fmt: skip
"""Of `ecc.fluid.network.granted_windows`."""

WINDOWS = Taken(
    "a fluid of windows",
    {
        "router_law": ("R", "y", "q", "q_mean", "q_flow", "loss", "C", "T", "s", "p"),
        "announce_law": ("R", "y", "q", "q_mean", "C", "T", "p"),
        **dict.fromkeys(("source_law", "slow_start_law", "decrease_law", "loss_response_law", "memory_law"), _WINDOW),
    },
    {"combine": None, "receiver_window": None},
)
"""Of `ecc.fluid.network.windows`."""


_MODULES = (
    (EQUATIONS, "continuous"), (RECURRENCE, "recurrence"), (STEPPED, "stepped_rates"), (SAMPLED, "sampled_prices"),
    (GRANTED, "granted_windows"), (WINDOWS, "windows"),
)  # fmt: skip


def module_of(taken: Taken) -> str:
    """Return the module of `ecc.fluid.network` whose `run` takes that of a protocol.

    Parameters
    ----------
    taken : Taken
        One of those above.
    """
    return next(module for kind, module in _MODULES if kind is taken)
