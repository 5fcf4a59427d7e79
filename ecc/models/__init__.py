"""The protocols, one file each. `all_protocols()` lists them; code that covers every protocol uses this list."""

from typing import TYPE_CHECKING, NoReturn

from ecc._support.arguments import check_arguments
from ecc._support.lazy import no_attribute
from ecc.contract.equilibrium import Bound, Equilibrium
from ecc.contract.protocol import Protocol
from ecc.models.accel_brake import ABC
from ecc.models.aurora import Aurora
from ecc.models.bbr import BBR
from ecc.models.bbr1 import BBRv1
from ecc.models.bbr2 import BBRv2
from ecc.models.bic import BIC
from ecc.models.c4 import C4
from ecc.models.compound import Compound
from ecc.models.constant_rate import ConstantRate
from ecc.models.copa import Copa
from ecc.models.cubic import CUBIC
from ecc.models.dcqcn import DCQCN
from ecc.models.dctcp import DCTCP
from ecc.models.edn import EDN
from ecc.models.emkc import EMKC
from ecc.models.emkc_avq import EMKCAVQ
from ecc.models.expresspass import ExpressPass
from ecc.models.fast import FAST
from ecc.models.gcc import GCC
from ecc.models.hpcc import HPCC
from ecc.models.jetmax import JetMax
from ecc.models.kelly import Kelly
from ecc.models.maxnet import MaxNet
from ecc.models.mkc import MKC
from ecc.models.nada import NADA
from ecc.models.newreno import NewReno
from ecc.models.nscc import NSCC
from ecc.models.orca import Orca
from ecc.models.pedn import PEDN
from ecc.models.piqi_rcp import PIQIRCP
from ecc.models.policy import Policy
from ecc.models.powertcp import PowerTCP, ThetaPowerTCP
from ecc.models.prague import Prague
from ecc.models.qi_rcp import QIRCP
from ecc.models.rcp import RCP
from ecc.models.scream import SCReAM
from ecc.models.sperc import SPERC
from ecc.models.swift import Swift
from ecc.models.timely import TIMELY, PatchedTIMELY
from ecc.models.util import UTIL
from ecc.models.vcp import VCP
from ecc.models.vegas import Vegas
from ecc.models.vivace import Vivace
from ecc.models.xcp import XCP

__all__ = [
    "ABC", "BBR", "BIC", "C4", "CUBIC", "DCQCN", "DCTCP", "EDN", "EMKC", "EMKCAVQ", "FAST", "GCC", "HPCC", "MKC",
    "NADA", "NSCC", "PEDN", "PIQIRCP", "QIRCP", "RCP", "SPERC", "TIMELY", "UTIL", "VCP", "XCP", "Aurora", "BBRv1",
    "BBRv2", "Bound", "Compound", "ConstantRate", "Copa", "Equilibrium", "ExpressPass", "JetMax", "Kelly", "MaxNet",
    "NewReno", "Orca", "PatchedTIMELY", "Policy", "PowerTCP", "Prague", "Protocol", "SCReAM", "Swift", "ThetaPowerTCP",
    "Vegas", "Vivace", "all_protocols",
]  # fmt: skip


@check_arguments
def all_protocols(unresponsive: bool = False) -> dict[str, type[Protocol]]:
    """Return the protocols by class name.

    Parameters
    ----------
    unresponsive : bool, optional
        Whether to include traffic that responds to no feedback, `ConstantRate`.

    Returns
    -------
    dict
        Name -> class, in alphabetical order.

    Examples
    --------
    >>> "PIQIRCP" in all_protocols()
    True
    """
    routed = (
        XCP,
        RCP,
        QIRCP,
        PIQIRCP,
        JetMax,
        MaxNet,
        MKC,
        EMKC,
        EMKCAVQ,
        Kelly,
        TIMELY,
        PatchedTIMELY,
        DCQCN,
        NADA,
        GCC,
        SCReAM,
    )
    windows = (
        NewReno,
        CUBIC,
        Compound,
        BBR,
        BBRv1,
        BBRv2,
        DCTCP,
        Prague,
        BIC,
        Vegas,
        FAST,
        Copa,
        Vivace,
        C4,
        Aurora,
        Orca,
        Swift,
        HPCC,
        PowerTCP,
        ThetaPowerTCP,
        NSCC,
        ABC,
        VCP,
        UTIL,
        EDN,
        PEDN,
    )
    extra = (ConstantRate,) if unresponsive else ()
    return {cls.__name__: cls for cls in (*routed, SPERC, ExpressPass, *windows, *extra)}


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> NoReturn:
        raise no_attribute(__name__, name, __all__)
