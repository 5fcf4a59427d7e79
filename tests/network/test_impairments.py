import numpy as np
import pytest

from ecc.fluid import simulate as simulate_fluid
from ecc.models import QIRCP, RCP, ConstantRate
from ecc.network.impairments import BurstLoss, CapacitySchedule, DelaySchedule, DelaySpikes, Jitter, RandomLoss
from ecc.network.network import Flow, Link, Network, Pause
from ecc.packet import simulate
from ecc.packet.prepare import prepare
from ecc.queues import Policer
from ecc.scenario import Scenario
from ecc.traffic.workload import Workload

ALL = (
    RandomLoss(0.1, link=0),
    RandomLoss(0.5, link=0, kind="ack"),
    RandomLoss(0.9, acks_of="all"),
    DelaySpikes(acks_of=1),
    Jitter((0.0, "5 ms"), link=1, in_order=False),
    Jitter(("1 ms", "2 ms"), acks_of=[0, 1]),
    CapacitySchedule(1, ["10 s", 20.0], ["5 Mb/s", 0.0]),
)
PAUSED = Scenario(
    Network([Link("10 Mb/s", buffer="1 MB", pause=Pause("20 kB", "10 kB"))], [Flow([0])]),
    RCP(),
    1.0,
    impairments=[DelaySchedule(0, [0.5], ["20 ms"])],
)


def scenario(*impairments):
    return Scenario(Network.parking_lot(["10 Mb/s", "8 Mb/s"]), RCP(), 30.0, impairments=impairments)


def test_toml_round_trip():
    before = scenario(*ALL)
    after = Scenario.from_toml(before.to_toml())
    assert after.impairments == before.impairments == ALL
    assert 'name = "DelaySpikes"' in before.to_toml()


def test_toml_round_trip_of_changing_paths():
    changing = (
        DelaySchedule(1, ["10 s", 20.0], ["30 ms", 0.02], in_order=False),
        BurstLoss(0.01, 0.3, bad_loss=0.8, acks_of="all"),
        Jitter(("1 ms", "2 ms"), acks_of=[0, 1], law="pareto"),
    )
    assert Scenario.from_toml(scenario(*changing).to_toml()).impairments == changing


def test_each_place_has_one_impairment_of_all_that_was_given_for_it():
    setup = prepare(scenario(*ALL))
    assert setup.links["impairment"].tolist() == [1, 5]
    assert setup.flows["impairment"].tolist() == [2, 3, 4]
    ways = setup.impairments
    assert (ways["data_loss"][0], ways["ack_loss"][0]) == (0.1, 0.5)
    assert ways["ack_loss"][1:4].tolist() == [0.9] * 3
    assert ways["spike_every_lo"].tolist() == [0, 0, 5000, 0, 0] and ways["spike_hi"][2] == 10**12
    assert ways["jitter_hi"].tolist() == [0, 2 * 10**9, 2 * 10**9, 0, 5 * 10**9]
    assert ways["reorders"].tolist() == [0, 0, 0, 0, 1]
    assert setup.changes.tolist() == [(10**13, 5e6), (2 * 10**13, 0.0)] and setup.links["n_changes"].tolist() == [0, 2]


def test_all_acks_are_those_of_transfers_too():
    load = Workload([Flow([0], start=1.0, size=5000)])
    one = scenario(RandomLoss(1.0, acks_of="all")).with_(workload=load)
    run = simulate(one.with_(duration=5.0), sample=1.0)
    assert (run.flows["delivered"] == 0).all() and (run.goodput.sum("time") > 0).all()


