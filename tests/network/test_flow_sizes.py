"""Tables of flow sizes: means by integration, quantiles of what is drawn, what was published of them, arrivals."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest

import ecc
from ecc.network.flow_sizes import FLOW_SIZES, FlowSizes, flow_sizes, read_flow_sizes
from ecc.traffic.workload import Arrivals, Workload


def tables():
    """Sizes and shares that ascend, sizes perhaps twice; the first share is any."""
    steps = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 1000)), min_size=1, max_size=8)

    def table(drawn):
        sizes, shares = np.cumsum(np.array(drawn), axis=0).T
        return [(int(size) + 1, float(share)) for size, share in zip(sizes, shares / shares[-1], strict=True)]

    return steps.map(table)


@given(tables())
def test_the_mean_is_the_integral_of_the_quantiles(table):
    sizes = FlowSizes(table)
    inner = [share for _, share in table]
    value = sum(quad(sizes.quantile, a, b)[0] for a, b in zip([0.0, *inner[:-1]], inner, strict=True))
    assert sizes.mean == pytest.approx(value, rel=1e-9)
    assert sizes.quantile(1.0) == table[-1][0] and sizes.quantile(0.0) == table[0][0]


PUBLISHED = {
    "web-search": (1138 * 1460, 0.03),  # PIAS, whose packets round sizes down
    "data-mining": (5117 * 1460, 1e-4),  # PIAS
    "hadoop": (134_854, 0.12),  # Homa's table of the same figure
}
"""Mean [bytes] that another source states or has, and by how much ours differs, relative, at most."""


@pytest.mark.parametrize("name", FLOW_SIZES)
def test_means_are_near_those_that_were_published(name):
    mean, off = PUBLISHED[name]
    assert abs(FLOW_SIZES[name].mean / mean - 1.0) < off


def test_means_and_quantiles_of_the_tables():
    assert [round(table.mean) for table in FLOW_SIZES.values()] == [1_711_250, 7_470_236, 120_421]
    # Opera's table of the same figure
    assert FLOW_SIZES["data-mining"].quantile([0.8, 0.9, 0.99]) == pytest.approx([10e3, 400e3, 100e6], rel=0.03)
    # PIAS's table of web search, in packets
    shares = [0.15, 0.2, 0.3, 0.4, 0.53, 0.6, 0.7, 0.8, 0.9, 0.97, 1.0]
    packets = np.array([6, 13, 19, 33, 53, 133, 667, 1333, 3333, 6667, 20000])
    assert (np.abs(FLOW_SIZES["web-search"].quantile(shares) - 1500 * packets) <= 1500).all()


@pytest.mark.parametrize("name", FLOW_SIZES)
def test_arrivals_have_the_sizes_of_a_table_and_its_load(name):
    table = FLOW_SIZES[name]
    arrivals = Arrivals.at_load([0], 0.5, "100 Gb/s", distribution=name)
    assert arrivals.offered_rate == pytest.approx(50e9) and arrivals.mean_size == round(table.mean)
    drawn = np.array([flow.size for flow in Workload(arrivals=[arrivals]).draw(3, 5000 * arrivals.mean_interarrival)])
    sizes, shares = np.array(table.table, dtype=float).T
    if shares[0] == 0.0:
        assert kstest(drawn + 1e-9, lambda x: np.interp(x, sizes, shares)).pvalue > 0.01
    assert np.mean(drawn <= sizes[:, None], axis=1) == pytest.approx(shares, abs=0.03)
    scaled = Arrivals([0], 1.0, "1 kB", distribution=name)
    block = np.concatenate(list(Workload(arrivals=[scaled]).blocks(3, 5000.0)))["size"]
    n = min(len(block), len(drawn))
    assert block[:n] == pytest.approx(np.maximum(np.rint(drawn[:n] * (1000 / table.mean)), 1), abs=1.0)


def test_a_table_of_ones_own_and_toml():
    own = Arrivals([0], "10 ms", distribution=[("1 kB", 0.25), ("3 kB", 1.0)])
    assert own.mean_size == 1750 and own.distribution == ((1000, 0.25), (3000, 1.0))
    for arrivals in (own, Arrivals([0], "10 ms", distribution="hadoop")):
        scenario = ecc.Scenario(ecc.Network.T1(), ecc.models.RCP(), 1.0, Workload(arrivals=[arrivals]))
        again = ecc.Scenario.from_toml(scenario.to_toml())
        assert again == scenario and again.workload.draw(1, 1.0) == scenario.workload.draw(1, 1.0)
    assert flow_sizes(FLOW_SIZES["hadoop"]) is FLOW_SIZES["hadoop"] is flow_sizes("hadoop")


def test_a_distribution_of_two_sizes():
    sizes = FlowSizes([("1 kB", 0.9), ("1 MB", 0.9), ("1 MB", 1)])
    drawn = sizes.draw(np.random.default_rng(1), 10_000)
    assert set(drawn.tolist()) == {1000, 1_000_000} and np.mean(drawn == 1000) == pytest.approx(0.9, abs=0.01)
    assert sizes.quantile([0.0, 0.9, 0.9001, 1.0]).tolist() == [1000.0, 1000.0, 1e6, 1e6]
    assert sizes.mean == pytest.approx(100_900.0)


FORMS = {
    "hpcc": ("0 0\n10000 15\n20000 20\n5000000 100\n", 1),
    "traffic generator": ("0     0\n10000 0.15\n20000 0.2\n5000000 1", 1),
    "ns-2": ("0 1 0\n10 1 0.15\n20 1 0.2\n5000 1 1.0\n", 1000),
    "with commas": ("# sizes, shares\n0,0\n10000,0.15\n20000,0.2\n\n5000000,1 # bytes\n", 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_tables_are_read_as_simulators_publish_them(form, tmp_path):
    """All say the same; HPCC's own program draws from the first as we do, and takes a byte for what is less."""
    text, unit = FORMS[form]
    path = tmp_path / "sizes.txt"
    path.write_text(text)
    sizes = read_flow_sizes(path, unit)
    assert sizes.table == ((0, 0.0), (10_000, 0.15), (20_000, 0.2), (5_000_000, 1.0))
    assert sizes.mean == pytest.approx(0.15 * 5000 + 0.05 * 15_000 + 0.8 * 2_510_000)
    assert sizes.draw(np.random.default_rng(1), 1000).min() >= 1
    arrivals = Arrivals([0], "10 ms", distribution={"file": str(path), "unit": unit})
    assert arrivals.distribution == sizes.table and arrivals.mean_size == round(sizes.mean)
    table = f'route = [0]\nmean_interarrival = 0.01\ndistribution = {{ file = "{path}", unit = {unit} }}\n'
    text = ecc.Scenario(ecc.Network.T1(), ecc.models.RCP(), 1.0).to_toml() + "[[workload.arrivals]]\n" + table
    assert ecc.Scenario.from_toml(text).workload.arrivals[0].distribution == sizes.table


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 0\n10 0.5\n", "the last share must be 1, or 100 percent, got 0.5"),
        ("", "the last share must be 1, or 100 percent, got none"),
        ("0 0\nx 1\n", r"a line must be a size and a share, or both with a number between, got 'x 1' \(line 2 of '"),
        ("1 2 3 4\n", r"a line must be a size and a share, .*, got '1 2 3 4' \(line 1 of"),
        ("0 0\n20 50\n10 100\n", r"table must ascend in sizes and shares, got \(10, 1.0\) after \(20, 0.5\) \("),
    ],
)
def test_files_that_are_not_tables_are_refused_in_a_line(text, message, tmp_path):
    path = tmp_path / "sizes.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as refused:
        read_flow_sizes(path)
    assert "\n" not in str(refused.value)


