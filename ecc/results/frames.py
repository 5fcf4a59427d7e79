"""Frames of real-time media at their receivers, read from a run that has recorded their fields.

The receivers of `ecc.models.shared.encoder` keep the capture and the completion of their last frames. A run that
records these fields (`FRAME_FIELDS`) has every frame, if at most 16 frames of a flow become complete in a sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecc._support.arguments import check_arguments, shown
from ecc.models.shared.encoder import RING
from ecc.results.trajectory import Trajectory

__all__ = ["FRAME_FIELDS", "Frames", "frames"]

FRAME_FIELDS = (
    "flow.complete",
    "flow.receiving",
    *(f"flow.{field}[{place}]" for field in ("captured", "completed", "frame") for place in range(RING)),
)
"""Fields to record in a packet run or live run of flows that send frames: `record=[*ecc.metrics.FRAME_FIELDS]`."""
LONG = 3.0  # intervals, a gap of which is a freeze
LATE = 0.15  # s, a gap longer than an interval by this is a freeze


@check_arguments
@dataclass(frozen=True)
class Frames:
    """The complete frames of a flow, in the order of their completion.

    Attributes
    ----------
    number : ndarray of int
        Number of each frame, from 1 in the order of capture. Frames that are missing have lost a packet.
    captured, completed : ndarray, s
        Times of capture, and of arrival of the last packet.
    first, last : int
        Numbers of the first and of the last frame that could be complete. A packet of the last one has arrived; at the
        end of a run others of its packets may be in flight.
    """

    number: NDArray[np.int64]
    captured: NDArray[np.float64]
    completed: NDArray[np.float64]
    first: int
    last: int

    @property
    def delay(self) -> NDArray[np.float64]:
        """Time from capture to completion of each frame [s]."""
        return self.completed - self.captured

    @property
    def interval(self) -> float:
        """Time between two captures [s]: the median over pairs of frames; nan for fewer than two frames."""
        steps = np.diff(self.number)
        return float(np.median(np.diff(self.captured) / steps)) if len(steps) else float("nan")

    @property
    def lost(self) -> int:
        """Number of frames that never became complete, from `first` to `last`."""
        return self.last - self.first + 1 - len(self.number)

    @property
    def gaps(self) -> NDArray[np.float64]:
        """Times between two completions [s], without pauses of the encoder between two successive frames."""
        if len(self.number) < 2:
            return np.zeros(0)
        pauses = np.where(np.diff(self.number) == 1, np.diff(self.captured) - self.interval, 0.0)
        gaps: NDArray[np.float64] = np.diff(self.completed) - np.maximum(pauses, 0.0)
        return gaps

    @property
    def freezes(self) -> NDArray[np.float64]:
        """Gaps that viewers see as freezes [s]: of 3 intervals or more, and 150 ms longer than an interval or more.

        This is the definition of freezeCount in the W3C's statistics of WebRTC, with the interval of captures.
        """
        gaps = self.gaps
        return gaps[gaps >= max(LONG * self.interval, self.interval + LATE)] if len(gaps) else gaps

    def between(self, begin: float, end: float) -> Frames:
        """Return the frames that were captured in a span of time, and the incomplete ones next to them.

        Parameters
        ----------
        begin, end : float, s
        """
        inside = (self.captured >= begin) & (self.captured < end)
        earlier, later = self.number[self.captured < begin], self.number[self.captured >= end]
        first = int(earlier[-1]) + 1 if len(earlier) else self.first
        last = int(later[0]) - 1 if len(later) else self.last
        return Frames(self.number[inside], self.captured[inside], self.completed[inside], first, last)


@check_arguments
def frames(run: Trajectory, flow: int = 0) -> Frames:
    """Return the complete frames of a flow.

    Parameters
    ----------
    run : Trajectory
        Packet run or live run that has recorded `FRAME_FIELDS`.
    flow : int, optional
        Index of the flow.

    Returns
    -------
    Frames
        Empty if no frame became complete.

    Raises
    ------
    ValueError
        The run has not recorded the fields, has no such flow, or has samples with more than 16 complete frames.

    Examples
    --------
    >>> import ecc
    >>> network = ecc.Network.dumbbell("2 Mb/s", rtts=["50 ms"])
    >>> scenario = ecc.Scenario(network, ecc.models.NADA(frames=30.0), duration=2.0)
    >>> run = ecc.packet.simulate(scenario, sample=0.1, record=[*ecc.metrics.FRAME_FIELDS])
    >>> len(ecc.metrics.frames(run).delay)
    59
    """
    if missing := [name for name in FRAME_FIELDS if name not in run.data]:
        raise ValueError(
            f"frames needs a run of media hosts with record=[*ecc.metrics.FRAME_FIELDS], got one without {missing[0]}"
        )
    columns = {name: run.data[name].to_numpy() for name in FRAME_FIELDS}
    counts = columns["flow.complete"]
    if not 0 <= flow < counts.shape[1]:
        raise ValueError(f"flow must be from 0 to {counts.shape[1] - 1}, got {shown(flow)}")
    total = 0
    complete: list[tuple[float, float, float]] = []
    for sample, count in enumerate(np.nan_to_num(counts[:, flow]).astype(int).tolist()):
        if count - total > RING:
            raise ValueError(
                f"sample must be short enough for at most {RING} complete frames, got {count - total} in the one that "
                f"ends at {float(run.data['time'][sample]):g} s"
            )
        for index in range(total, count):
            place = index % RING
            values = (columns[f"flow.{field}[{place}]"][sample, flow] for field in ("frame", "captured", "completed"))
            complete.append(tuple(float(value) for value in values))  # type: ignore[arg-type]
        total = max(total, count)
    table = np.array(complete).reshape(-1, 3)
    last = int(np.nan_to_num(columns["flow.receiving"][-1, flow]))
    return Frames(table[:, 0].astype(np.int64), table[:, 1], table[:, 2], 1, last)
