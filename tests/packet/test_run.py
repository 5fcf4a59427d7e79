"""Runs that continue on request: transfers in slots, rows to a file, queues counted, traces, ends of all kinds."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from waiting import HANG

import ecc
from ecc._support.memory import free_memory
from ecc.errors import EccError, NativeError
from ecc.models import QIRCP, RCP, ConstantRate, NewReno
from ecc.network.impairments import CapacitySchedule, Jitter, RandomLoss
from ecc.network.network import Flow, Link, Network
from ecc.packet import Run, checkpoint, resume, simulate, simulation
from ecc.packet.prepare import prepare
from ecc.packet.twin import build_twin
from ecc.packet.twin.state import MAX_BURST
from ecc.scenario import Scenario
from ecc.traffic.workload import Arrivals, OnOff, Workload

NETWORK = Network.dumbbell("20 Mb/s", rtts=[0.04, 0.1], buffer="60 kB")
MICE = Workload(
    [Flow([0], start=1.0, size=30_000)],
    [
        Arrivals([0], 0.02, 5_000, shape=1.4, access_delay=(0.0, 0.02)),
        Arrivals([0], 0.5, mean_duration=0.3, distribution="exponential", packet_size=(400, 900)),
    ],
    [OnOff([0], 0.2, 0.3, sources=3)],
)
SCENARIO = Scenario(NETWORK, RCP(), 6.0, workload=MICE, seed=3)


@pytest.mark.parametrize("duration", [0.7, 1.0, 3.0])
def test_no_part_of_a_duration_loses_its_last_sample(duration):
    for parts in [*range(1, 60), 997]:  # a sixth of a second is rounded up on the clock
        run = simulate(Scenario(NETWORK, ConstantRate("0.1 Mb/s"), duration), sample=duration / parts)
        assert run.rate.shape[0] == parts
        assert float(run.rate.time[-1]) == pytest.approx(duration, rel=1e-14)


def test_transfers_beyond_the_clock_never_stop_and_are_not_cut():
    """Of some 100 Pareto durations with a mean of 3e6 s some are longer than the clock; of sizes, than 64 bits."""
    long = Arrivals([0], 0.1, mean_duration=3e6, distribution="pareto", shape=1.2)
    large = Arrivals([0], 0.1, mean_size=2**61, distribution="pareto", shape=1.01)
    workload = Workload(arrivals=[long, large])
    drawn = workload.draw(seed=1, duration=10.0)
    assert len(drawn) > 150 and any(flow.stop is None and flow.size is None for flow in drawn)
    assert max(flow.size or 0 for flow in drawn) == 2**62
    run = simulate(Scenario(NETWORK, NewReno(), 10.0, workload=workload))
    assert run.is_complete and run.flows["finish"].isna().all() and (run.flows["size"].dropna() > 0).all()


@pytest.mark.slow
def test_a_run_with_transfers_is_that_of_the_twin():
    run = simulate(SCENARIO, trace=10_000_000)
    setup = prepare(SCENARIO)
    twin = build_twin(setup, seed=SCENARIO.seed)
    for block in MICE.blocks(SCENARIO.seed, SCENARIO.duration):
        twin.add(setup.transfers(block), more=True)
    twin.more = False
    twin.advance(SCENARIO.duration)
    assert run.stats["digest"] == twin.digest and run.stats["events"] == twin.events
    assert len(run.flows) == 2 + twin.started == 2 + run.stats["transfers"]
    assert len(run.trace) == len(twin.traced) > 10_000
    assert run.trace["time"].is_monotonic_increasing
    assert set(run.trace["event"]) >= {"ack", "send", "start", "stop", "interval", "drop"}
    done = run.flows[run.flows["completion_time"].notna()]
    assert len(done) > 200 and (done["delivered"] == done["size"]).all()
    assert run.flows["start"][2:].is_monotonic_increasing


def test_neither_slices_nor_chunks_nor_pauses_nor_samples_nor_threads_change_a_run(monkeypatch):
    whole = simulate(SCENARIO)
    digests = {}

    def work(k):
        digests[k] = simulate(SCENARIO, sample=0.01 * (k + 1)).stats["digest"]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.setattr(simulation, "SLICE", 777)
    monkeypatch.setattr("ecc.packet.transfers.CHUNK", 1)
    run = Run(SCENARIO, sample=0.3, histogram_from=1.5)
    for until in (0.1, 0.1, 0.05, 1.7, 3.0, None):
        run.advance(until)
    parts = run.trajectory()
    assert set(digests.values()) == {whole.stats["digest"]} == {parts.stats["digest"]}
    pd.testing.assert_frame_equal(parts.flows, whole.flows)
    assert simulate(SCENARIO.with_(seed=4)).stats["digest"] != whole.stats["digest"]


def test_transfers_cost_memory_only_while_they_live():
    def peak(duration):
        work = Workload([], [Arrivals([0], "1 ms", 2_000, packet_size=1000)])
        network = Network.dumbbell("100 Mb/s", rtts=[0.02])
        run = simulate(Scenario(network, QIRCP(), duration, workload=work), sample=0.5)
        assert run.stats["transfers"] == pytest.approx(1000 * duration, rel=0.1)
        assert run.flows["completion_time"].notna().mean() > 0.9
        return run.stats["peak_bytes"]

    # Storage doubles when it is full, so two runs may differ by a factor of 2. Rows of all transfers would take 4 times
    # as much.
    assert peak(24.0) <= 2.0 * peak(6.0) < 3e6


def test_rows_stream_to_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("ecc.packet.transfer_rows.ROWS", 64)
    path = tmp_path / "flows.parquet"
    run, kept = simulate(SCENARIO, flows_to=path), simulate(SCENARIO)
    assert len(run.flows) == 2 and run.stopped == "completed"
    table = pd.read_parquet(path).set_index("transfer").sort_index()
    pd.testing.assert_frame_equal(table, kept.flows[2:])
    with pytest.raises(TypeError, match=r"^flows_to must be a path or None, got 3$"):
        Run(SCENARIO, flows_to=3)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        EccError, match=r"^flows_to needs pyarrow, which is not installed: pip install 'congestion-control\[parquet\]'$"
    ):
        Run(SCENARIO, flows_to=path)


def test_a_pause_shows_what_there_is():
    run = Run(SCENARIO)
    assert (run.now, run.stopped) == (0.0, "paused") and len(run.trajectory().rate) == 0
    run.advance("2.5 s")
    early = run.trajectory()
    assert (run.now, early.stopped, early.is_complete) == (2.5, "paused", False)
    assert len(early.rate) == 25 and early.flows["start"].max() <= 2.5
    assert run.advance(1.0).now == 2.5
    late = run.advance().trajectory()
    assert late.is_complete and len(late.rate) == 60
    np.testing.assert_array_equal(late.rate[:25], early.rate)
    assert run.advance().trajectory().stats["events"] == late.stats["events"]


def test_cancel_ends_a_run_that_can_go_on(monkeypatch):
    monkeypatch.setattr(simulation, "SLICE", 1000)
    seen = []
    run = Run(SCENARIO).advance(progress=seen.append, cancel=lambda: len(seen) >= 5)
    assert (run.stopped, len(seen)) == ("canceled", 5) and 0.0 < run.now < 6.0
    part = run.trajectory()
    assert not part.is_complete and part.stats["now"] == run.now
    assert run.advance().trajectory().stats["digest"] == simulate(SCENARIO).stats["digest"]
    assert simulate(SCENARIO, cancel=lambda: True).stopped == "canceled"


def test_cancel_is_called_at_least_once_in_a_slice_of_work():
    # 300,000 packets are sent at one instant, by few events; work is counted, so the speed of the machine plays no part
    network = Network([Link("100 Gb/s", "10 ms")], [Flow([0])])
    run = Run(Scenario(network, NewReno(initial=300_000, transport="rack"), 0.05))
    work = []

    def look():
        engine = run._engine
        work.append(engine.stats.events + int(engine.flow_results["sent"][0]) // 1000)
        return False

    run.advance(cancel=look)
    assert len(work) > 10 and np.diff([0, *work]).max() <= simulation.SLICE + MAX_BURST


def test_an_interrupt_waits_until_the_transfers_are_drawn(monkeypatch):
    # one that falls into the drawing of transfers would end it for good
    whole, blocks = simulate(SCENARIO), Workload.blocks

    def interrupted(*arguments):
        for k, block in enumerate(blocks(*arguments)):
            for _ in range(3 if k == 1 else 0):
                signal.raise_signal(signal.SIGINT)
            yield block

    monkeypatch.setattr(Workload, "blocks", interrupted)
    monkeypatch.setattr("ecc.packet.transfers.CHUNK", 1)
    run = Run(SCENARIO).advance()
    assert run.stopped == "interrupted" and run.now < 6.0
    assert run.advance().trajectory().stats["digest"] == whole.stats["digest"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_does_not_wait():
    def twice(share):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not reached")

    assert simulate(SCENARIO, progress=twice).stopped == "interrupted"


ENDLESS = """
import signal
import ecc

