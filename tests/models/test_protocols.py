"""What holds for every protocol: equilibria, linear models and refusals, all from the laws."""

import inspect
from dataclasses import dataclass, replace

import numpy as np
import pytest

import ecc
from ecc.loops.closed_loop import linearize, linearize_laws
from ecc.models import EMKCAVQ, FAST, PIQIRCP, QIRCP, RCP, XCP, JetMax, MaxNet, Protocol, all_protocols
from ecc.network.allocation import max_min
from ecc.network.network import Flow, Link, Network

PROTOCOLS = [cls() for cls in all_protocols().values() if cls.equilibrium_is_static]
NETWORKS = {
    "dumbbell": Network.dumbbell("100 Mb/s", rtts=[0.12, 0.12, 0.3]),
    "parking_lot": Network.parking_lot(["970 Mb/s", "800 Mb/s"]),
    "T_u": Network.T_u(),
}
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: type(p).__name__)
every_network = pytest.mark.parametrize("net", NETWORKS.values(), ids=NETWORKS.keys())


def call(law, supply):
    return law(**{name: supply[name] for name in inspect.signature(law).parameters})


def told(protocol, net, point, link, x):
    """What a link at equilibrium announces to a flow at rate x, its next state, and what its laws were given."""
    through = net.incidence[:, link]
    follows = through if protocol.combine == "sum" else point.bottleneck == link
    y = point.rates[through].sum()
    supply = {
        "R": point.fair_rate[link],
        "y": y,
        "y_prev": y,
        "q": 0.0,
        "C": net.capacities[link],
        "d": 0.1,
        "T": 0.01,
        "u": point.rates[through & ~follows].sum(),
        "N": float(follows.sum()),
        "N_all": float(through.sum()),
        "x": x,
        "p": protocol.namespace(),
    }
    following = call(protocol.router_law, supply)
    if protocol.announce_law is None:
        return following, following, supply
    return call(protocol.announce_law, supply | {"R": following}), following, supply


@every_protocol
@every_network
def test_equilibrium_is_a_fixed_point_of_the_laws(protocol, net):
    point = protocol.equilibrium(net)
    moves = np.max(point.rates)
    for i, x in enumerate(point.rates):
        heard = []
        for link in net.flows[i].route:
            if protocol.combine == "sum" or link == point.bottleneck[i]:
                announced, following, _ = told(protocol, net, point, link, x)
                assert following == pytest.approx(point.fair_rate[link], rel=1e-12, abs=1e-12 * moves)
                heard.append(announced)
        supply = {
            "x": x,
            "x_rtt": x,
            "R": sum(heard),
            "R_prev": sum(heard),
            "D": net.rtts[i],
            "T": 0.01,
            "p": protocol.namespace(),
        }
        assert call(protocol.source_law, supply) == pytest.approx(x, rel=1e-12)


@every_protocol
@every_network
def test_flows_follow_the_link_that_their_rule_picks(protocol, net):
    """No other link of the path announces less (min) or more (max), were the flow to listen to it."""
    point = protocol.equilibrium(net)
    if protocol.combine == "sum":
        assert np.all(point.bottleneck == -1)
        return
    followed = np.unique(point.bottleneck)
    for i, flow in enumerate(net.flows):
        own = told(protocol, net, point, point.bottleneck[i], point.rates[i])[0]
        for link in set(flow.route) & set(followed):
            other = told(protocol, net, point, link, point.rates[i])[0]
            assert other <= own if protocol.combine == "max" else other >= own - 1e-9 * abs(own) - 1e-6


