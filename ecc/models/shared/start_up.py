"""Base class of window protocols with choices for the start, idle periods and applications that send little.

    slow_start           how slow start ends                         `ecc.models.shared.hystart`, `search`
    application_limited  growth of windows that are not used         `application_limits`
    restart              window after an idle period                 `windows`
    saved_window         start with an earlier flow's window         `careful_resume`

Each part wraps the hooks of the class, so that a class derived from this one needs no change in its hooks. They call
`windows.opens` or `windows.is_window_limited` before they grow a window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ecc._support.arguments import shown
from ecc._support.display import quantity_text
from ecc._support.quantity import SIZE, TIME, OptionalQuantityField, OptionalSizeField, as_delay, as_size, default
from ecc.contract.env import Hook
from ecc.contract.parameters import check_choice
from ecc.contract.records import with_fields
from ecc.models.shared import application_limits, careful_resume, hystart
from ecc.network.network import Network

__all__ = ["StartUpProtocol"]


@dataclass(frozen=True, kw_only=True)
class StartUpProtocol(hystart.SlowStartProtocol):
    """Base class of the protocols with choices for start-up and application limits.

    Parameters
    ----------
    application_limited : str
        Growth of a window while the application or the receiver limits its flow: "flight", "linux", "rfc9002" (RFC 9002
        sec. 7.8), "ratelimited" (draft-ietf-ccwg-ratelimited-increase), "rfc7661" (with `restart` "rfc7661"), or
        "none", growth without a limit. See `ecc.models.shared.application_limits`. It does not change fluid runs, whose
        flows use their windows.
    saved_window : int, bytes, >= 1, or None
        Window that an earlier flow used on this path, for example "450 kB": after the initial window, the flow jumps to
        half of it (Careful Resume, RFC 9959; packet runs only). None: no jump. See `ecc.models.shared.careful_resume`.
    saved_rtt : float, s, > 0, or None
        Minimum RTT of the earlier flow, for example "50 ms"; required with `saved_window`.
    slow_start, search_threshold, search_drain, transport, lost_retransmission, prr, initial, receiver_window, min_rto,
    initial_rto, L, restart, ecn
        See `SlowStartProtocol`.

    Raises
    ------
    ValueError, TypeError
        A parameter out of range.
    """

    application_limited: str = application_limits.FLIGHT
    saved_window: OptionalSizeField = default(None)
    saved_rtt: OptionalQuantityField = default(None)

    dimensions = {"saved_window": SIZE, "saved_rtt": TIME}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "application_limited", application_limits.APPLICATION_LIMITS)
        if self.application_limited == application_limits.RFC7661 and self.restart != application_limits.RFC7661:
            raise ValueError(
                "restart must be 'rfc7661' with application_limited 'rfc7661', which keeps windows in idle periods, "
                f"got {self.restart!r}"
            )
        if (self.saved_window is None) != (self.saved_rtt is None):
            raise ValueError(
                "saved_window and saved_rtt must both have a value, or both be None, "
                f"got {shown(self.saved_window)} and {shown(self.saved_rtt)}"
            )
        if self.saved_window is not None and self.saved_rtt is not None:
            object.__setattr__(self, "saved_window", as_size(self.saved_window, "saved_window"))
            object.__setattr__(self, "saved_rtt", as_delay(self.saved_rtt, "saved_rtt", positive=True))

    def params(self) -> dict[str, float]:
        if self.saved_window is None or self.saved_rtt is None:
            return super().params()
        return {"saved_window": float(self.saved_window), "saved_rtt": float(self.saved_rtt), **super().params()}

    def flow_record(self) -> Any:
        record = super().flow_record()
        if self.application_limited in application_limits.STATES:
            record = with_fields(record, application_limits.STATES[self.application_limited])
        return with_fields(record, careful_resume.FlowState) if self.saved_window is not None else record

    def network_notes(self, network: Network) -> tuple[str, ...]:
        notes = super().network_notes(network)
        if self.saved_window is None or self.saved_rtt is None:
            return notes
        if network.n_flows > 1:
            note = f"saved_window is for one flow at a time (RFC 9959), and {network.n_flows} flows begin with it"
            notes = (*notes, note)
        low, high = careful_resume.MIN_RTT * self.saved_rtt, careful_resume.MAX_RTT * self.saved_rtt
        for rtt in [float(rtt) for rtt in network.rtts if not low < rtt <= high][:1]:
            notes = (
                *notes,
                f"saved_rtt ({quantity_text(self.saved_rtt, 's')}) does not fit an RTT of {quantity_text(rtt, 's')}: a "
                f"flow jumps only if its minimum RTT is above {quantity_text(low, 's')} and at most "
                f"{quantity_text(high, 's')}",
            )
        return notes

    @property
    def fluid_refusal(self) -> str | None:
        if self.saved_window is None:
            return super().fluid_refusal
        return f"{type(self).__name__}(saved_window=...) has no fluid model: its jump ends at single ACKs"

    def _completed_flow_hooks(self, hooks: Mapping[str, Hook]) -> dict[str, Hook]:
        completed = application_limits.with_rule(super()._completed_flow_hooks(hooks), self.application_limited)
        return careful_resume.resuming(completed) if self.saved_window is not None else completed
