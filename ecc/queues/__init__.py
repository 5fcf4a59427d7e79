"""The queue disciplines, one file each. `all_disciplines()` lists them; tables and tests iterate over that list."""

from typing import TYPE_CHECKING, NoReturn

from ecc._support.arguments import check_arguments
from ecc._support.lazy import no_attribute
from ecc.contract.protocol import Protocol
from ecc.queues.avq import AVQ
from ecc.queues.cake import CAKE
from ecc.queues.cobalt import COBALT
from ecc.queues.codel import CoDel
from ecc.queues.discipline import QueueDiscipline
from ecc.queues.drop_tail import DropTail
from ecc.queues.dual_pi2 import DualPI2
from ecc.queues.fq_codel import FQCoDel
from ecc.queues.gsp import GSP
from ecc.queues.pi import PI
from ecc.queues.pi2 import PI2
from ecc.queues.pie import PIE
from ecc.queues.policer import Policer
from ecc.queues.ramp_marking import RampMarking
from ecc.queues.red import RED
from ecc.queues.rem import REM
from ecc.queues.schedulers import DRR, StrictPriority
from ecc.queues.step_marking import StepMarking
from ecc.queues.trimming import Trimming

__all__ = [
    "AVQ",
    "CAKE",
    "COBALT",
    "DRR",
    "GSP",
    "PI",
    "PI2",
    "PIE",
    "RED",
    "REM",
    "CoDel",
    "DropTail",
    "DualPI2",
    "FQCoDel",
    "Policer",
    "QueueDiscipline",
    "RampMarking",
    "StepMarking",
    "StrictPriority",
    "Trimming",
    "all_disciplines",
]


@check_arguments
def all_disciplines() -> dict[str, type[Protocol]]:
    """Return the queue disciplines by class name.

    Returns
    -------
    dict
        Name -> class.

    Examples
    --------
    >>> "CoDel" in all_disciplines()
    True
    """
    disciplines = (
        DropTail,
        StepMarking,
        RampMarking,
        RED,
        PI,
        REM,
        AVQ,
        PIE,
        PI2,
        CoDel,
        COBALT,
        GSP,
        FQCoDel,
        CAKE,
        DualPI2,
        StrictPriority,
        DRR,
        Trimming,
        Policer,
    )
    return {cls.__name__: cls for cls in disciplines}


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> NoReturn:
        raise no_attribute(__name__, name, __all__)