@every_protocol
@every_network
def test_derivatives_are_finite_differences_of_the_laws(protocol, net):
    if isinstance(protocol, XCP):
        protocol, net = XCP(gamma=0.0), NETWORKS["dumbbell"]  # what is linearized, and where
    point = protocol.equilibrium(net)
    laws = linearize_laws(protocol, net, 0.01, mean_rtt=np.full(net.n_links, 0.1))
    p = protocol.namespace()

    def difference(law, supply, name):
        step = 1e-7 * (abs(supply[name]) if abs(supply[name]) > 1e-6 else supply["C"] * 0.1)
        ends = [call(law, supply | {name: supply[name] + s}) for s in (step, -step)]
        return (ends[0] - ends[1]) / (2 * step)

    for k, link in enumerate(laws.links):
        x = point.rates[point.bottleneck == link][0] if protocol.combine != "sum" else 0.0
        _, following, supply = told(protocol, net, point, link, x)
        for name in inspect.signature(protocol.router_law).parameters:
            if name in laws.router:
                expected = difference(protocol.router_law, supply, name)
                assert laws.router[name][k] == pytest.approx(expected, rel=1e-6, abs=1e-9), name
        if protocol.announce_law is not None:
            for name in ("R", "y"):
                expected = difference(protocol.announce_law, supply | {"R": following}, name)
                assert laws.announce[name][k] == pytest.approx(expected, rel=1e-6)
    for i, x in enumerate(point.rates):
        links = net.flows[i].route if protocol.combine == "sum" else [point.bottleneck[i]]
        heard = sum(told(protocol, net, point, link, x)[0] for link in links)
        supply = {"x": x, "x_rtt": x, "R": heard, "R_prev": heard, "D": net.rtts[i], "T": 0.01, "p": p, "C": x}
        for name in inspect.signature(protocol.source_law).parameters:
            if name in laws.source:
                expected = difference(protocol.source_law, supply, name)
                assert laws.source[name][i] == pytest.approx(expected, rel=1e-6, abs=1e-9), name


@every_protocol
def test_relabeling_flows_permutes(protocol):
    links = [Link("80 Mb/s", 0.011), Link("50 Mb/s", 0.024), Link("70 Mb/s", 0.005)]
    flows = [Flow([0, 1], access_delay=0.01), Flow([1, 2]), Flow([0]), Flow([2, 0], access_delay=0.02), Flow([1])]
    order = [3, 0, 4, 2, 1]
    one, other = Network(links, flows), Network(links, [flows[i] for i in order])
    assert protocol.equilibrium(other).rates == pytest.approx(protocol.equilibrium(one).rates[order], rel=1e-12)
    if isinstance(protocol, XCP):
        one, other = (Network.dumbbell("1 Gb/s", rtts) for rtts in ([0.1, 0.2, 0.31], [0.31, 0.1, 0.2]))
    for time in protocol.times:
        z = np.exp(0.3j) * np.array([1.0, 1.2])
        found = [linearize(protocol, net, time=time).open_loop(z) for net in (one, other)]
        assert found[0] == pytest.approx(found[1], rel=1e-9)


@pytest.mark.parametrize("start", ["empty", "equilibrium"])
def test_without_hooks_packets_are_refused(start):
    class LawsOnly(QIRCP):
        link_hooks, flow_hooks = Protocol.link_hooks, Protocol.flow_hooks
        link_at, flow_at = Protocol.link_at, Protocol.flow_at

    sc = ecc.Scenario(NETWORKS["dumbbell"], LawsOnly(), duration=1.0)
    with pytest.raises(
        ValueError, match="^LawsOnly has no packet runs.*: it does not define link_hooks and flow_hooks"
    ):
        ecc.packet.simulate(sc, start=start)
    for hooks in (LawsOnly().link_hooks, LawsOnly().flow_hooks):
        with pytest.raises(ValueError, match="LawsOnly has no packet runs: it does not define link_hooks and flow_hoo"):
            hooks()


def test_hooks_that_begin_at_rest_are_named_where_they_are_missing():
    class Begins(QIRCP):
        flow_at = Protocol.flow_at

    sc = ecc.Scenario(NETWORKS["dumbbell"], Begins(), duration=1.0)
    with pytest.raises(
        ValueError, match="^Begins has no packet runs from the equilibrium: it does not define flow_at$"
    ):
        ecc.packet.simulate(sc, start="equilibrium")


class WithoutLaws(QIRCP):
    source_law = None


class WithoutInterval(QIRCP):
    def params(self):
        return {name: value for name, value in super().params().items() if name != "interval"}


