"""Several protocols of windows in one fluid: each by its own laws, beside others over one queue as beside itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import ecc
from ecc.contract.states import State
from ecc.fluid import simulate
from ecc.fluid.network.disciplines import discipline_refusal
from ecc.models import CUBIC, DCTCP, FAST, RCP, VCP, NewReno
from ecc.network.network import Flow, Link, Network
from ecc.queues import PI, PI2, PIE, RED, CoDel, DualPI2, FQCoDel
from ecc.scenario import Scenario
from tests.fluid.network.test_disciplines import Constant

NET = Network.dumbbell("10 Mb/s", rtts=[0.05] * 4, packet_size=1000, buffer="100 kB")
MIX = {"2-3": "newreno", "default": "sack"}


@dataclass(frozen=True)
class Scalable(DCTCP):
    """DCTCP for low latency: ECT(1)."""

    ecn_echo = "scalable"


def both(host, discipline, network=NET, **options):
    """Runs of flows of which half recover losses in another way, which changes no law of the fluid, and without."""
    hosts = {name: replace(host, transport=transport) for name, transport in MIX.items()}
    links = {} if discipline is None else {"links": discipline}
    return [
        simulate(Scenario(network, {"flows": flows} | links, 2.0), **options)
        for flows in (hosts, {"default": replace(host, transport="sack")})
    ]


OVER = [
    (NewReno(ecn=True), RED(mark=True, min_threshold=5, max_threshold=60)),
    (NewReno(), PI2(mark=True)),
    (CUBIC(ecn=True), CoDel(mark=True)),
    (DCTCP(), FQCoDel(mark=True)),
    (Scalable(), DualPI2()),
]


@pytest.mark.parametrize("signals", ["rate", "random"])
@pytest.mark.parametrize(("host", "discipline"), [*OVER, (FAST(), None)], ids=lambda one: type(one).__name__)
def test_one_host_under_two_names_runs_as_one(host, discipline, signals):
    """To the bit, where packets are marked."""
    if discipline is None and signals == "random":
        with pytest.raises(ValueError, match="signals must be 'rate' if no link has a queue discipline"):
            both(host, discipline, signals=signals)
    else:
        one, other = both(host, discipline, signals=signals)
        assert set(one.data.data_vars) == set(other.data.data_vars)
        for name in one.data.data_vars:
            if host.ecn_echo is None:  # drops are added up flow by flow, which rounds
                assert one[name].to_numpy() == pytest.approx(other[name].to_numpy(), rel=1e-9, nan_ok=True), name
            else:
                assert np.array_equal(one[name], other[name], equal_nan=True), name


@pytest.mark.parametrize(("host", "discipline"), OVER[:2], ids=lambda one: type(one).__name__)
def test_one_host_under_two_names_has_one_equilibrium(host, discipline):
    one, other = both(host, discipline, start="equilibrium", clocking="rate", perturbation=0.01)
    for name in ("rate", "queue", "marks", "drops"):
        assert one[name].to_numpy() == pytest.approx(other[name].to_numpy(), rel=1e-6, abs=1e-6), name


def test_routers_that_average_serve_their_own_hosts():
    """A flow of another protocol that has not begun changes nothing."""
    flows = [Flow([0], access_delay=0.02), Flow([0], access_delay=0.03, start=9.0)]
    network = Network([Link("10 Mb/s", "5 ms", buffer="100 kB")], flows)
    mixed, alone = (
        simulate(Scenario(network, protocol, 5.0), record=["link.R"])
        for protocol in ({"flows": {0: VCP(), 1: NewReno()}}, VCP())
    )
    assert float(mixed["link.R"].max()) > 0.0
    for name in ("rate", "queue", "link.R"):
        assert np.array_equal(mixed[name], alone[name])
    shared = simulate(Scenario(network, {"flows": {0: VCP(), 1: NewReno()}}, 20.0))
    assert float(shared.rate[-20:, 1].mean()) > 1e6


def test_who_cannot_be_marked_is_dropped():
    """Misra, Gong, Towsley 2000: w = s sqrt(2/p); of a drop the ACKs are missing as well."""
    p, rtt = 0.01, 0.05
    network = Network.dumbbell("1 Gb/s", rtts=[rtt] * 4, packet_size=1000, buffer="10 MB")
    protocol = {"flows": {"0-1": NewReno(ecn=True), "default": NewReno()}, "links": Constant(mark=True, probability=p)}
    run = simulate(Scenario(network, protocol, 60.0), sample=0.5, record=["env.window"])
    window = run["env.window"][-20:].mean("time").to_numpy() / 1000.0
    assert window == pytest.approx(np.sqrt(2.0 / p) * np.array([1.0, 1.0, 0.99**0.5, 0.99**0.5]), rel=0.005)
    sent = run.rate.sum("time").to_numpy() * 0.5 / 8000.0
    assert float(run.marks.sum()) == pytest.approx(p * sent[:2].sum(), rel=0.01)
    assert float(run.drops.sum()) == pytest.approx(p * sent[2:].sum(), rel=0.01)
    assert run.flows["lost"].to_numpy() == pytest.approx([0.0, 0.0, *(1000.0 * p * sent[2:])], rel=0.01, abs=1e-6)


@pytest.mark.slow
def test_states_are_those_of_who_has_them():
    protocol = {"flows": {0: DCTCP(), 1: CUBIC(ecn=True), "default": NewReno()}, "links": PI2(mark=True)}
    names = ["env.window", "flow.alpha", "flow.K", "link.root"]
    run = simulate(Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05] * 3), protocol, 2.0), record=names)
    assert np.isfinite(run["env.window"]).all() and np.isfinite(run["link.root"]).all()
    for name, owner in (("flow.alpha", 0), ("flow.K", 1)):
        assert np.array_equal(np.isfinite(run[name]).any("time"), np.arange(3) == owner)


@pytest.mark.parametrize(
    ("hosts", "discipline"),
    [
        ((NewReno(ecn=True), NewReno()), PI(mark=True, a=1.4576e-4, b=1.4528e-4, reference=30.0)),
        ((Scalable(), NewReno(ecn=True)), PI2(mark=True, alpha=0.24, beta=2.4)),
    ],
    ids=str,
)
def test_a_mix_stays_at_its_equilibrium_and_leaves_it_as_its_linear_model(hosts, discipline):
    network = Network.dumbbell("30 Mb/s", rtts=[0.15] * 20 + [0.2] * 20, packet_size=1000)
    protocol = {"flows": {"0-9": hosts[0], "20-29": hosts[0], "default": hosts[1]}, "links": discipline}
    options = {"start": "equilibrium", "clocking": "rate", "sample": 0.05, "record": ["env.window"]}
    still, moved = (
        simulate(Scenario(network, protocol, 8.0), perturbation=by, **options)["env.window"].to_numpy()
        for by in (0.0, 1e-6)
    )
    assert still[:20] == pytest.approx(np.tile(still[0], (20, 1)), rel=1e-6)
    apart = (moved - still)[-81:, [0, 10, 20, 30]]
    root = ecc.linearize(protocol, network, clocking="rate").roots(1)[0]
    assert abs(root.imag) > 0.1  # three samples of such a mode: a[n+1] = 2 cos(wT) e^(sT) a[n] - e^(2sT) a[n-1]
    before, now, after = apart[:-2].ravel(), apart[1:-1].ravel(), apart[2:].ravel()
    (turn, shrink), *_ = np.linalg.lstsq(np.column_stack([now, -before]), after, rcond=None)
    found = np.log(np.roots([1.0, -turn, shrink]).astype(complex)[0]) / 0.05
    assert found.real == pytest.approx(root.real, abs=0.01 * abs(root))
    assert abs(found.imag) == pytest.approx(abs(root.imag), rel=0.01)


def sack(**options):
    return NewReno(transport="sack", **options)


LONG = Network.dumbbell("50 Mb/s", rtts=[0.1] * 10, packet_size=1000, buffer="2 MB", starts=list(1.3 * np.arange(10)))
SHORT = Network.dumbbell("20 Mb/s", rtts=[0.02] * 8, packet_size=1000, buffer="500 kB", starts=list(0.1 * np.arange(8)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "hosts", "discipline", "signals", "queue"),
    [
        (LONG, (sack(ecn=True), sack()), PI2(mark=True), "random", 0.05),
        (LONG, (sack(ecn=True), sack()), CoDel(mark=True), "random", 0.1),
        (LONG, (sack(ecn=True), sack()), CoDel(mark=True), "rate", 0.15),
        (LONG, (CUBIC(ecn=True), sack(ecn=True)), PI2(mark=True), "random", 0.05),
        (LONG, (CUBIC(), sack()), PIE(), "random", 0.05),
        (SHORT, (Scalable(), sack(ecn=True)), DualPI2(), "random", 0.1),
        (SHORT, (Scalable(), sack()), DualPI2(), "rate", 0.1),
    ],
    ids=str,
)
def test_shares_and_queues_are_those_of_packets(network, hosts, discipline, signals, queue):
    half = network.n_flows // 2
    protocol = {"flows": {f"0-{half - 1}": hosts[0], "default": hosts[1]}, "links": discipline}
    scenario = Scenario(network, protocol, 90.0)
    found = []
    for run in (ecc.packet.simulate(scenario, sample=0.5), simulate(scenario, sample=0.5, signals=signals)):
        rates = run.goodput[60:].mean("time").to_numpy()
        found.append((rates[:half].sum() / rates.sum(), rates.sum(), float(run.queue[60:].mean())))
        assert (float(run.drops.sum()) > 10.0) == (hosts[1].ecn_echo is None)
    packets, fluid = found
    assert fluid[0] == pytest.approx(packets[0], abs=0.05)
    assert fluid[1] == pytest.approx(packets[1], rel=0.02)
    assert fluid[2] == pytest.approx(packets[2], rel=queue)


def test_what_does_not_mix_is_refused():
    network = Network.dumbbell("10 Mb/s", rtts=[0.05] * 2)
    with pytest.raises(ValueError, match=r"got NewReno, RCP: several protocols must all be window protocols"):
        simulate(Scenario(network, {"flows": {0: NewReno(), 1: RCP()}}, 1.0))
    with pytest.raises(ValueError, match="link 0 must have the routers of VCP for a fluid run"):
        simulate(Scenario(network, {"flows": {0: NewReno(), 1: VCP()}, "links": {0: [RED(), VCP()]}}, 1.0))
    with pytest.raises(ValueError, match="start must be 'empty' for several protocols without queue disciplines, got"):
        simulate(Scenario(network, {"flows": {0: FAST(), 1: FAST(alpha=50.0)}}, 1.0), start="equilibrium")


@dataclass(frozen=True)
class ByCodepoint(Constant):
    """A state that depends on which packet comes."""

    @property
    def states(self):
        return {"share": State(lambda scalable: scalable, "arrival")}


def test_only_probabilities_depend_on_the_codepoint():
    message = "its share law takes scalable; available arguments: q, q_prev"
    assert message in (discipline_refusal(ByCodepoint()) or "")
