"""Analysis of a closed loop with a known open loop: Nyquist curve, margins, and the object of python-control."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from ecc._support.arguments import check_arguments
from ecc.linear.coupled_loops import loops_cut
from ecc.linear.frequency_response import FrequencyResponse, nyquist
from ecc.linear.interop import to_control
from ecc.linear.margins import Margins, margins
from ecc.linear.systems import LinearSystem

__all__ = ["ClosedLoop"]


@check_arguments
@dataclass(frozen=True, eq=False, repr=False, init=False)
class ClosedLoop(LinearSystem):
    """A linear system with delays together with the same system with its loop opened (`opened`)."""

    def nyquist(self, omega: ArrayLike | None = None) -> FrequencyResponse:
        """Return the open loop on the boundary of stability.

        Parameters
        ----------
        omega : array_like, shape (m,), optional
            Frequencies, rad/s (DelaySystem) or rad/step (SampledSystem); None: a mesh fine enough for a figure.

        Returns
        -------
        FrequencyResponse
            omega and response.

        Raises
        ------
        ValueError
            `opened` is missing, or a frequency is not finite.
        """
        return replace(nyquist(self, omega), unmarked=self._without_margins)

    def _without_margins(self) -> str:
        """Return the reason why the crossings of the Nyquist curve are not margins; "" if they are."""
        if self.verdict != "stable":
            return f"no margins are marked: the verdict on the closed loop is {self.verdict!r}"
        if sum(loops_cut(group) for group in self._cut_groups()) > 1:
            return "no margins are marked: the curve is det(I + L) - 1 of several loops, not a loop gain"
        return ""

    def margins(self) -> Margins:
        """Return gain, phase, delay and modulus margins over all crossings; for several loops, those of each.

        See `ecc.linear.margins.Margins`.

        Raises
        ------
        ValueError
            `opened` is missing.
        """
        return margins(self)

    def to_control(self) -> Any:
        """Return the python-control object of this system, without any approximation of delays.

        Returns
        -------
        object
            StateSpace with dt (SampledSystem): the companion form, from a disturbance of x[n+1] to x[n].
            FrequencyResponseData (DelaySystem): exact samples of the open loop.

        Raises
        ------
        ValueError
            A DelaySystem has no `opened`, or a SampledSystem has more than 5000 companion states.
        ImportError
            python-control is not installed.
        """
        return to_control(self)