def test_goodput_through_losses_and_a_schedule_is_what_is_left():
    network = Network([Link("20 Mb/s", "5 ms"), Link("10 Mb/s", "5 ms")], [Flow([0, 1]), Flow([0, 1])])
    lossy = Scenario(
        network,
        QIRCP(gamma=0.9),
        30.0,
        impairments=[
            RandomLoss(0.2, link=0),
            CapacitySchedule(1, [15.0], ["4 Mb/s"]),
        ],
    )
    run = simulate(lossy, sample=1.0)
    for when, capacity in ((slice(5.0, 15.0), 9e6), (slice(20.0, 30.0), 3.6e6)):
        rate, goodput = (float(s.sel(time=when).sum("flow").mean()) for s in (run.rate, run.goodput))
        # the second link is filled to 90 %, and sees what the wire of the first lets through
        assert goodput == pytest.approx(capacity, rel=0.02)
        assert rate == pytest.approx(capacity / 0.8, rel=0.03)
    assert run.drops.sum() == 0
    assert run.flows["lost"].sum() == pytest.approx(0.25 * run.flows["delivered"].sum(), rel=0.03)


def test_ninety_percent_of_the_acks_may_be_lost():
    network = Network.dumbbell("10 Mb/s", rtts=[0.05, 0.1])
    whole = simulate(Scenario(network, RCP(), 20.0), sample=0.5)
    few = simulate(Scenario(network, RCP(), 20.0, impairments=[RandomLoss(0.9, acks_of="all")]), sample=0.5)
    # packets of 40 bytes open a flow: those that no ACK answered in time are all that is given up
    assert (few.flows["lost"] <= 10 * 40).all()
    late = slice(10.0, None)
    rates = [run.rate.sel(time=late).mean("time").to_numpy() for run in (few, whole)]
    assert rates[0] == pytest.approx(rates[1], rel=0.01)


def delays(jitter, duration=2000.0):
    """Delays that jitter adds to packets so far apart that each is alone in its sample."""
    network = Network([Link("8 Mb/s", "10 ms")], [Flow([0], packet_size=1000)])
    run = simulate(Scenario(network, ConstantRate("80 kb/s"), duration, impairments=[jitter]), sample=0.05)
    rtts = run.rtt[10:, 0].to_numpy()
    return rtts[~np.isnan(rtts)] - 0.021  # propagation in both directions, and transmission


@pytest.mark.parametrize("end", [{"link": 0}, {"acks_of": 0}])
@pytest.mark.parametrize("law", ["normal", "pareto"])
def test_jitter_has_the_mean_and_the_deviation_of_its_law(law, end):
    jitter = Jitter(("8 ms", "2 ms"), law=law, in_order=False, **end)
    samples = delays(jitter)
    assert samples.mean() == pytest.approx(0.008, rel=0.01)
    assert samples.std() == pytest.approx(0.002, rel=0.05 if law == "normal" else 0.25)  # a long tail
    assert samples.min() >= jitter.minimum - 1e-12
    quantiles = {
        "normal": 0.008 + 0.002 * np.array([-1.2816, 0.0, 1.2816]),
        "pareto": jitter.minimum * np.array([0.9, 0.5, 0.1]) ** (-1.0 / jitter.shape),
    }[law]
    assert np.quantile(samples, [0.1, 0.5, 0.9]) == pytest.approx(quantiles, rel=0.02)


def test_negative_normal_delays_become_zero():
    samples = delays(Jitter(("2 ms", "2 ms"), link=0, law="normal"))
    density, below = np.exp(-0.5) / np.sqrt(2.0 * np.pi), 0.15866
    assert (samples < 1e-9).mean() == pytest.approx(below, rel=0.05)
    assert samples.mean() == pytest.approx(0.002 * (1.0 - below + density), rel=0.02)


def test_pareto_laws_with_given_moments():
    jitter = Jitter((0.01, 0.003), link=0, law="pareto")
    a, minimum = jitter.shape, jitter.minimum
    assert minimum * a / (a - 1.0) == pytest.approx(0.01)
    assert minimum * np.sqrt(a / (a - 2.0)) / (a - 1.0) == pytest.approx(0.003)


