"""SEARCH against its rules, a closed form and packets, and the formula that interpolates the volume sent an RTT ago."""

from dataclasses import dataclass
from math import log
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

import ecc
from ecc.contract.packet_hooks import flow_hooks_of
from ecc.jit.reach import replace_functions
from ecc.laws.elementary import exp
from ecc.models import BIC, CUBIC, Compound, NewReno, Protocol
from ecc.models.shared import search, windows

S = 1000.0  # bytes
BIN = 0.035  # s, of a flow with a first RTT of 100 ms


def state(**values):
    """A state with arrays that can be written."""
    flow = NewReno(slow_start="search").flow_record()
    flow.search_acked, flow.search_sent = list(flow.search_acked), list(flow.search_sent)
    for name, value in values.items():
        setattr(flow, name, value)
    return flow


# ---- which neighbor of bin p the volume is interpolated with ---------------------------------------------------------


def forward_delivery(flow: search.FlowState, bins: float) -> float:
    """The formula of draft -09: between bins p and p + 1."""
    p = flow.search_index - int(bins)
    f = bins - int(bins)
    return (1.0 - f) * search.sent_until(flow, p) + f * search.sent_until(flow, p + 1)


def stored(rates):
    """A state whose bin k was sent at rates[k], and the volume sent until a time in bins."""

    def volume(t):
        return sum(rate * min(max(t - k, 0.0), 1.0) for k, rate in enumerate(rates))

    flow = state(search_index=len(rates), search_bin=BIN)
    for k in range(len(rates) + 1):
        flow.search_sent[k % search.SENT_BINS] = volume(float(k))
    return flow, volume


lookbacks = st.floats(1.0, 14.99)


@given(st.floats(1e3, 1e9), lookbacks)
def test_at_a_constant_rate_both_formulas_return_ten_bins(rate, bins):
    """So a constant rate does not decide between them."""
    flow, _ = stored([rate] * 26)
    for formula in (search.expected_delivery, forward_delivery):
        assert formula(flow, bins) == pytest.approx(10.0 * rate, rel=1e-9)


@given(st.lists(st.floats(1.0, 1e6), min_size=26, max_size=26), lookbacks)
def test_at_rates_that_change_between_bins_the_volume_is_that_of_an_rtt_ago(rates, bins):
    """Volumes are then linear within bins, and linear interpolation is exact."""
    flow, volume = stored(rates)
    then = len(rates) - bins
    assert search.expected_delivery(flow, bins) == pytest.approx(volume(then) - volume(then - 10.0), rel=1e-9)


@given(st.floats(0.01, 0.99))
def test_the_forward_formula_reads_a_time_up_to_two_bins_too_late(fraction):
    """At a rate that grows by 1 a bin, the error is 10 bins times twice the fraction."""
    flow, volume = stored([float(k) for k in range(26)])
    then = 26.0 - 2.0 - fraction
    excess = forward_delivery(flow, 2.0 + fraction) - (volume(then) - volume(then - 10.0))
    assert 10.0 * 2.0 * fraction == pytest.approx(excess, abs=0.3)


# ---- the closed form -------------------------------------------------------------------------------------------------


def lag(x):
    """Share by which the delivery lags if the rate an RTT ago was x C, and doubles per RTT."""
    start = 2.0**-3.5 * x
    return 1.0 - (log(x) + 1.0 - start) / ((1.0 - 2.0**-3.5) * x)


@dataclass
class _State(search.FlowState):
    ended: float = -1.0  # s


def _begin(flow, header, p, env):
    env.rate = p.first


def _double(flow, header, p, env):
    if search.has_fallen_behind(flow, p.threshold, env) and flow.ended < 0.0:
        flow.ended = flow.search_end - flow.search_bin
    env.rate = min(p.first * exp(p.growth * env.now), 20.0 * p.first * 64.0)


@dataclass(frozen=True)
class _Doubling(Protocol):
    """A paced sender that doubles its rate each 100 ms, whatever is lost."""

    first: float = 1e6  # bit/s
    threshold: float = 0.26
    growth: float = log(2.0) / 0.1
    FlowState = _State

    def link_hooks(self):
        return {}

    def flow_hooks(self):
        return {"on_start": _begin, "on_ack": _double}


