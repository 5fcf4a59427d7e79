"""A parameter that is exactly 0, 1 or 2 gives the model of the values beside it, for every protocol and parameter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ecc
from ecc.contract.assignment import parameter_names
from ecc.contract.kinds import Kind, kind_of_laws, sets_windows
from ecc.contract.protocol import Protocol
from ecc.errors import EccError
from ecc.loops.closed_loop import linearize
from ecc.stability import critical_gain

NETWORKS = {
    "dumbbell": ecc.Network.dumbbell("100 Mb/s", [0.12, 0.12, 0.3]),
    "parking lot": ecc.Network.parking_lot(["97 Mb/s", "80 Mb/s"], delay="21 ms"),
    "data center": ecc.Network.dumbbell("10 Gb/s", ["10 us", "10 us", "12 us"]),
    "equal RTTs": ecc.Network.dumbbell("100 Mb/s", ["30 ms"] * 2),
    "media": ecc.Network.dumbbell("1 Mb/s", ["50 ms", "50 ms", "80 ms"]),
}
ONLY = {"data center": ("PatchedTIMELY", "DCQCN"), "media": ("NADA",)}
"""Networks for protocols that allow no longer RTTs, or no higher rates."""
S = 1j * np.array([0.3, 2.0, 9.0, 40.0]) + np.array([0.0, 0.1, -0.1, 0.3])
Z = np.exp(1j * np.array([0.02, 0.3, 1.5, 3.0])) * np.array([1.0, 1.1, 1.05, 1.0])  # powers of smaller ones overflow
PROTOCOLS = [
    kind
    for kind in (getattr(ecc.models, name) for name in ecc.models.__all__)
    if isinstance(kind, type) and issubclass(kind, Protocol) and kind is not Protocol and kind.times
]


def models(protocol, name, value):
    """The linear models that a protocol has at a value of a parameter: (network, time) -> system."""
    options = {"clocking": "rate"} if sets_windows(protocol) else {}
    out = {}
    for title, network in NETWORKS.items():
        own = [name for name, names in ONLY.items() if type(protocol).__name__ in names]
        if (own or [title]) != [title] or (title in ONLY and not own):
            continue
        if title == "equal RTTs" and kind_of_laws(protocol) is not Kind.ROUND_MAP:
            continue
        for time in protocol.times:
            try:
                out[title, time] = linearize(replace(protocol, **{name: value}), network, time, **options)
            except (ValueError, EccError):
                continue
    return out


DEAR = (
    "RCP",
    "PIQIRCP",
    "MKC",
    "XCP",
    "MaxNet",
    "DCQCN",
    "PatchedTIMELY",
    "HPCC",
    "PowerTCP",
    "ABC",
    "Vivace",
    "NADA",
    "ThetaPowerTCP",
    "FAST",
    "EMKCAVQ",
    "SPERC",
    "Kelly",
)
"""Protocols of many gains, or of costly equilibria, whose models take seconds together."""
DEAREST = ("XCP", "MaxNet", "PatchedTIMELY")
"""Those of them whose models take half a minute and more."""


def marks(kind):
    found = [pytest.mark.slow] if kind.__name__ in DEAR else []
    return [*found, pytest.mark.extensive] if kind.__name__ in DEAREST else found


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.__name__, marks=marks(kind)) for kind in PROTOCOLS])
def test_models_are_continuous_where_a_parameter_is_a_round_number(kind):
    protocol, compared = kind(), 0
    for name in parameter_names(protocol):
        for value in (0.0, 1.0, 2.0):
            exact = models(protocol, name, value)
            below, above = (models(protocol, name, value + step) if exact else {} for step in (-1e-9, 1e-9))
            for where, system in exact.items():
                at = S if where[1] == "continuous" else Z
                loop = system.open_loop(at)
                near = [side[where] for side in (below, above) if where in side]
                loops = [other.open_loop(at) for other in near]
                for one in loops:
                    assert np.all(np.abs(loop - one) <= 1e-6 * (1.0 + np.abs(loop))), (name, value, where)
                    compared += 1
                if all(np.array_equal(loop, one) for one in loops):  # the model is without this parameter
                    continue
                verdicts = {other.verdict for other in near}
                if len(verdicts) == 1 and "undecided" not in {system.verdict, *verdicts}:  # else a boundary is near
                    assert {system.verdict} == verdicts, (name, value, where)
    assert compared > 0


def test_a_source_with_tau1_of_exactly_1_keeps_its_lag():
    """THESIS (4.60) with (4.56): [(tau1 + tau2) - tau2 e^-sT]/(s T + tau1 e^-sT), whatever tau1 is."""
    net = ecc.Network.dumbbell("100 Mb/s", [0.03])
    for tau1, tau2 in ((1.0, 1.0), (1.0, 0.0), (1.0, 0.25)):
        protocol = ecc.models.PIQIRCP(alpha=0.3, tau1=tau1, tau2=tau2)
        lag = np.exp(-S * protocol.interval)
        router = 0.3 * (1.0 + lag) / (S * 0.03)
        source = (tau1 + tau2 - tau2 * lag) / (S * protocol.interval + tau1 * lag)
        loop = router * source * np.exp(-0.03 * S)
        assert linearize(protocol, net).open_loop(S) == pytest.approx(loop, rel=1e-10)
    found = [critical_gain(ecc.models.PIQIRCP(tau1=tau1, tau2=1.0), net, "alpha").value for tau1 in (1.0, 1.000001)]
    assert found == pytest.approx([0.58477, 0.58477], abs=2e-5)