network = ecc.Network.dumbbell("10 Mb/s", rtts=[0.05], buffer="100 kB")
run = ecc.packet.Run(ecc.Scenario(network, ecc.models.XCP(alpha=1e9), 5.0))  # windows of 1e17 bytes, most dropped
shares = []

def progress(share):  # slices end within the event: more than one ends at the same time
    shares.append(share)
    if shares[-3:] == [share] * 3:
        signal.raise_signal(signal.SIGINT)

print(run.advance(progress=progress).stopped, run.now, run.trajectory().stats["events"])
"""


@pytest.mark.slow
def test_an_interrupt_is_heard_within_an_event_that_never_ends():
    run = subprocess.run([sys.executable, "-P", "-c", ENDLESS], capture_output=True, text=True, timeout=HANG)
    stopped, now, events = run.stdout.split()
    assert stopped == "interrupted" and 0.1 < float(now) < 0.2 and int(events) < 100_000, run.stderr


def test_a_run_out_of_memory_keeps_what_it_has():
    said = r"out of memory: 0.1[0-9]+ MB are held and memory_limit is 0.15 MB( \(flow 1\))?$"
    with pytest.warns(RuntimeWarning, match=rf"the run ended at [0-9.]+ s: {said}"):
        run = simulate(SCENARIO, memory_limit="150 kB")
    assert "out of memory" in run.stopped and 0 < run.stats["now"] < 6.0
    assert run.stats["peak_bytes"] <= 150_000
    assert len(run.rate) == int(run.stats["now"] / 0.1 + 1e-9)
    assert len(run.flows) == 2 + run.stats["transfers"] > 2
    same = simulate(SCENARIO.with_(duration=run.stats["now"]), sample=0.1)
    np.testing.assert_array_equal(run.rate, same.rate[: len(run.rate)])


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"sample": 1e-6, "memory_limit": "300 MB"}, "series"),
        ({"sample": 1e-5, "record": ["flow.x"], "memory_limit": "100 MB"}, "series"),
        ({"trace": 10**7, "memory_limit": "300 MB"}, "series, trace 640 MB"),
        ({"histogram_from": 1.0, "memory_limit": "100 kB"}, "series, histograms"),
        ({"sample": 1e-6}, "series"),
        ({"sample": 1e-6, "threads": 2}, "series"),
        ({"sample": 1e-5, "engine": "python"}, "series"),
    ],
)
def test_a_run_whose_results_do_not_fit_is_refused_before_it_starts(options, parts, monkeypatch):
    network = SCENARIO.network if "threads" not in options else Network([Link("10 Mb/s", "1 ms")] * 2, [Flow([0, 1])])
    scenario = Scenario(network, RCP(), 6.0)
    small = Run(scenario, record=options.get("record", ()))._engine._samples
    columns = sum(series.shape[1] for series in small.values())
    copies = 3 * (4 if "engine" in options else 1)  # and a number of Python takes four times as much
    size = copies * 8 * columns * round(6.0 / options.get("sample", 0.1)) / 1e6
    monkeypatch.setattr("ecc.packet.simulation.free_memory", lambda: 500_000_000)
    with pytest.raises(ValueError, match=r"^memory_limit must be > .* a longer sample, .* take less$") as refused:
        Run(scenario, **options)
    said = str(refused.value)
    assert "\n" not in said and f"series {size:,.6g} MB" in said and all(part in said for part in parts.split(", "))


def test_a_fluid_run_whose_series_do_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("ecc.fluid.network.simulation.free_memory", lambda: 500_000_000)
    with pytest.raises(ValueError, match=r"^memory_limit must be > [\d,]+ MB .*a longer sample"):
        ecc.fluid.simulate(Scenario(NETWORK, RCP(), 6.0), sample=1e-6)


def floods(flow, header, p, env):
    env.window = 3e33


class Flooding(RCP):
    def flow_hooks(self):
        return super().flow_hooks() | {"on_start": floods}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_takes_what_the_machine_has_free_at_most(threads, monkeypatch):
    """A window without limit, of an endless flow, is sent at once: no time passes, and each packet takes memory."""
    monkeypatch.setattr("ecc.packet.simulation.free_memory", lambda: 3_000_000)
    links = [Link("10 Mb/s", "1 ms"), Link("10 Mb/s", "1 ms")]
    scenario = Scenario(Network(links, [Flow([0, 1])]), Flooding(), 1.0)
    with pytest.warns(RuntimeWarning, match=r"out of memory: [0-9.]+ MB are held and memory_limit is 3 MB \("):
        run = simulate(scenario, threads=threads)
    assert run.stats["now"] == 0.0 and run.stats["peak_bytes"] <= 3_000_000 * threads


def test_free_memory_is_that_of_the_machine_or_of_the_container(tmp_path):
    def put(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert free_memory() > 10_000_000
    put(
        "proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    1000000 kB\nSwapFree:   24000 kB\nHugePages_Total:  0\n"
    )
    assert free_memory(tmp_path) == int(0.9 * 1_048_576_000)
    put("proc/self/cgroup", "4:cpu,memory:/docker/one\n3:cpuset:/\n0::/user.slice/here\n")
    put("sys/fs/cgroup/user.slice/here/memory.max", "max\n")
    assert free_memory(tmp_path) == int(0.9 * 1_048_576_000)
    put("sys/fs/cgroup/user.slice/memory.max", "500000000\n")
    assert free_memory(tmp_path) == 450_000_000
    put("sys/fs/cgroup/memory/docker/one/memory.limit_in_bytes", "400000000\n")
    assert free_memory(tmp_path) == 360_000_000
    assert free_memory(tmp_path / "elsewhere") > 10_000_000


class Strict(RCP):
    def flow_hooks(self):
        return super().flow_hooks() | {"on_stop": divide}


def divide(flow, header, p, env):
    flow.x = 1.0 / (env.delivered - env.size)


def test_a_failing_transfer_is_called_by_its_row():
    load = Workload([Flow([0], start=0.5), Flow([0], start=0.6, size=3000)])
    scenario = Scenario(NETWORK, Strict(), 3.0, workload=load)
    setup = prepare(scenario)
    twin = build_twin(setup, seed=scenario.seed)
    twin.add(setup.transfers(np.concatenate(list(load.blocks(1, 3.0)))), more=False)
    expected = r"^a hook failed: ZeroDivisionError: .*division by zero \(transfer 3, on_stop, t = [0-9.]+ s\)$"
    with pytest.raises(NativeError, match=expected) as caught:
        twin.advance(3.0)
    with pytest.warns(RuntimeWarning, match="transfer 3"):
        run = simulate(scenario)
    assert run.stopped.partition("(")[2] == str(caught.value).partition("(")[2]
    assert (run.flows.loc[3, "delivered"], run.flows.loc[3, "size"]) == (3000, 3000)


def test_queues_by_time_and_by_arrivals_of_a_deterministic_queue():
    # 1000-byte packets every 2 ms over a link that takes 1 ms for each: half of the time empty, found empty by all
    from ecc.models import ConstantRate

    network = Network.dumbbell("8 Mb/s", rtts=[0.02])
    run = simulate(
        Scenario(network, ConstantRate(rate="4 Mb/s"), 10.0, phase_jitter=False), histogram_from=1.0, sample=0.1
    )
    assert run.queue_mean[10:].to_numpy() == pytest.approx(500.0, rel=1e-9)
    assert run.queue_below(1).item() == pytest.approx(0.5, rel=1e-6) == run.queue_below("999 B").item()
    assert run.queue_below(1, by="arrivals").item() == 1.0
    assert run.queue_quantiles([0.1, 0.5, 0.51, 1.0])[:, 0].to_numpy().tolist() == [0, 0, 1000, 1000]
    assert run.queue_quantiles(0.99, by="arrivals").item() == 0
    assert run.queues["time"].sum().item() == pytest.approx(9.0)
    for arguments, message in (
        ((1.5,), "quantiles must be from 0 to 1, got 1.5"),
        ((0.5, "packets"), "by must be 'time' or 'arrivals', got 'packets'"),
    ):
        with pytest.raises(ValueError, match=message):
            run.queue_quantiles(*arguments)
    scenario = Scenario(network, ConstantRate(rate="4 Mb/s"), 1.0)
    for early in (simulate(scenario), Run(scenario, histogram_from=0.5).advance(0.4).trajectory()):
        with pytest.raises(ValueError, match="queues were not counted in this run"):
            early.queue_quantiles(0.5)
    with pytest.raises(ValueError, match=r"histogram_from must be < the duration \(1 s\), got 2 s"):
        Run(scenario, histogram_from=2.0)


def test_a_trace_is_bounded():
    run = simulate(SCENARIO, trace=100)
    assert len(run.trace) == 100 and run.trace["event"][0] in ("start", "interval")
    assert simulate(SCENARIO).trace is None
    with pytest.raises(ValueError, match="trace must be >= 0, got -1"):
        Run(SCENARIO, trace=-1)
    for kept in (0, 100):  # the twin keeps no more in memory either
        twin = Run(SCENARIO, trace=kept, engine="python").advance(0.2)._engine
        assert len(twin._twin.traced) == kept and twin.stats.trace > 400


# Checkpoints ---------------------------------------------------------------------------------------------------------

IMPAIRED = SCENARIO.with_(
    network=Network(
        NETWORK.links,
        [
            Flow([0], access_delay=0.01, delayed_acks=(2, "40 ms")),
            Flow([0], access_delay=0.02, packet_size=(500, 1500)),
        ],
    ),
    impairments=[
        RandomLoss(0.01, link=0, kind="data"),
        Jitter((0.0, 0.01), link=0, in_order=False),
        CapacitySchedule(0, [2.0, 4.0], ["10 Mb/s", "30 Mb/s"]),
    ],
)


@pytest.mark.parametrize("scenario", [SCENARIO, IMPAIRED], ids=["mice", "impaired"])
@pytest.mark.parametrize("at", [0.0, 0.7, 4.321])
def test_a_resumed_run_ends_as_the_other_one(tmp_path, scenario, at):
    path = tmp_path / "run.ckpt"
    run = Run(scenario, sample=0.05, trace=np.int64(5000), histogram_from=0.5, memory_limit="1 GB").advance(at)
    run.save(path)
    there = run.advance().trajectory()
    again = resume(path)
    assert again.now == pytest.approx(at) and again.stopped == "paused"
    here = again.advance().trajectory()
    assert here.stats["digest"] == there.stats["digest"] and here.is_complete
    for name in there.data:
        np.testing.assert_array_equal(here.data[name], there.data[name])
    pd.testing.assert_frame_equal(here.flows, there.flows)
    pd.testing.assert_frame_equal(here.trace, there.trace)
    assert here.queues.equals(there.queues) and here.data.attrs == there.data.attrs
    assert list(tmp_path.iterdir()) == [path]


def test_a_checkpoint_of_a_run_whose_rows_go_to_a_file(tmp_path):
    path, rows = tmp_path / "run.ckpt", tmp_path / "flows.parquet"
    run = Run(SCENARIO, flows_to=rows)
    assert not rows.exists()
    run.advance(2.0).save(path)
    assert run.flows_to == tmp_path / "flows-1.parquet" and not run.flows_to.exists()
    run.advance().close()
    finished = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(finished) == {path, rows, tmp_path / "flows-1.parquet"}
    again = resume(path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == finished  # a look at it destroys nothing
    again.advance()
    assert {file: file.read_bytes() for file in finished} == finished
    (tmp_path / "flows-1.parquet").unlink()
    tables = [pd.read_parquet(file) for file in sorted(tmp_path.glob("*.parquet"))]
    assert sorted(tmp_path.glob("*.parquet")) == [tmp_path / "flows-2.parquet", rows]
    whole = pd.concat(tables).set_index("transfer").sort_index()
    pd.testing.assert_frame_equal(whole, simulate(SCENARIO).flows[2:])
    assert all(0 < len(table) < len(whole) for table in tables)


def test_checkpoints_that_do_not_fit_are_refused_in_one_line(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    run = Run(SCENARIO).advance(1.0)
    run.save(path)
    assert resume(path, SCENARIO).now == 1.0
    with pytest.raises(ValueError, match=r"^scenario must be that of the checkpoint, got another one"):
        resume(path, SCENARIO.with_(seed=9))
    with pytest.raises(OSError, match="No such file"):
        resume(tmp_path / "none.ckpt")
    half = tmp_path / "half.ckpt"
    half.write_bytes(path.read_bytes()[:5000])
    bent = tmp_path / "bent.ckpt"
    bent.write_bytes(path.read_bytes()[:5000] + b"?" + path.read_bytes()[5001:])
    for broken in (half, bent):
        with pytest.raises(ValueError, match=r"^'.*\.ckpt' is not a checkpoint, or is incomplete$"):
            resume(broken)
    with monkeypatch.context() as patch:
        patch.setattr(simulation, "hook_digests", lambda setup: ["other"])
        with pytest.raises(ValueError, match="protocol must have the hooks of the checkpoint, got different ones"):
            resume(path)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "__version__", "9.9")
        with pytest.raises(ValueError, match=r"checkpoint must be of version 9\.9, got "):
            resume(path)
    with pytest.warns(RuntimeWarning, match="out of memory"):
        failed = Run(SCENARIO, memory_limit="100 kB").advance()
    with pytest.raises(ValueError, match="save needs a run that can be resumed, got a run that ended: out of memory"):
        failed.save(path)


def test_an_engine_takes_only_its_own_checkpoint():
    engine, other = Run(SCENARIO).advance(0.5)._engine, Run(SCENARIO.with_(seed=9))._engine
    saved = engine.save()
    with pytest.raises(
        NativeError,
        match="a checkpoint must be complete, and saved by an engine of the same build, configuration and part",
    ):
        other.load(saved)
    for cut in (100, 1000, len(saved["state"]) - 1):
        with pytest.raises(NativeError, match="a checkpoint must be"):
            Run(SCENARIO)._engine.load(saved | {"state": saved["state"][:cut]})


@pytest.mark.parametrize("name", ["rate", "now", "scenario", "stopped"])
def test_a_run_has_nothing_to_set(name):
    scenario = ecc.Scenario(ecc.Network.dumbbell("10 Mb/s", rtts=[0.05]), ecc.models.RCP(), 0.5)
    run = ecc.packet.Run(scenario)
    with pytest.raises(AttributeError, match=f"^{name} of a Run cannot be set"):
        setattr(run, name, 3)
    with pytest.raises(AttributeError):
        run.advance().trajectory().rate = 3
    assert run.stopped == "completed" and run.scenario is scenario
