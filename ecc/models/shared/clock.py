"""Comparisons of times in hooks that do not depend on the start time of a run.

The engine's clock counts whole picoseconds, and hooks see it in seconds. Two times that are equal on the clock may
differ in the last bit once a duration is added to one of them, and the difference depends on the time since the start
of the run. On links whose packets take whole microseconds, such equal times are frequent: an ACK that returns exactly
an RTT after a packet left, or a queue that has been long for exactly 100 ms. Within half a picosecond, times count as
equal. Rounding stays below that in runs of up to 1000 s.
"""

HALF_PICOSECOND = 0.5e-12  # s


def has_come(now: float, due: float) -> bool:
    """Return whether a time is reached or over."""
    return now >= due - HALF_PICOSECOND


def is_over(now: float, due: float) -> bool:
    """Return whether a time has been over for a picosecond or more."""
    return now > due + HALF_PICOSECOND