def ended_by(kind, protocol_options, net, duration, fields):
    """Values of fields [of the first sample after the end of slow start] with each formula; None: it did not end."""
    ends = []
    for formula in (search.expected_delivery, forward_delivery):

        class Changed(kind):
            def _completed_flow_hooks(self, hooks, formula=formula):
                changed = super()._completed_flow_hooks(hooks)
                by = {search.expected_delivery: formula}
                return {**changed, "on_ack": replace_functions(changed["on_ack"], by)}

        scenario = ecc.Scenario(net, Changed(**protocol_options), duration)
        run = ecc.packet.simulate(scenario, sample=0.005, record=fields)
        ended = run["flow.ended"][:, 0] > 0.0 if "flow.ended" in fields else run["flow.ssthresh"][:, 0] < 1e300
        ends.append([float(run[name][:, 0][ended][0]) for name in fields] if ended.any() else None)
    return ends


@pytest.mark.slow
def test_the_forward_formula_ends_slow_start_on_an_empty_path():
    """A paced sender at the first check, as 2^(0.7 * 0.857) = 1.52; one clocked by ACKs at 1 % of the capacity."""
    wide = ecc.Network.dumbbell("10 Gb/s", rtts=["100 ms"], packet_size=1500)
    correct, forward = ended_by(_Doubling, {}, wide, 0.8, ["flow.ended", "flow.search_index"])
    assert correct is None and forward[1] == 13.0  # eleven bins, and the RTT of 2.86 bins
    options = {"slow_start": "search", "initial": 10}
    correct, forward = ended_by(NewReno, options, wide, 1.2, ["flow.ssthresh", "env.window"])
    assert correct is None and forward[1] < 0.02 * 10e9 * 0.1 / 8.0


@pytest.mark.parametrize(("threshold", "x"), [(0.26, 2.52), (0.35, 3.157)])
def test_a_paced_sender_leaves_at_the_closed_form(threshold, x):
    """Bins end each 0.35 RTT, in which the rate grows by 27 %: over all phases the earliest end is at x."""
    root = brentq(lambda rate: lag(rate) - threshold, 1.0, 8.0)
    assert root == pytest.approx(x, abs=0.005)
    capacity, rtt = 64e6, 0.1
    ratios = []
    for phase in range(8):
        net = ecc.Network(
            [ecc.Link(capacity, "50 ms", buffer=1000)], [ecc.Flow([0], packet_size=250)]
        )  # RTTs stay fixed: a queue of four packets
        host = _Doubling(first=1e6 * 2.0 ** (0.35 * phase / 8.0), threshold=threshold)
        run = ecc.packet.simulate(ecc.Scenario(net, host, 1.1), record=["flow.ended"], sample=0.1)
        ended = float(run["flow.ended"][-1, 0])
        ratios.append(host.first * 2.0 ** ((ended - rtt) / rtt) / capacity)
    assert min(ratios) == pytest.approx(root, rel=0.06)
    assert root * 0.98 <= min(ratios) and max(ratios) <= root * 2.0**0.35 * 1.05


# ---- rules -----------------------------------------------------------------------------------------------------------


def at(**values):
    names = {"packet_size": 1000, "lost": 0, "transport": 0, "rtt": 0.1, "recovering": 0, "acked": 1000, "in_flight": 0}
    return SimpleNamespace(**{"transport": 0, **names, **values})


def test_skipped_bins_repeat_and_more_than_ten_begin_anew():
    flow = state()
    assert not search.ends_bin(flow, at(now=1.0, delivered=1000))
    assert flow.search_bin == pytest.approx(BIN) and flow.search_end == pytest.approx(1.0 + BIN)
    assert not search.ends_bin(flow, at(now=1.03, delivered=2000))
    assert search.ends_bin(flow, at(now=1.04, delivered=3000, in_flight=5000))
    assert flow.search_index == 1 and flow.search_acked[1] == 3000 and flow.search_sent[1] == 8000
    assert search.ends_bin(flow, at(now=1.0 + 4.5 * BIN, delivered=4000))
    assert flow.search_index == 4 and flow.search_acked[1:5] == [3000, 3000, 3000, 4000]
    assert search.ends_bin(flow, at(now=1.0 + 14.5 * BIN, delivered=5000)) and flow.search_index == 14
    assert not search.ends_bin(flow, at(now=1.0 + 25.5 * BIN, delivered=6000)) and flow.search_bin == 0.0
    assert not search.ends_bin(flow, at(now=3.0, delivered=7000, rtt=0.2))
    assert flow.search_bin == pytest.approx(2.0 * BIN) and flow.search_index == 0


