"""The protocols, one file each. `all_protocols()` lists them; everything that covers every protocol starts there."""

from ecc.models.base import Bound, Equilibrium, Protocol
from ecc.models.piqi_rcp import PIQIRCP
from ecc.models.qi_rcp import QIRCP
from ecc.models.rcp import RCP

__all__ = ["PIQIRCP", "QIRCP", "RCP", "Bound", "Equilibrium", "Protocol", "all_protocols"]


def all_protocols() -> dict[str, type[Protocol]]:
    """Return the protocols by class name."""
    return {cls.__name__: cls for cls in (RCP, QIRCP, PIQIRCP)}
