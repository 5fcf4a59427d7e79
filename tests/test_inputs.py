"""Bad and extreme inputs: every public callable refuses them in one line of its own, or takes them."""

import os
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from waiting import HANG

import ecc
from ecc._support.arguments import Count, Matrix, Seed, Vector, check_arguments, shown
from ecc.errors import OutOfMemoryError

sys.path.insert(0, str(Path(__file__).parent))
import inputs  # noqa: E402

ENTRIES = {entry.name: entry for entry in inputs.entries()}
HEAVY = ("Run.", "Engine.", "Comparison.", "Hopf.")  # whose methods need a run or a search first


def explained(tally):
    return "\n".join(f"{said}: {why}" for said, why in tally.bad.items())


def test_the_walk_finds_what_is_public():
    assert len(ENTRIES) > 150
    for name in ("ecc.linearize", "ecc.packet.Run.advance", "ecc.Network.dumbbell", "ecc.DelaySystem.margins"):
        assert (name in ENTRIES) == (name != "ecc.DelaySystem.margins")  # that takes nothing


@pytest.mark.slow
def test_good_arguments_are_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    without = {"BIC", "CUBIC", "DCQCN", "DCTCP", "NSCC", "NewReno", "PatchedTIMELY", "Protocol", "TIMELY", "UTIL"}
    without |= {"VCP", "BBR", "BBRv1", "BBRv2", "C4", "Compound", "ExpressPass", "Prague"}
    without |= {"Aurora", "GCC", "Orca", "Policy", "SCReAM"}
    refusing = {f"ecc.models.{name}.equilibrium" for name in without}
    refusing |= {"ecc.live.node"}  # without other machines
    refusing |= {name for name in ENTRIES if name.startswith("ecc.queues.") and name.endswith(".equilibrium")}
    refusing |= {e.name for e in ENTRIES.values() if e.name.endswith(".relay_loop") and not e.owner.has_relay()}
    refusing |= {"ecc.models.ExpressPass.round_map", "ecc.models.Vivace.round_map"}  # RTTs differ
    refusing |= {
        e.name
        for e in ENTRIES.values()
        if e.name.endswith(".round_map") and e.owner.round_map is ecc.models.Protocol.round_map
    }
    for entry in ENTRIES.values():
        tally = inputs.Tally()
        inputs.instance.cache_clear()  # what another method has changed, such as a run that is over
        inputs.attempt(entry, {}, 60.0, tally)
        expected = "refused" if entry.name in refusing else "result"
        assert tally.counts[expected] == 1, (entry.name, tally)


@pytest.mark.slow
def test_none_what_is_too_large_and_what_fills_lines_are_refused_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tally = inputs.Tally()
    for entry in ENTRIES.values():
        if any(part in entry.name for part in HEAVY):
            continue
        for one in entry.parameters:
            for value in (None, 10**400, np.full((2, 2, 2), np.nan)):
                if value is None and one.default is None:
                    continue
                inputs.attempt(entry, {one.name: value}, 5.0, tally)
    assert not tally.bad, explained(tally)
    assert not tally.counts["long"]
    assert tally.counts["refused"] > 600