@pytest.mark.parametrize(
    ("index", "bins", "checks"), [(13, 2.9, True), (12, 2.9, False), (30, 14.9, True), (30, 15.0, False)]
)
def test_checks_need_eleven_bins_an_rtt_ago_and_at_most_fifteen_in_between(index, bins, checks):
    """All was sent and nothing delivered."""
    flow = state(search_index=index - 1, search_bin=BIN, search_end=1.0)
    flow.search_sent[:] = [1e6 * ((k - index) % 26) for k in range(26)]
    answer = search.has_fallen_behind(flow, 0.26, at(now=1.0 + 0.5 * BIN, delivered=0, in_flight=10**8, rtt=bins * BIN))
    assert answer == checks


def test_the_threshold_is_met_by_equality():
    for delivered, ends in ((740_000, True), (740_001, False)):
        flow = state(search_index=19, search_bin=BIN, search_end=1.0)
        flow.search_sent[:] = [1e5 * ((k - 20) % 26) for k in range(26)]  # 1 MB in 10 bins
        env = at(now=1.001, delivered=delivered, in_flight=0, rtt=2.0 * BIN)
        flow.search_sent[20] = 0.0
        assert search.has_fallen_behind(flow, 0.26, env) == ends


@pytest.mark.slow
def test_the_window_is_kept_or_drained_to_the_volume_of_an_rtt():
    ends = {}
    for drain in (False, True):
        protocol = NewReno(slow_start="search", initial=10, search_drain=drain)
        net = ecc.Network.dumbbell("50 Mb/s", rtts=["50 ms"], packet_size=1500)  # a queue without a limit
        run = ecc.packet.simulate(
            ecc.Scenario(net, protocol, 2.0), sample=0.005, record=["env.window", "flow.ssthresh"]
        )
        ended = run["flow.ssthresh"][:, 0] < windows.NEVER_LEFT
        ends[drain] = (run["env.window"][:, 0] / (50e6 * 0.05 / 8.0))[ended].values
        assert run.flows["lost"][0] == 0
    assert 4.0 < ends[False][0] < 7.0 and ends[False][-1] > 4.0
    assert ends[True][0] == pytest.approx(1.05, abs=0.05)  # BDPs: three bins are 1.05 RTTs


@pytest.mark.parametrize(
    "protocol", [NewReno, *(pytest.param(each, marks=pytest.mark.slow) for each in (CUBIC, BIC, Compound))]
)
def test_hosts_end_slow_start_before_the_buffer_overflows(protocol):
    """Five BDPs of buffer, in which RFC 5681 loses packets; the twin has the same events."""
    net = ecc.Network.dumbbell("20 Mb/s", rtts=["50 ms"], buffer=5 * 125_000, packet_size=1500)
    lost = {}
    for start in ("standard", "search"):
        run = ecc.packet.simulate(ecc.Scenario(net, protocol(slow_start=start, initial=10), 1.2))
        lost[start] = int(run.flows["lost"][0])
    assert lost["search"] < 0.1 * lost["standard"]
    twin = ecc.packet.simulate(ecc.Scenario(net, protocol(slow_start="search", initial=10), 1.2), engine="python")
    assert twin.stats["digest"] == run.stats["digest"]


def test_a_loss_before_the_end_leaves_slow_start_as_usual():
    hooks = flow_hooks_of(NewReno(slow_start="search"))
    flow, env = state(ssthresh=20.0 * S), at(window=10.0 * S)
    env.recovered = env.undone = env.ece = 0
    env.limited_by, env.now, env.delivered = windows.BY_WINDOW, 1.0, 1000
    hooks["on_ack"](flow, None, NewReno(slow_start="search").namespace(), env)
    assert env.window == 11.0 * S and flow.search_bin == 0.0


def test_its_state_is_only_in_flows_that_use_it():
    assert not hasattr(NewReno().flow_record(), "search_bin")
    assert isinstance(CUBIC(slow_start="search").flow_record(), CUBIC.FlowState)
    assert "search_threshold" not in NewReno().params()


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.1])
def test_thresholds_are_shares(threshold):
    with pytest.raises(ValueError, match="search_threshold must be"):
        NewReno(search_threshold=threshold)


def test_it_has_no_fluid_model():
    assert "slow_start='search'" in str(NewReno(slow_start="search").fluid_refusal)