@pytest.mark.parametrize("time", ["continuous", "discrete", "hybrid"])
def test_what_a_linear_model_needs_is_named_where_it_is_missing(time):
    network = NETWORKS["dumbbell"]
    with pytest.raises(ValueError, match="^WithoutLaws has no linear model: it has no source_law$"):
        ecc.linearize(WithoutLaws(), network, time=time)
    with pytest.raises(
        ValueError, match=r"^interval must be among the params\(\) of WithoutInterval.*got alpha, gamma"
    ):
        ecc.linearize(WithoutInterval(), network, time=time)


@every_protocol
def test_times_may_have_units(protocol):
    for name in ("interval", "sampling", "min_rto", "rtt_limit", "least_interval"):
        if name in type(protocol).__dataclass_fields__:
            assert getattr(replace(protocol, **{name: "20 ms"}), name) == 0.02
            for wrong in ("20 parsecs", "0 s", float("nan"), 10**400, "x" * 10_000):
                with pytest.raises(ValueError, match=f"^{name} must"):
                    replace(protocol, **{name: wrong})


@every_protocol
def test_time_models_that_do_not_exist_are_refused(protocol):
    missing = {"continuous", "discrete", "hybrid"} - set(protocol.times)
    for time in missing:
        with pytest.raises(ValueError, match=f"{type(protocol).__name__} has no {time} model: time must be '"):
            linearize(protocol, NETWORKS["dumbbell"], time=time)
    assert missing == set()


@every_network
def test_max_min_fair_protocols_against_water_filling(net):
    for protocol in (
        RCP(),
        QIRCP(),
        PIQIRCP(),
        JetMax(gamma=0.9),
        MaxNet(mu=0.98),
        EMKCAVQ(gamma=0.97),
        XCP(gamma=0.0),
    ):
        gamma = 1.0 if isinstance(protocol, XCP) else getattr(protocol, "gamma", getattr(protocol, "mu", 1.0))
        assert protocol.equilibrium(net).rates == pytest.approx(max_min(net, gamma * net.capacities), rel=1e-9)


def test_a_class_of_ones_own_refuses_nan_and_an_equilibrium_that_is_none():
    class Own(QIRCP):
        other: float = 1.0

        def equilibrium(self, network, assignment=None):
            return 3.0

    own = dataclass(frozen=True)(Own)
    with pytest.raises(ValueError, match="^other must be a number, got nan$"):
        own(other=float("nan"))
    with pytest.raises(TypeError, match="^equilibrium of Own must return an Equilibrium, got 3.0$"):
        linearize(own(), NETWORKS["dumbbell"])


def test_an_equilibrium_that_is_none_is_named_wherever_it_is_used():
    """A fluid took it for no start at all, and began empty."""

    class Nothing(FAST):
        def equilibrium(self, network, assignment=None):
            return None

    network = Network.dumbbell("100 Mb/s", [0.1])
    scenario = ecc.Scenario(network, Nothing(), 1.0)
    for use in (
        lambda: linearize(Nothing(), network),
        lambda: linearize(Nothing(), network, clocking="rate"),
        lambda: ecc.fluid.simulate(scenario, start="equilibrium"),
        lambda: ecc.packet.simulate(scenario, start="equilibrium"),
    ):
        with pytest.raises(TypeError, match="^equilibrium of Nothing must return an Equilibrium, got None$"):
            use()


class Unsteady(QIRCP):
    @staticmethod
    def source_law(R):
        R + 0.0


def test_a_source_law_without_a_number_is_named():
    with pytest.raises(TypeError, match="^source_law of Unsteady must return a number, got None$"):
        linearize(Unsteady(), NETWORKS["dumbbell"])


@pytest.mark.parametrize(
    ("package", "name", "hint"),
    [
        (ecc.models, "Reno", "NewReno"),
        (ecc.models, "Theta", "ThetaPowerTCP"),
        (ecc.queues, "FqCodel", "FQCoDel or CoDel"),
        (ecc, "simulat", "simulate"),
    ],
)
def test_an_unknown_name_of_a_package_is_refused_with_similar_names(package, name, hint):
    with pytest.raises(
        AttributeError, match=f"^module '{package.__name__}' has no attribute '{name}': did you mean {hint}[?]$"
    ):
        getattr(package, name)
    assert not hasattr(package, "__wrapped__")