@pytest.mark.slow
@pytest.mark.property
@pytest.mark.parametrize("module", [one.__name__ for one in inputs.modules()])
def test_bad_and_extreme_inputs(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs.good()
    tally, parameters = inputs.Tally(), 0
    for entry in ENTRIES.values():
        if entry.module == module or (module != "ecc" and entry.module.startswith(module)):
            tally.add(inputs.isolated(entry, 2, 1.0, HANG))
            parameters += len(entry.parameters)
    assert not tally.bad, explained(tally)
    assert tally.counts.total() >= min(21, 3 * parameters) or module in ("ecc.allocation", "ecc.models")


# ---- the checker ------------------------------------------------------------------------------------------


@check_arguments
def sample(n: int, x: float = 0.0, limit: float = float("inf"), name: str | None = None, *, flag: bool = False):
    return n, x, limit, name, flag


def test_what_annotations_allow_is_passed_on():
    assert sample(np.int64(3), np.float32(0.5), float("inf"), name="a", flag=np.bool_(True)) == (
        3,
        0.5,
        np.inf,
        "a",
        True,
    )
    assert sample.__name__ == "sample" and sample.__wrapped__ is not None


@pytest.mark.parametrize(
    ("arguments", "named", "kind", "message"),
    [
        ((None,), {}, TypeError, "^n must be a whole number, got None$"),
        ((1.0,), {}, TypeError, "^n must be a whole number, got 1.0$"),
        ((True,), {}, TypeError, "^n must be a whole number, got True$"),
        ((2**64,), {}, ValueError, "^n must be a whole number of 64 bits, got 18446744073709551616$"),
        ((1, float("nan")), {}, ValueError, "^x must be a finite number, got nan$"),
        ((1, float("inf")), {}, ValueError, "^x must be a finite number, got inf$"),
        ((1, 10**400), {}, ValueError, r"^x must be a finite number, got 1000\d+\.\.\.0+$"),
        ((1, 10**5000), {}, ValueError, "^x must be a finite number, got <int>$"),
        ((1, "1"), {}, TypeError, "^x must be a finite number, got '1'$"),
        ((1, 0.0, float("nan")), {}, ValueError, "^limit must be a number, got nan$"),
        ((1,), {"name": 3}, TypeError, "^name must be a string or None, got 3$"),
        ((1,), {"flag": 1}, TypeError, "^flag must be True or False, got 1$"),
        ((), {"x": 1.0}, TypeError, "^sample lacks the argument 'n'$"),
        ((1,), {"other": 1}, TypeError, "^sample must have arguments among n, x, limit, name, flag, got 'other'$"),
    ],
)
def test_what_they_do_not_allow_is_refused_in_one_line(arguments, named, kind, message):
    with pytest.raises(kind, match=message):
        sample(*arguments, **named)


def test_values_are_shown_in_one_line_of_moderate_length():
    for value in (np.full(400, np.nan), "x" * 10**5, 10**400, 10**5000, {"a": "b\n" * 50}, inputs.Odd()):
        assert len(shown(value)) <= 80 and "\n" not in shown(value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ecc.linearize(ecc.models.RCP(), None), "^network must be a Network, got None$"),
        (lambda: ecc.linearize("RCP", inputs.good()["network"]), "^protocol must be a Protocol or .*, got 'RCP'$"),
        (lambda: ecc.linear.certify(None), "^system must be a LinearSystem, got None$"),
        (lambda: ecc.packet.simulate(None), "^scenario must be a Scenario, got None$"),
        (lambda: ecc.models.RCP().equilibrium(None), "^network must be a Network, got None$"),
        (
            lambda: ecc.stability.classify_stability([0.0, 1.0], [0.0, float("nan")], 1.0),
            "^deviation must be an array of finite",
        ),
        (lambda: ecc.DelaySystem(None, [1.0]), "^matrices of a DelaySystem must be a sequence, got None$"),
        (
            lambda: ecc.stability.critical_gain(ecc.models.RCP(), inputs.good()["network"], "alpha", maximum=np.nan),
            "^maximum must be a number, got nan$",
        ),
    ],
)
def test_what_is_missing_is_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ecc.Link(), "^Link lacks the argument 'capacity'$"),
        (lambda: ecc.Flow(), "^Flow lacks the argument 'route'$"),
        (lambda: ecc.Arrivals(), "^Arrivals lacks the arguments 'route' and 'mean_interarrival'$"),
        (lambda: ecc.Scenario(), "^Scenario lacks the arguments 'network', 'protocol' and 'duration'$"),
        (lambda: ecc.Link("1 Mb/s", bufer=1), "^Link must have arguments among capacity, delay, .*, got 'bufer'$"),
        (lambda: ecc.Pause(1, 2, 3, 4), r"^Pause must have at most 3 arguments without a name \(xoff, .*\), got 4$"),
        (lambda: ecc.DelaySystem(), "^DelaySystem lacks the arguments 'matrices' and 'delays'$"),
        (
            lambda: ecc.linear.stability_limit(len, 3),
            r"^stability_limit must have at most 1 argument without a name \(family\), got 2$",
        ),
    ],
)
def test_constructors_and_functions_name_what_is_missing_unknown_or_too_much(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_type_errors_inside_a_constructor_stay():
    with pytest.raises(TypeError, match="^pause must be a Pause or None, got 3$"):
        ecc.Link("1 Mb/s", pause=3)


def test_files_are_named(tmp_path):
    for bad in (os.fspath(tmp_path), os.fspath(tmp_path / "none")):
        with pytest.raises(OSError, match="none|is a directory|Is a directory"):
            ecc.Scenario.from_toml(Path(bad))


@check_arguments
def shaped(x: Vector = (), y: Matrix = ((),), n: Count = 0, seed: Seed = 0):
    return np.shape(x), np.shape(y), n, seed


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"x": 1.0}, "^x must be a one-dimensional array of finite numbers, got 1.0$"),
        ({"x": [[1.0]]}, r"^x must be a one-dimensional array of finite numbers, got \[\[1.0\]\]$"),
        ({"y": [1.0]}, r"^y must be a two-dimensional array of finite numbers, got \[1.0\]$"),
        ({"n": -1}, r"^n must be a whole number from 0 to 2\^63 - 1, got -1$"),
        ({"seed": 2**32}, r"^seed must be a whole number from 0 to 2\^32 - 1, got 4294967296$"),
    ],
)
def test_shapes_and_ranges_are_said_by_annotations(named, message):
    assert shaped([1.0, 2.0], [[1.0]], 3, 4) == ((2,), (1, 1), 3, 4)
    with pytest.raises(ValueError, match=message):
        shaped(**named)


def test_numbers_that_numpy_does_not_know_are_floats():
    for value in (Fraction(1, 4), 2**70):
        found = sample(1, value, limit=value)[1:3]
        assert found == (value, value) and all(type(one) is float for one in found)
    assert type(sample(1, 3)[1]) is int and type(sample(1, np.float32(3.0))[1]) is np.float32


def test_too_much_memory_without_a_reason_names_the_class():
    @check_arguments(constructor=True)
    class Kept:
        def __init__(self, size: int) -> None:
            raise MemoryError

    with pytest.raises(OutOfMemoryError, match=r"Kept asks for more memory than there is$"):
        Kept(3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ecc.native.new_flows(2**60),
        lambda: ecc.native.new_links(2**63 - 1),
        lambda: inputs.an_engine(n_samples=2**62),
        lambda: inputs.an_engine(trace=2**60),
    ],
)
def test_too_much_memory_is_refused_in_one_line(call):
    with pytest.raises(OutOfMemoryError, match=r"^[\w.]+ asks for more memory than there is: [^\n]+$"):
        call()
