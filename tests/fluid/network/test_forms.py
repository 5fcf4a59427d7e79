"""The forms of fluid are for any protocol that declares them, and know none by name or by parameters of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import pytest

import ecc.fluid
import ecc.models
from ecc.contract.forms import GrantedWindows, SampledPrices, SteppedRates
from ecc.contract.protocol import Protocol
from ecc.fluid import simulate
from ecc.network.network import Network
from ecc.scenario import Scenario


@dataclass(frozen=True)
class HalfSteps(Protocol):
    """Rates halve their distance to an equal share, in steps; only `interval` is a parameter."""

    interval: float = 0.05
    stamping = "arrival"

    fluid_form = SteppedRates((0, 0), False, 0.0)

    @staticmethod
    def router_law(u: Any, N: Any, C: Any) -> Any:
        return (0.9 * C - u) / N

    @staticmethod
    def source_law(x: Any, R: Any) -> Any:
        return 0.5 * (x + R)


@dataclass(frozen=True)
class SpareGrants(Protocol):
    """Routers grant half of the spare capacity in equal parts, and shuffle a tenth of the arrivals."""

    interval: float = 0.05
    combine = "min"
    windowed = True
    rtt_weights = "flows"
    router_clock = "rtt"
    source_clock = "always"

    @staticmethod
    def router_law(x: Any, y: Any, N_all: Any, C: Any) -> Any:
        spare = 0.5 * (0.9 * C - y)
        return (max(spare, 0.0) + 0.1 * y) / N_all - (max(-spare, 0.0) + 0.1 * y) * x / y

    @staticmethod
    def source_law(x: Any, R: Any) -> Any:
        return x + R

    @staticmethod
    def measured_for(d: Any) -> Any:
        return d

    @property
    def fluid_form(self) -> GrantedWindows:
        return GrantedWindows(self.measured_for, self.measured_for)


@dataclass(frozen=True)
class IntegralPrice(Protocol):
    """Prices add up what arrives above 0.9 C; rates answer each price once."""

    interval: float = 0.1
    combine = "max"
    stamping = "arrival"
    fluid_form = SampledPrices(rtt_gain=0.5)

    @staticmethod
    def router_law(R: Any, y: Any, C: Any) -> Any:
        return R + 0.1 * (y - 0.9 * C)

    @staticmethod
    def source_law(x: Any, R: Any) -> Any:
        return 0.5 * (x + 9e6 - R)

    def rate_range(self, capacity: float) -> tuple[float, float]:
        return 0.0, inf


def test_a_fluid_form_that_is_none_is_refused():
    kind = type("Formless", (HalfSteps,), {"fluid_form": "steps"})
    with pytest.raises(TypeError, match="fluid_form of Formless must be SampledPrices, SteppedRates, Granted"):
        simulate(Scenario(Network.dumbbell("10 Mb/s", rtts=[0.04]), kind(), 1.0))


@pytest.mark.parametrize(
    "protocol", [HalfSteps(), SpareGrants(), IntegralPrice()], ids=["stepped", "granted", "sampled"]
)
def test_a_protocol_of_ones_own_runs_in_its_form(protocol):
    network = Network.dumbbell("10 Mb/s", rtts=[0.04, 0.08], starts=[0.0, 2.0])
    run = simulate(Scenario(network, protocol, 40.0), sample=0.5)
    rates = run.rate.to_numpy()
    assert run.stats["stopped"] == "completed"
    assert rates[3, 0] == pytest.approx(9e6, rel=0.02)  # alone
    assert rates[-1] == pytest.approx([4.5e6, 4.5e6], rel=0.02)
    assert (run.bottleneck.to_numpy()[-1] == 0).all()


def test_no_file_of_the_fluid_names_a_protocol():
    names = "|".join(re.escape(name) for name in ecc.models.all_protocols())
    for path in Path(ecc.fluid.__file__).parent.rglob("*.py"):
        text = re.sub(r">>> .*", "", path.read_text(encoding="utf-8"))  # examples run one
        found = re.findall(rf"\b(?:{names})\b(?! \(RFC)", text)  # a transport
        assert not found, f"{path.name} names {', '.join(sorted(set(found)))}"


def test_the_solver_of_delay_equations_knows_no_network():
    for path in (Path(ecc.fluid.__file__).parent / "dde").glob("*.py"):
        imported = re.findall(r"^\s*(?:from|import) (ecc[\w.]*)", path.read_text(encoding="utf-8"), re.MULTILINE)
        wrong = [name for name in imported if re.match(r"ecc\.(fluid\.network|network|models|scenario)", name)]
        assert not wrong, f"{path.name} imports {', '.join(wrong)}"