REFUSED = {
    "table must end with the share 1, got [(1000, 0.5)]": lambda: FlowSizes([(1000, 0.5)]),
    "table must end with the share 1, got []": lambda: FlowSizes([]),
    "table must ascend in sizes and shares, got (900, 1.0) after (1000, 0.5)": lambda: FlowSizes(
        [(1000, 0.5), (900, 1)]
    ),
    "table must ascend in sizes and shares, got (2000, 0.4) after (1000, 0.5)": lambda: FlowSizes(
        [(1000, 0.5), (2000, 0.4), (3000, 1)]
    ),
    "distribution must be one of 'fixed', 'exponential', 'lognormal', 'pareto', 'web-search', 'data-mining', 'hadoop', "
    "got 'websearch': did you mean web-search?": lambda: Arrivals([0], 1.0, distribution="websearch"),
    "or a table, got 'WebSearch': did you mean web-search?": lambda: flow_sizes("WebSearch"),
    "table must be pairs (size, share), got 5": lambda: FlowSizes([5]),
    "table must be pairs (size, share), got 'x'": lambda: FlowSizes("x"),
    "shares must be from 0 to 1, got 1.5": lambda: FLOW_SIZES["hadoop"].quantile(1.5),
    "shape must be None for a table of sizes, got 2": lambda: Arrivals([0], 1.0, distribution="hadoop", shape=2),
    "'pareto', 'web-search', 'data-mining', 'hadoop', got 'gamma'": lambda: Arrivals([0], 1.0, 1, distribution="gamma"),
    "got mean_size, mean_duration": lambda: Arrivals([0], 1.0, mean_duration=1.0, distribution="hadoop"),
    "mean_size must be given for a load, got None": lambda: Arrivals.at_load([0], 0.5, 1e9, mean_duration=1.0),
    "arrivals must have one of mean_size, mean_duration and duration, got none": lambda: Arrivals.at_load(
        [0], 0.5, 1e9
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_wrong_is_named_in_a_line(message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        REFUSED[message]()
