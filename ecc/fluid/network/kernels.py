"""The module that runs each fluid form: one table from the declarations of a kind of loop to its kernel."""

from __future__ import annotations

from types import ModuleType

from ecc.contract.entries import Taken
from ecc.fluid.network.supported_entries import (
    AVERAGED,
    EQUATIONS,
    GRANTED,
    RECURRENCE,
    ROUNDS,
    SAMPLED,
    STEPPED,
    UPDATES,
)

__all__ = ["kernel_of"]


def kernel_of(taken: Taken) -> ModuleType:
    """Return the module whose `run` integrates a fluid form, for example `stepped_rates` for `STEPPED`.

    Parameters
    ----------
    taken : Taken
        Declarations that the fluid form uses (`ecc.fluid.network.supported_entries`).

    Notes
    -----
    Kernels are imported here, one at a time: each compiles or loads its own code.
    """
    if taken is EQUATIONS or taken is AVERAGED:
        from ecc.fluid.network import continuous

        return continuous
    if taken is RECURRENCE:
        from ecc.fluid.network import recurrence

        return recurrence
    if taken is STEPPED:
        from ecc.fluid.network import stepped_rates

        return stepped_rates
    if taken is SAMPLED:
        from ecc.fluid.network import sampled_prices

        return sampled_prices
    if taken is GRANTED:
        from ecc.fluid.network import granted_windows

        return granted_windows
    if taken is UPDATES:
        from ecc.fluid.network import rate_updates

        return rate_updates
    if taken is ROUNDS:
        from ecc.fluid.network import rounds

        return rounds
    from ecc.fluid.network import windows  # and machines among them

    return windows