@pytest.mark.parametrize("loss", [BurstLoss(0.02, 0.25, link=0), BurstLoss(0.05, 0.2, 0.01, 0.6, link=0)])
def test_bursts_of_losses_have_the_stationary_rate_and_the_mean_length(loss):
    network = Network([Link("80 Mb/s", "10 ms")], [Flow([0], packet_size=1000)])
    scenario = Scenario(network, ConstantRate("8 Mb/s"), 400.0, impairments=[loss], phase_jitter=False)
    received = simulate(scenario, sample="1 ms").goodput[20:, 0].to_numpy() > 0.0
    runs = np.diff(np.concatenate([[0], ~received, [0]]).astype(int))
    lengths = np.nonzero(runs < 0)[0] - np.nonzero(runs > 0)[0]
    assert 1.0 - received.mean() == pytest.approx(loss.loss_rate, rel=0.06)
    assert lengths.mean() == pytest.approx(loss.mean_burst, rel=0.05)


def test_closed_forms_of_gilbert_channels():
    gilbert = BurstLoss(0.01, 0.24, link=0)
    assert gilbert.loss_rate == pytest.approx(0.04) and gilbert.mean_burst == pytest.approx(1.0 / 0.24)
    independent = BurstLoss(0.3, 0.3, 0.1, 0.1, link=0)  # equal losses in both states
    assert independent.loss_rate == pytest.approx(0.1) and independent.mean_burst == pytest.approx(1.0 / 0.9)
    assert BurstLoss(0.1, 0.1, 1.0, 1.0, link=0).mean_burst == np.inf
    assert BurstLoss(0.1, 0.1, 0.0, 0.0, link=0).mean_burst == 0.0


@pytest.mark.parametrize("in_order", [True, False])
def test_a_handover_leaves_packets_on_the_way_alone(in_order):
    network = Network([Link("80 Mb/s", "10 ms")], [Flow([0], packet_size=1000)])
    schedule = DelaySchedule(0, [1.0, 2.0], ["50 ms", "5 ms"], in_order=in_order)
    scenario = Scenario(network, ConstantRate("8 Mb/s"), 3.0, impairments=[schedule])
    run = simulate(scenario, sample="5 ms")
    packets = np.round(run.goodput[:, 0].to_numpy() * 0.005 / 8000.0)
    times = run.data["time"].to_numpy()
    assert run.rtt.sel(time=[0.9, 1.5, 2.5]).to_numpy().ravel() == pytest.approx([0.0201, 0.0601, 0.0151])
    gap = (times > 1.0101) & (times < 1.0499)
    assert (packets[gap] == 0).all()
    during = (times > 2.0051) & (times < 2.0499)  # those of the long delay and those of the short one
    assert packets[during] == pytest.approx(5.0 if in_order else 10.0, abs=1.01)
    after = packets[(times > 2.0499) & (times < 2.0551)]
    assert after.max() == pytest.approx(50.0 if in_order else 10.0, abs=5.01)
    assert packets[times > 2.06] == pytest.approx(5.0, abs=1.01)


def test_the_first_rtt_is_that_of_the_delay_in_force():
    network = Network([Link("8 Mb/s", "10 ms")], [Flow([0]), Flow([0], start=2.0)])
    schedule = DelaySchedule(0, [1.0], ["50 ms"])
    run = simulate(Scenario(network, RCP(), 3.0, impairments=[schedule]), sample=0.1)
    assert run.flows["min_rtt"].to_numpy() == pytest.approx([0.02, 0.06], abs=0.003)
    assert run.flows["idle_rtt"].to_numpy() == pytest.approx([0.02, 0.02])


def test_a_policer_is_a_queue_discipline_of_a_link():
    network = Network([Link("80 Mb/s")], [Flow([0], packet_size=1000)])
    host = ConstantRate("8 Mb/s")
    deployment = {"flows": host, "links": Policer(rate="5 Mb/s", burst="8 kB")}
    run = simulate(Scenario(network, deployment, 10.0), sample=1.0)
    assert run.goodput[2:, 0].to_numpy() == pytest.approx(5e6, rel=0.01)


