"""Connection vectors: both formats there and back, every refusal with its line, load, and how a run plays them."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from ecc import Flow, Link, Network, Scenario, Tmix, Workload
from ecc.models import ConstantRate
from ecc.packet import Run, resume, simulate
from ecc.traffic.tmix import (
    ACCEPTOR,
    INITIATOR,
    ConnectionVector,
    Synthetic,
    Unit,
    offered_load,
    read_vectors,
    response_times,
    thin,
    write_vectors,
)

ORIGINAL = """# the example of ns-2's manual
SEQ 6851 1 21217 555382       # starts at 6.851 ms
w 64800 6432
r 1176194
l 0.000000 0.000000
> 245
t 51257
< 510
t 6304943                     # then sends FIN

CONC 1429381 2 2 26876 793318
w 65535 5840
r 36556
l 0.000000 0.010000
c> 222
t> 62436302
c< 726
t< 62400173
c> 16
t> 725
c< 84
t< 130
"""
ALTERNATE = """S 6851 1 21217 555382
w 64800 6432
r 1176194
l 0.000000 0.000000
I 0 0 245
A 0 51257 510
A 6304943 0 0
C 1429381 2 2 26876 793318
w 65535 5840
r 36556
l 0.000000 0.010000
I 0 0 222
A 0 0 726
I 62436302 0 16
A 62400173 0 84
I 725 0 0
A 130 0 0
"""


def test_both_formats_of_the_manual_say_the_same():
    vectors = read_vectors(ORIGINAL)
    assert vectors == read_vectors(ALTERNATE)
    assert vectors[0] == ConnectionVector(
        0.006851,
        1.176194,
        [Unit(INITIATOR, 245), Unit(ACCEPTOR, 510, 0.051257)],
        close=(None, 6.304943),
        windows=(64800, 6432),
        identifiers=(21217, 555382),
    )
    assert vectors[1].concurrent and vectors[1].losses == (0.0, 0.01) and vectors[1].close == (725e-6, 130e-6)
    assert vectors[1].chains == [[0, 2], [1, 3]] and vectors[1].sizes() == (238, 810)
    assert write_vectors(vectors, alternate=True) == ALTERNATE
    assert read_vectors(write_vectors(vectors)) == vectors


def test_files(tmp_path):
    path = tmp_path / "some.cvec"
    write_vectors(read_vectors("S 0 1 0 0\r\nm 1460 536\r\nr 5\r\nI 0 0 7\r\n"), path)
    assert read_vectors(path)[0].segments == (1460, 536) and read_vectors(path)[0].windows is None
    assert path.read_text() == "SEQ 0 1 0 0\nm 1460 536\nr 5\nl 0.000000 0.000000\n> 7\n"
    path.write_bytes(b"SEQ 1 \xff\xfe\n")
    with pytest.raises(ValueError, match=r"^vectors must be text, got bytes that are not \('.*some.cvec'\)$"):
        read_vectors(path)
    path.write_text("SEQ 1 1 0 0\nx 5\n")
    with pytest.raises(ValueError, match=r"got 'x' \(line 2 of '.*some.cvec'\)$"):
        read_vectors(str(path))
    with pytest.raises(FileNotFoundError):
        read_vectors(tmp_path / "none")


HEAD = "SEQ 0 1 0 0\nr 10\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello there\n", r"a vector must begin with SEQ, CONC, S or C, got 'hello' \(line 1\)"),
        ("SEQ 0 1 0\n", r"'SEQ' must be followed by 4 numbers \(start, exchanges, id, id\), got 3 \(line 1\)"),
        ("CONC 0 1 0 0\n", r"'CONC' must be followed by 5 numbers .*, got 4 \(line 1\)"),
        ("\n#\nSEQ -5 1 0 0\n", r"start must be a whole number of at most 15 digits, got '-5' \(line 3\)"),
        (f"SEQ {'9' * 99} 1 0 0\n", r"start must be a whole number of at most 15 digits, got '9{20}\.\.\.' \(line 1\)"),
        ("SEQ \u00b2 1 0 0\n", r"start must be a whole number of at most 15 digits, got '\u00b2' \(line 1\)"),
        ("SEQ 0 1 0 0\nr 1.5\n", r"RTT must be a whole number of at most 15 digits, got '1.5' \(line 2\)"),
        ("SEQ 0 1 0 0\nr 1\nr 2\n", r"'r' must come once, before the units \(line 3\)"),
        (HEAD + "> 5\nw 5 5\n", r"'w' must come once, before the units \(line 4\)"),
        ("SEQ 0 1 0 0\nw 1\n", r"'w' must be followed by 2 numbers \(initiator, acceptor\), got 1 \(line 2\)"),
        ("SEQ 0 1 0 0\nl 0 2\n", r"'l' must be followed by 2 numbers from 0 to 1, got '0 2' \(line 2\)"),
        ("SEQ 0 1 0 0\nl nan 0\n", r"'l' must be followed by 2 numbers from 0 to 1, got 'nan 0' \(line 2\)"),
        (HEAD + "c> 5\n", r"a line must begin with one of w, r, l, m, >, <, t, got 'c>' \(line 3\)"),
        ("C 0 1 0 0 0\n> 5\n", r"a line must begin with one of w, r, l, m, I, A, got '>' \(line 2\)"),
        (HEAD + "t 5\n", r"'t' must come after data, once \(line 3\)"),
        (HEAD + "> 5\nt 5\nt 5\n", r"'t' must come after data, once \(line 5\)"),
        (HEAD + "> 5\n< 5\n", r"'<' must come after a wait \('t'\) \(line 4\)"),
        (HEAD + "> 0\n", r"a unit must have > 0 bytes, got 0 \(line 3\)"),
        ("CONC 0 2 0 0 0\nr 1\nc> 5\nc> 5\n", r"'c>' must come after a wait \('t'\) \(line 4\)"),
        ("CONC 0 2 0 0 0\nr 1\nc> 5\n\n", r"must have \[2, 0\] units, as it declares, got \[1, 0\] \(line 5\)"),
        ("SEQ 0 1 0 0\nr 1\nSEQ 0 1 0 0\n", r"the vector before must have an RTT \('r'\) and data \(line 3\)"),
        ("SEQ 0 1 0 0\n> 5\n", r"the vector before must have an RTT \('r'\) and data \(line 3\)"),
        ("S 0 1 0 0\nr 1\nI 7 0 5\n", r"the first unit of a sequential vector must not wait, got 7 \(line 3\)"),
        ("S 0 1 0 0\nr 1\nI 0 0 5\nA 1 1 5\n", r"one of the waits must be 0, got 1 and 1 \(line 4\)"),
        ("S 0 1 0 0\nr 1\nI 0 0 5\nA 5 0 5\n", r"the one after receiving if the other side sent last \(line 4\)"),
        ("S 0 1 0 0\nr 1\nI 0 0 5\nI 0 5 5\n", r"the one after sending if the same side sent last \(line 4\)"),
        ("S 0 1 0 0\nr 1\nI 0 0 5\nI 5 0 0\nI 5 0 5\n", r"the initiator must not send after it has closed \(line 5\)"),
        ("C 0 1 1 0 0\nr 1\nI 0 0 5\nA 0 5 5\n", r"must be 0 in a concurrent vector, got 5 \(line 4\)"),
    ],
)
def test_what_is_wrong_and_in_which_line(text, message):
    with pytest.raises(ValueError, match=message):
        read_vectors(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Unit(2, 5), r"sender must be 0 \(initiator\) or 1 \(acceptor\), got 2"),
        (lambda: Unit(0, 0), "size must be >= 1 bytes, got 0"),
        (lambda: Unit(0, 5, -1.0), "wait must be >= 0 s, got -1"),
        (lambda: ConnectionVector(0.0, 0.1, []), "units must be one Unit or more, got "),
        (lambda: ConnectionVector(0.0, 0.1, [Unit(0, 5)], losses=(0.0, 1.5)), "losses must be from 0 to 1, got"),
        (lambda: ConnectionVector(0.0, 0.1, [Unit(0, 5, 1.0)]), "the first unit of a seq.* must not wait, got 1 s"),
        (
            lambda: write_vectors([ConnectionVector(0.0, 0.1, [Unit(0, 5)], close=(None, 2.0))]),
            r"close must be None for the side that did not send last, got 2 s \(acceptor\)",
        ),
        (lambda: thin([], 1.5), r"share must be <= 1 \(begin with the largest load\), got 1.5"),
        (lambda: Synthetic(0.0), "rate must be > 0, got 0"),
        (lambda: Synthetic(1.0, exchanges=0.5), "exchanges must be >= 1, got 0.5"),
        (lambda: Tmix([1], [0], [1]), r"vectors must be ConnectionVectors, a path, or Synthetic, got \[1\]"),
        (lambda: Tmix(ORIGINAL, [0], [1], share=2.0), "share must be <= 1"),
        (lambda: Tmix("SEQ 0\n", [0], [1]), r"'SEQ' must be followed by 4 numbers .* \(line 1\)"),
        (lambda: Tmix(ORIGINAL, [], [1]), "route must"),
        (lambda: Workload(tmix=[Tmix(ORIGINAL, [0], [1])] * 2), "tmix must be one Tmix at most, got 2"),
        (lambda: Workload(tmix=[Tmix(ORIGINAL, [0], [1])]).draw(1, 5.0), r"tmix must be \(\) to draw flows"),
        (lambda: response_times(simulate(scenario(None), sample=0.5).flows), "flows must be those of a run with conn"),
        (lambda: response_times(None, by="unit"), "by must be 'connection' or 'exchange', got 'unit'"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_thinning_keeps_connections_whole_and_a_share_of_the_load():
    vectors = Synthetic(50.0, request_spread=0.5, response_spread=0.5).vectors(1, 100.0)
    half = thin(vectors, 0.5, seed=2)
    assert half == thin(vectors, 0.5, seed=2) != thin(vectors, 0.5, seed=3)
    assert set(map(id, half)) < set(map(id, vectors))
    ratio = np.array(offered_load(half, 100.0)) / offered_load(vectors, 100.0)
    assert ratio == pytest.approx([0.5, 0.5], rel=0.05)
    assert thin(vectors, 1.0) == vectors


@pytest.mark.slow
def test_synthetic_connections_are_as_stated():
    given = Synthetic.edn("80 Mb/s")
    assert given.loads == pytest.approx([19e6, 80e6], rel=1e-3)  # the median is whole bytes
    calm = Synthetic(500.0, request_spread=0.5, response_spread=1.0)
    vectors = calm.vectors(3, 20.0)
    assert offered_load(vectors, 20.0) == pytest.approx(calm.loads, rel=0.03)
    assert len(vectors) == pytest.approx(10_000, rel=0.03)
    rtts = np.array([vector.rtt for vector in vectors])
    assert np.median(rtts) == pytest.approx(0.1, rel=0.03) and np.log(rtts).std() == pytest.approx(0.8, rel=0.03)
    waits = [
        [unit.wait for vector in vectors for unit in vector.units[side:] if unit.sender == side] for side in (1, 0)
    ]
    assert np.mean(waits[0]) == pytest.approx(0.01, rel=0.03)
    assert np.mean([wait for wait in waits[1] if wait > 0.0]) == pytest.approx(1.0, rel=0.03)
    assert np.mean([len(vector.units) / 2 for vector in vectors]) == pytest.approx(3.0, rel=0.03)
    responses = [unit.size for vector in vectors for unit in vector.units if unit.sender == ACCEPTOR]
    assert np.median(responses) == pytest.approx(2000, rel=0.03)


LINKS = [Link("8 Mb/s", "10 ms"), Link("8 Mb/s", "10 ms")]
ASIDE = Network([*LINKS, Link("8 Mb/s", "1 ms")], [Flow([2], size=1)])


def scenario(workload, duration=10.0):
    return Scenario(ASIDE, ConstantRate("8 Mb/s"), duration, workload=workload, phase_jitter=False)


def test_a_sequential_connection_by_hand():
    # a packet of 1000 bytes takes 1 ms, an ACK of 40 bytes 0.04 ms; one way is 10 + 20 ms, and 10 + 20 ms back
    units = [Unit(INITIATOR, 1000), Unit(ACCEPTOR, 3000, 0.5), Unit(INITIATOR, 1000, 2.0), Unit(ACCEPTOR, 1000)]
    run = simulate(scenario(Tmix([ConnectionVector(1.0, 0.04, units)], [0], [1])))
    rows = run.flows[run.flows["connection"] == 0]
    there, back = 0.02 + 0.001 + 0.01, 0.01 + 0.00004 + 0.02
    starts = np.cumsum([1.0, there + 0.5, there + 0.002 + 2.0, there])
    assert rows["start"].to_numpy() == pytest.approx(starts, abs=1e-9)
    assert rows["finish"].to_numpy() == pytest.approx(starts + there + back + [0.0, 0.002, 0.0, 0.0], abs=1e-9)
    assert rows["sender"].tolist() == [0, 1, 0, 1] and rows["last"].tolist() == [0, 0, 0, 1]
    whole = response_times(run.flows)
    assert whole["response_time"].tolist() == pytest.approx([4 * there + 0.002 + back], abs=1e-9)
    assert whole["size"].tolist() == [6000.0]
    each = response_times(run.flows, by="exchange")
    assert each["response_time"].tolist() == pytest.approx([2 * there + 0.502 + back, 2 * there + back], abs=1e-9)


def test_sides_of_a_concurrent_connection_do_not_wait_for_each_other():
    units = [Unit(0, 1000), Unit(1, 1000, 0.25), Unit(0, 1000, 1.0), Unit(1, 1000, 3.0)]
    run = simulate(scenario(Tmix([ConnectionVector(1.0, 0.04, units, concurrent=True)], [0], [1])))
    rows = run.flows[run.flows["connection"] == 0].set_index("unit")
    there, back = 0.031, 0.03004
    assert rows["start"][[0, 1, 2, 3]].tolist() == pytest.approx([1.0, 1.25, 2.0 + there, 4.25 + there], abs=1e-9)
    assert response_times(run.flows)["response_time"][0] == pytest.approx(2 * there + back, abs=1e-9)
    assert len(response_times(run.flows, by="exchange")) == 0


def test_a_connection_that_has_not_ended_has_no_response_time():
    units = [Unit(INITIATOR, 1000), Unit(ACCEPTOR, 1000, 9.5)]
    vectors = [ConnectionVector(start, 0.04, units) for start in (0.1, 1.0, 11.0)]
    run = simulate(scenario(Tmix(vectors, [0], [1])))
    found = response_times(run.flows)
    assert found.index.tolist() == [0, 1] and found["response_time"].isna().tolist() == [False, True]
    assert response_times(run.flows, by="exchange")["finish"].isna().tolist() == [False, True]


BUSY = Tmix(Synthetic(20.0, response_spread=1.0), [0], [1], share=0.5)


def test_toml_files_and_generators(tmp_path):
    path = tmp_path / "some.cvec"
    write_vectors(read_vectors(ORIGINAL), path)
    for given in (BUSY, Tmix(read_vectors(ORIGINAL), [0], [1]), Tmix(path, [0], [1], packet_size=(40, 1500))):
        one = scenario(given)
        assert one.workload == Workload(tmix=[given])
        again = Scenario.from_toml(one.to_toml())
        assert again.to_toml() == one.to_toml()
        blocks = [list(each.workload.blocks(1, 100.0)) for each in (one, again)]
        np.testing.assert_array_equal(*map(np.concatenate, blocks))
    with pytest.raises(ValueError, match=r"route must use links 0 to 2, got 7 \(workload.tmix\[0\]\)"):
        scenario(Tmix(ORIGINAL, [7], [1]))
    bad = scenario(BUSY).to_toml().replace("rate = 20.0", "rate = 20.0\nhurry = 1")
    with pytest.raises(ValueError, match=r"vectors has no key 'hurry'; .* \(in workload.tmix\[0\]\)"):
        Scenario.from_toml(bad)


def test_connections_stream_resume_and_mix_with_other_transfers(tmp_path):
    import pandas as pd

    from ecc import Arrivals

    mixed = scenario(Workload(arrivals=[Arrivals([0], 0.05, 5000)], tmix=[BUSY]), 6.0)
    whole = simulate(mixed)
    path, saved = tmp_path / "rows.parquet", tmp_path / "run.ckpt"
    kept = Run(mixed, flows_to=path).advance(3.0)
    kept.save(saved)
    again = resume(saved).advance()
    assert again.trajectory().stats["digest"] == whole.stats["digest"]
    rows = pd.concat([pd.read_parquet(path), pd.read_parquet(path.with_stem("rows-1"))])
    pd.testing.assert_frame_equal(rows.set_index("transfer").sort_index(), whole.flows[1:])
    assert (whole.flows["connection"] == -1).sum() > 60 and whole.flows["connection"].max() > 30
    Run(mixed).advance(3.0).save(saved)
    pd.testing.assert_frame_equal(resume(saved).advance().trajectory().flows, whole.flows)
    pd.testing.assert_frame_equal(resume(saved).trajectory().flows, Run(mixed).advance(3.0).trajectory().flows)
    first = simulate(mixed, sample=0.5).flows
    pd.testing.assert_frame_equal(first, whole.flows)


@pytest.mark.slow
def test_the_load_is_exact_if_asked_for():
    exact = replace(Synthetic.edn("20 Mb/s"), exact=True)
    for seed in (1, 2):
        found = offered_load(exact.vectors(seed, 100.0), 100.0)[1]
        assert found == pytest.approx(20e6, rel=0.15)
        assert all(float(one.start) < 100.0 for one in exact.vectors(seed, 100.0))


@pytest.mark.slow
def test_a_file_is_read_as_the_run_goes(tmp_path, monkeypatch):
    """Memory for a file does not grow with it, if its vectors come in order; else they are sorted."""
    monkeypatch.setattr("ecc.traffic.workload.BLOCK", 50)
    small, large, mixed = (tmp_path / name for name in ("small", "large", "mixed"))
    vectors = [f"S {k * 1000} 1 0 0\nr 20000\nI 0 0 300\nA 0 50 {1000 + k % 7}\n" for k in range(1500)]
    small.write_text("".join(vectors[:300]))
    large.write_text("".join(vectors))
    mixed.write_text("".join([*vectors[700:], *vectors[:700]]))
    peaks = {}
    for path in (small, small, large):
        tracemalloc.start()
        drawn = sum(len(block) for block in Workload(tmix=[Tmix(path, [0], [1])]).blocks(1, 100.0))
        peaks[path] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert drawn == 2 * (300 if path == small else 1500)
    assert peaks[large] < 1.2 * peaks[small]
    whole = read_vectors(large)
    streams = [Workload(tmix=[Tmix(of, [0], [1])]).blocks(1, 1.2) for of in (large, mixed, whole)]
    first, *others = (np.concatenate(list(stream)) for stream in streams)
    assert len(first) == 2_400 and all((first == other).all() for other in others)
    drawn = [list(Tmix(of, [0], [1], share=0.3).draw_vectors(np.random.default_rng(1), 9.0)) for of in (large, whole)]
    assert drawn[0] == drawn[1] == thin(whole, 0.3, int(np.random.default_rng(1).integers(2**32)))


def test_a_line_without_end_is_refused(tmp_path):
    path = tmp_path / "line"
    path.write_bytes(b"7" * 10_000_000)
    with pytest.raises(ValueError, match=r"^a line must have <= 100000 characters \(line 1 of '.*line'\)$"):
        read_vectors(path)
