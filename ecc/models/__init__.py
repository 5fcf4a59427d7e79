"""The protocols, one file each, imported when they are first used; `all_protocols()` lists them."""

import sys
from typing import TYPE_CHECKING

from ecc._support.arguments import check_arguments
from ecc._support.lazy import lazy
from ecc.contract.equilibrium import Bound, Equilibrium
from ecc.contract.protocol import Protocol

if TYPE_CHECKING:
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

PROTOCOLS = {
    "XCP": "xcp",
    "RCP": "rcp",
    "QIRCP": "qi_rcp",
    "PIQIRCP": "piqi_rcp",
    "JetMax": "jetmax",
    "MaxNet": "maxnet",
    "MKC": "mkc",
    "EMKC": "emkc",
    "EMKCAVQ": "emkc_avq",
    "Kelly": "kelly",
    "TIMELY": "timely",
    "PatchedTIMELY": "timely",
    "DCQCN": "dcqcn",
    "NADA": "nada",
    "GCC": "gcc",
    "SCReAM": "scream",
    "SPERC": "sperc",
    "ExpressPass": "expresspass",
    "NewReno": "newreno",
    "CUBIC": "cubic",
    "Compound": "compound",
    "BBR": "bbr",
    "BBRv1": "bbr1",
    "BBRv2": "bbr2",
    "DCTCP": "dctcp",
    "Prague": "prague",
    "BIC": "bic",
    "Vegas": "vegas",
    "FAST": "fast",
    "Copa": "copa",
    "Vivace": "vivace",
    "C4": "c4",
    "Aurora": "aurora",
    "Orca": "orca",
    "Swift": "swift",
    "HPCC": "hpcc",
    "PowerTCP": "powertcp",
    "ThetaPowerTCP": "powertcp",
    "NSCC": "nscc",
    "ABC": "accel_brake",
    "VCP": "vcp",
    "UTIL": "util",
    "EDN": "edn",
    "PEDN": "pedn",
    "ConstantRate": "constant_rate",
}
"""Protocol -> the module that defines it, in the order of tables; the last one responds to no feedback."""
_OTHERS = {"Policy": "policy"}


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
    names = [name for name in PROTOCOLS if unresponsive or name != "ConstantRate"]
    return {name: getattr(sys.modules[__name__], name) for name in names}


if not TYPE_CHECKING:  # type checkers would accept any name
    _modules = dict.fromkeys([*PROTOCOLS.values(), *_OTHERS.values(), "monitor_intervals", "shared"])
    _eager = dict.fromkeys(["Bound", "Equilibrium", "Protocol", "all_protocols"])
    __getattr__, __dir__ = lazy(__name__, {**PROTOCOLS, **_OTHERS, **_eager, **_modules}, hidden=_modules)