def test_fluid_runs_refuse_what_only_packets_meet():
    with pytest.raises(ValueError, match="impairments must be .* for a fluid run, got DelaySpikes"):
        simulate_fluid(scenario(DelaySpikes(acks_of=1)))
    with pytest.raises(ValueError, match="impairments must be .* for a fluid run, got BurstLoss"):
        simulate_fluid(scenario(BurstLoss(0.01, 0.1, link=0)))
    with pytest.raises(ValueError, match="impairments must be .* for a fluid run, got DelaySchedule"):
        simulate_fluid(scenario(DelaySchedule(0, [1.0], [0.1])))


def test_buffers_in_packets_hold_mean_packets_of_fluid():
    links = [
        Link(1e6, buffer=9000),
        Link(1e6, buffer_packets=10),
        Link(1e6, 0.0, 9000, 10),
        Link(1e6, buffer_packets=3),
    ]
    network = Network(links, [Flow([0, 1, 2]), Flow([1], packet_size=(200, 1000))])
    assert network.buffers.tolist() == [9000.0, 8000.0, 9000.0, np.inf]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RandomLoss(1.1, link=0), r"probability must be <= 1, got 1\.1"),
        (lambda: RandomLoss(-0.1, link=0), r"probability must be >= 0, got -0\.1"),
        (lambda: RandomLoss(0.1, link=0, kind="syn"), "kind must be one of 'data', 'ack', 'all', got 'syn'"),
        (lambda: RandomLoss(0.1), "one of link and acks_of must be given, got link=None and acks_of=None"),
        (lambda: RandomLoss(0.1, link=0, acks_of=0), "one of link and acks_of must be given, got link=0 and"),
        (lambda: RandomLoss(0.1, acks_of="some"), "acks_of must be a flow, a list of flows or 'all', got 'some'"),
        (lambda: RandomLoss(0.1, acks_of=[1, 1]), r"acks_of must name flows, each once, got \[1, 1\]"),
        (lambda: RandomLoss(0.1, link=-1), "link must be >= 0, got -1"),
        (lambda: DelaySpikes(every=(0, 5), link=0), "every must be >= 1, got 0"),
        (lambda: DelaySpikes(every=(6, 5), link=0), r"every must be a range \(lowest, highest\), got \(6, 5\)"),
        (lambda: DelaySpikes(delay="1 s", link=0), r"delay must be a range \(lowest, highest\), got '1 s'"),
        (lambda: DelaySpikes(between=-1.0, link=0), r"between must be >= 0 s, got -1\.0"),
        (lambda: Jitter((0.0, 0.0), link=0), r"delay must end above 0 s, got \(0\.0, 0\.0\)"),
        (lambda: Jitter((0.2, 0.1), link=0), r"delay must be a range \(lowest, highest\), got \(0\.2, 0\.1\)"),
        (
            lambda: Jitter((0.0, 0.1), link=0, law="normal"),
            r"delay must be \(mean, deviation\) > 0 s for 'normal', got",
        ),
        (
            lambda: Jitter((0.1, 0.1), link=0, law="gamma"),
            "law must be one of 'uniform', 'normal', 'pareto', got 'gamma'",
        ),
        (lambda: BurstLoss(0.0, 0.1, link=0), r"begins must be > 0 and <= 1, got 0\.0"),
        (lambda: BurstLoss(0.1, 1.1, link=0), r"ends must be > 0 and <= 1, got 1\.1"),
        (lambda: BurstLoss(0.1, 0.1, bad_loss=2.0, link=0), r"bad_loss must be <= 1, got 2\.0"),
        (lambda: DelaySchedule(0, [1.0], []), "delays must be one for each of 1 times, got 0"),
        (lambda: DelaySchedule(0, [1.0, 1.0], [0.1, 0.2]), r"times must increase, got \[1\.0, 1\.0\]"),
        (lambda: DelaySchedule(0, [1.0], ["-1 ms"]), "delays must be >= 0 s, got '-1 ms'"),
        (
            lambda: scenario(ALL[4], DelaySchedule(1, [1.0], [0.1])),
            r"^in_order must be equal for Jitter and DelaySchedule of link 1: set that of DelaySchedule "
            r"\(impairments\[1\]\) to False, or that of Jitter to True$",
        ),
        (lambda: simulate(PAUSED), "DelaySchedule must be for a link without pause, got one for link 0"),
        (lambda: CapacitySchedule(0, [1.0], []), "capacities must be one for each of 1 times, got 0"),
        (lambda: CapacitySchedule(0, [], []), "capacities must be one for each of 0 times, got 0"),
        (lambda: CapacitySchedule(0, [2.0, 1.0], [1e6, 2e6]), r"times must increase, got \[2\.0, 1\.0\]"),
        (lambda: CapacitySchedule(0, [1.0], [-1e6]), r"capacities must be >= 0 bit/s, got -1000000\.0"),
        (lambda: scenario(RandomLoss(0.1, link=2)), r"link must be from 0 to 1, got 2 \(impairments\[0\]\)"),
        (lambda: scenario(ALL[0], Jitter((0, 1), acks_of=3)), r"acks_of must be from 0 to 2, got 3 \(imp.*\[1\]\)"),
        (lambda: scenario(ALL[0], RandomLoss(0.1, link=0, kind="all")), "one RandomLoss for a link or flow, .*link 0"),
        (lambda: scenario(DelaySpikes(acks_of=1), DelaySpikes(acks_of="all")), "one DelaySpikes for .*flow 1"),
        (lambda: Flow([0], delayed_acks=2), r"delayed_acks must be \(packets, time\), got 2"),
        (lambda: Flow([0], delayed_acks=(0, 0.1)), "delayed_acks must be >= 1, got 0"),
    ],
)
def test_bad_values_get_one_line(build, message):
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: scenario("loss"), "impairments must be a sequence of RandomLoss, .*, got"),
        (lambda: Jitter((0, 1), link=0, in_order=1), "in_order must be True or False, got 1"),
        (lambda: CapacitySchedule(0, 1.0, [1e6]), r"times must be a sequence, got 1\.0"),
    ],
)
def test_wrong_kinds_get_one_line(build, message):
    with pytest.raises(TypeError, match=message):
        build()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"Jitter"', '"Noise"', r"impairments\[0\] must be a table with a name, one of RandomLoss, .*'Noise'"),
        (
            "in_order",
            "ordered",
            r"impairments\[0\] has no key 'ordered' \(did you mean in_order\?\); allowed are delay, link, acks_of",
        ),
        ("link = 1", "link = 7", r"link must be from 0 to 1, got 7 \(impairments\[0\]\)"),
    ],
)
def test_bad_toml_names_the_place(old, new, message):
    text = scenario(ALL[4]).to_toml()
    assert old in text
    with pytest.raises(ValueError, match=message):
        Scenario.from_toml(text.replace(old, new))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('{ name = "DeliveryTrac", link = 0 }', r"must be a table with a name, .*: did you mean DeliveryTrace\?$"),
        ('{ name = ["Jitter"] }', r"must be a table with a name, one of .*, got \{'name': \['Jitter'\]\}$"),
        (
            '{ name = "DeliveryTrace", link = 0, fil = "a.up" }',
            r"has no key 'fil' \(did you mean file\?\); allowed are link, times, opportunity, file$",
        ),
        ('{ name = "DeliveryTrace", link = 0 }', "lacks the key 'times' or 'file'$"),
        ('{ name = "CapacitySchedule", link = 0 }', "lacks the key 'times'$"),
    ],
)
def test_a_table_that_is_misspelled_gets_what_is_allowed(table, message):
    with pytest.raises(ValueError, match=rf"^impairments\[0\] {message}"):
        Scenario.from_toml(f"impairments = [{table}]\n" + scenario().to_toml())


def test_a_list_of_impairments_is_wanted():
    with pytest.raises(ValueError, match="impairments must be a list of tables, got 3"):
        Scenario.from_toml("impairments = 3\n" + scenario().to_toml())
