"""Congestion controllers in shared objects: they do what the same laws do in Python."""

from __future__ import annotations

import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import HANG

import ecc
from ecc._support.digests import function_digest
from ecc.cli import main
from ecc.conform import cases as conformance_cases
from ecc.models import NewReno, controller
from ecc.scenario import protocol_class

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")

START = """
#include "ecc_controller.h"
unsigned ecc_controller_version(void) { return ECC_CONTROLLER_VERSION; }
"""

NEWRENO = (
    START
    + """
typedef struct { double window, ssthresh; long long backed_off; } reno_t;

static double most(double a, double b) { return a > b ? a : b; }
static double least(double a, double b) { return a < b ? a : b; }

size_t ecc_controller_size(void) { return sizeof(reno_t); }

void ecc_controller_init(void *state, const double *p, const ecc_controller_event_t *e)
{
    reno_t *self = state;
    self->window = 4.0 * e->packet_size;
    self->ssthresh = 1e300;
}

void ecc_controller_on_ack(void *state, const double *p, const ecc_controller_event_t *e)
{
    reno_t *self = state;
    double s = e->packet_size;
    if (e->acked > 0.0) self->backed_off = 0;
    if (e->acked <= 0.0 || e->recovering > 0.0 || e->recovered > 0.0) return;
    if (self->window < self->ssthresh)
        self->window += least(e->acked, (self->ssthresh >= 1e300 ? 2.0 : 1.0) * s);
    else
        self->window = self->window + s * e->acked / self->window;
}

void ecc_controller_on_loss(void *state, const double *p, const ecc_controller_event_t *e)
{
    reno_t *self = state;
    double half = most(0.5 * least(self->window, e->in_flight), 2.0 * e->packet_size);
    if (e->kind == 0.0) {
        self->window = self->ssthresh = half;
        return;
    }
    if (!self->backed_off) self->ssthresh = half;
    self->backed_off = 1;
    self->window = e->packet_size;
}

double ecc_controller_window(const void *state, const double *p, const ecc_controller_event_t *e)
{
    return ((const reno_t *)state)->window;
}
"""
)

SMALLEST = (
    START
    + """
size_t ecc_controller_size(void) { return 0; }
void ecc_controller_init(void *state, const double *p, const ecc_controller_event_t *e) {}
void ecc_controller_on_ack(void *state, const double *p, const ecc_controller_event_t *e) {}
void ecc_controller_on_loss(void *state, const double *p, const ecc_controller_event_t *e) {}
double ecc_controller_window(const void *state, const double *p, const ecc_controller_event_t *e) { return 8000.0; }
"""
)

SEEING = (
    SMALLEST.replace("{ return 0; }", "{ return sizeof(ecc_controller_event_t); }")
    .replace("8000.0", "80000.0")
    .replace(
        "_on_ack(void *state, const double *p, const ecc_controller_event_t *e) {}",
        "_on_ack(void *state, const double *p, const ecc_controller_event_t *e)"
        "{ *(ecc_controller_event_t *)state = *e; }",
    )
    + "#define OF(field) values[k++] = e->field;\n"
    + "void ecc_controller_read(const void *state, double *values)\n"
    + "{ const ecc_controller_event_t *e = state; int k = 0;"
    + " ".join(f"OF({name})" for name in controller.EVENT)
    + "}\nconst char *const *ecc_controller_variables(void) { static const char *const names[] = {"
    + ", ".join(f'"{name}"' for name in controller.EVENT)
    + ", NULL}; return names; }"
)

EVERY_20_MS = (
    SMALLEST.replace("{ return 0; }", "{ return sizeof(double); }")
    + """
void ecc_controller_on_timer(void *state, const double *p, const ecc_controller_event_t *e) { *(double *)state += 1.0; }
double ecc_controller_timer(const void *state, const double *p, const ecc_controller_event_t *e)
{
    return 0.02 * (*(const double *)state + 1.0) - e->now;
}
const char *const *ecc_controller_variables(void)
{
    static const char *const names[] = {"expired", NULL};
    return names;
}
void ecc_controller_read(const void *state, double *values) { *values = *(const double *)state; }
"""
)


def naming(*names: str) -> str:
    """The function that names parameters, each with its index as its value."""
    entries = "".join(f'{{"{name}", {k}.0}}, ' for k, name in enumerate(names))
    return (
        "const ecc_controller_parameter_t *ecc_controller_parameters(void)"
        f"{{ static const ecc_controller_parameter_t p[] = {{{entries}{{NULL, 0.0}}}}; return p; }}\n"
    )


def built(folder: Path, text: str, name: str = "mine") -> str:
    """The path of the shared object that a text compiles to."""
    source, out = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(text)
    assert COMPILER is not None
    options = ["-shared", "-fPIC", "-O2", "-ffp-contract=off", "-I", controller.include()]
    subprocess.run([COMPILER, *options, "-o", str(out), str(source)], check=True, timeout=HANG)
    return str(out)


@pytest.fixture(scope="module")
def aimd(tmp_path_factory: pytest.TempPathFactory) -> str:
    return built(tmp_path_factory.mktemp("aimd"), (ROOT / "examples/aimd.c").read_text(), "aimd")


def network() -> ecc.Network:
    return ecc.Network.dumbbell("10 Mb/s", rtts=["20 ms", "50 ms"], buffer="30 kB")


@pytest.mark.slow
def test_newreno_in_c_is_newreno_to_the_packet(tmp_path: Path) -> None:
    mine = controller.load(built(tmp_path, NEWRENO))
    ours = ecc.packet.simulate(ecc.Scenario(network(), NewReno(transport="sack", initial=4.0, min_rto=0.2), 10.0))
    theirs = ecc.packet.simulate(ecc.Scenario(network(), mine(), 10.0))
    assert ours.drops.sum() > 10
    assert theirs.stats["digest"] == ours.stats["digest"]


def test_the_example_fills_its_link_and_shows_its_variables(aimd: str) -> None:
    Aimd = controller.load(aimd)
    assert Aimd.__name__ == "aimd" and Aimd.variables == ("window", "threshold")
    scenario = ecc.Scenario(network(), Aimd(increase=0.5), 10.0)
    run = ecc.packet.simulate(scenario, record=["flow.window", "flow.variables[0]", "env.window"])
    assert run.rate[-50:].mean("time").sum() > 9e6
    assert (run["flow.variables[0]"] == run["env.window"]).all()
    assert (run["flow.window"] == run["env.window"]).all()  # by its name
    mixed = {"flows": {0: NewReno(), 1: controller.load(aimd)()}}
    beside = ecc.packet.simulate(ecc.Scenario(network(), mixed, 1.0), record=["flow.window"], engine="python")
    assert beside["flow.window"][:, 0].isnull().all() and beside["flow.window"][:, 1].notnull().all()
    with pytest.raises(ValueError, match=r"record must name a field of a flow, .*, window, threshold, got 'flow.win'"):
        ecc.packet.simulate(scenario, record=["flow.win"])
    interpreted = ecc.packet.simulate(ecc.Scenario(network(), Aimd(), 0.5), engine="python")
    compiled = ecc.packet.simulate(ecc.Scenario(network(), Aimd(), 0.5))
    assert interpreted.stats["digest"] == compiled.stats["digest"]
    steeper = ecc.packet.simulate(ecc.Scenario(network(), Aimd(increase=2.0), 10.0))
    assert steeper.drops.sum() > run.drops.sum()


@pytest.mark.slow
def test_conformance_finds_its_answers_its_parameters_and_its_variables_by_name(aimd: str) -> None:
    mine = controller.load(aimd)()
    lacking = ecc.conform.run(mine, ["cubic-timeout"]).findings[0].reason
    assert lacking == "does not apply: it has no parameter C and no parameter beta"  # but an answer to losses
    found = ecc.conform.compare(mine, controller.load(aimd)(decrease=0.7), ecc.Scenario(network(), mine, 1.5))
    assert {"window", "threshold"} <= set(found.compared)
    assert {one.variable for one in found.deviations} >= {"env.window", "env.rate", "window", "threshold"}
    assert found.first is not None and found.first.hook == "on_loss"


@pytest.mark.slow
def test_it_may_be_the_reference_of_a_protocol_that_draws_no_random_numbers(tmp_path: Path) -> None:
    found = ecc.conform.compare(NewReno(transport="sack", initial=4), controller.load(built(tmp_path, NEWRENO))())
    assert found.first is None and len(found.time) > 1000
    assert found.notes[0].startswith("NewReno draws no random numbers, and reference mine may")


def test_a_saved_run_goes_on_bit_for_bit(tmp_path: Path, aimd: str) -> None:
    Aimd = controller.load(aimd)
    scenario = ecc.Scenario(network(), Aimd(), 4.0)
    whole = ecc.packet.simulate(scenario)
    ecc.packet.Run(scenario).advance(2.0).save(tmp_path / "half.ckpt")
    again = ecc.packet.resume(tmp_path / "half.ckpt").advance().trajectory()
    assert again.stats["digest"] == whole.stats["digest"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["c", "python"])
def test_timers_expire_when_they_were_set_to(tmp_path: Path, engine: str) -> None:
    mine = controller.load(built(tmp_path, EVERY_20_MS))
    run = ecc.packet.simulate(
        ecc.Scenario(network(), mine(), 0.99), sample="90 ms", record=["flow.variables[0]"], engine=engine
    )
    assert run["flow.variables[0]"][:, 0].values.tolist() == [4, 9, 13, 18, 22, 27, 31, 36, 40, 45, 49]


def test_the_header_declares_what_hosts_tell() -> None:
    text = (Path(controller.include()) / "ecc_controller.h").read_text()
    struct = re.search(r"typedef struct \{(.*?)\} ecc_controller_event_t;", text, re.DOTALL)
    assert struct is not None
    assert tuple(re.findall(r"double (\w+);", struct[1])) == controller.EVENT
    assert f"#define ECC_CONTROLLER_VERSION {controller.VERSION}\n" in text


TOLD = {
    **{name: f"env.{name}" for name in ("rtt", "srtt", "min_rtt")},
    **{
        name: f"flow.{name}"
        for name in (
            "newly_acked",
            "newly_lost",
            "rate",
            "interval",
            "sample_delivered",
            "sample_lost",
            "tx_in_flight",
            "prior_delivered",
            "round_count",
            "round_start",
        )
    },
    "app_limited": "flow.sample_app_limited",
    "total_delivered": "flow.delivered",
    "total_lost": "flow.lost",
}
"""Fields of an event that stay as they are until the next ACK -> what a run records of them."""


@pytest.mark.slow
def test_fields_are_told_under_their_names(tmp_path: Path) -> None:
    kind = controller.load(built(tmp_path, SEEING))
    assert kind.variables == controller.EVENT
    series = {name: f"flow.variables[{k}]" for k, name in enumerate(controller.EVENT)}
    run = ecc.packet.simulate(
        ecc.Scenario(network(), kind(), 3.0), sample="0.7 ms", record=[*series.values(), *TOLD.values()]
    )
    found = {name: run[what].values[100:] for name, what in series.items()}
    for name, what in TOLD.items():
        assert (found[name] == run[what].values[100:]).all(), name
    assert (found["newly_acked"] == 1000.0).all()
    for name in set(TOLD) - {"app_limited", "newly_acked"}:
        assert len(set(found[name].ravel().tolist())) > 1, name  # or equality would say little
    assert (found["packet_size"] == 1000.0).all() and (found["size"] == -1.0).all()
    assert (found["now"] <= run.data.time.values[100:, None]).all() and (found["now"] > 0.0).all()
    for name in ("undone", "kind", "marked", "ece"):
        assert (found[name] == 0.0).all()
    assert 0.0 <= found["random"].min() < found["random"].max() < 1.0
    assert (found["delivered"][-1] == run.flows["delivered"]).all()
    assert found["recovering"].max() == 1.0
    assert 0.0 < found["in_flight"].max() <= 80000.0


@pytest.mark.slow
def test_a_file_that_is_compiled_again_is_another_controller(tmp_path: Path) -> None:
    first = controller.load(built(tmp_path, SMALLEST))
    second = controller.load(built(tmp_path, SMALLEST.replace("8000.0", "80000.0")))
    rates = [ecc.packet.simulate(ecc.Scenario(network(), kind(), 2.0)).rate[-1].sum() for kind in (first, second)]
    assert rates[1] > 2.0 * rates[0]
    assert function_digest(first()) != function_digest(second())
    assert controller.load(tmp_path / "mine.so") is second
    with pytest.raises(ValueError, match=r"library '.*mine.so' has changed since its controller was made"):
        pickle.loads(pickle.dumps(first()))


def test_a_class_with_names_of_states_is_itself_in_other_processes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    built(tmp_path, SMALLEST)
    text = (
        "from ecc.models import controller\nSTATES = ['Startup']\nclass Mine(controller.load('mine.so')):\n    pass\n"
    )
    for name in ("mine.py", "my_states_of_c.py"):
        Path(name).write_text(text, encoding="utf-8")
    kind = protocol_class("my_states_of_c.py:Mine")
    assert type(pickle.loads(pickle.dumps(kind(min_rto=0.3)))) is kind
    assert pickle.loads(pickle.dumps(kind(min_rto=0.3))) == kind(min_rto=0.3)
    with pytest.raises(ValueError, match=r"its name is that of another module, .*mine\.so: rename the file$"):
        protocol_class("mine.py:Mine")
    with pytest.raises(ValueError, match=r"must have a class of the file, as mine\.py:MyProtocol, got 'mine\.py'$"):
        protocol_class("mine.py")


@pytest.mark.slow
def test_other_processes_load_it_too(aimd: str, tmp_path: Path) -> None:
    scenario = ecc.Scenario(network(), controller.load(aimd)(decrease=0.7), 1.0)
    code = "import ecc, pickle, sys; print(ecc.packet.simulate(pickle.load(sys.stdin.buffer)).stats['digest'])"
    there = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        input=pickle.dumps(scenario),
        check=True,
        capture_output=True,
        cwd=tmp_path,
        timeout=HANG,
    )
    assert int(there.stdout) == ecc.packet.simulate(scenario).stats["digest"]


def test_scenario_files_name_the_shared_object(aimd: str) -> None:
    scenario = ecc.Scenario(network(), controller.load(aimd)(increase=2.0), 1.0)
    assert f'name = "{aimd}"' in scenario.to_toml()
    assert ecc.Scenario.from_toml(scenario.to_toml()) == scenario
    with pytest.raises(ValueError, match=r"protocol has no key 'gain'; allowed are .*increase, decrease"):
        ecc.Scenario.from_toml(scenario.to_toml().replace("increase", "gain"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALLEST.replace("_on_loss", "_on_lost"), "must have the function ecc_controller_on_loss"),
        (SMALLEST.replace("ECC_CONTROLLER_VERSION; }", "7; }"), "must be of version 1 of ecc_controller.h, got 7"),
        (
            EVERY_20_MS.replace("ecc_controller_on_timer(", "other("),
            "has ecc_controller_timer, and must have ecc_controller_on_timer too",
        ),
        (
            SMALLEST + naming("transport"),
            "must not name a parameter 'transport', which the host already defines: use another name, such as",
        ),
        (
            SMALLEST.replace("{ return 0; }", "{ return (size_t)1 << 60; }"),
            f"must have a state of <= {2**30} bytes, got {2**60} bytes",
        ),
        (SMALLEST + naming("for"), "must give parameters names that Python accepts, got 'for'"),
        (SMALLEST + naming("gain", "beta", "gain"), "must name a parameter once, got 'gain' 2 times"),
        (EVERY_20_MS.replace('"expired"', '"expired", "expired"'), "must name a variable once, got 'expired' 2 times"),
    ],
)
def test_what_is_wrong_with_a_library_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        controller.load(built(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_words_that_fluids_alone_ask_for_are_free(tmp_path: Path) -> None:
    made = controller.load(built(tmp_path, SMALLEST + naming("initial", "floor")))(initial=10.0)
    assert made.parameter_names == ("initial", "floor")
    assert (made.initial, made.floor) == (10.0, 1.0)
    run = ecc.packet.simulate(ecc.Scenario(network(), made, 1.0), record=["flow.parameters[0]"])
    assert run.rate.sum() > 0.0


def test_the_page_names_words_that_are_taken() -> None:
    text = (ROOT / "docs/controllers_in_c.md").read_text()
    line = re.search(r"^Reserved names include (.*?)\.$", text, re.M | re.S)
    assert line is not None
    words = re.findall(r"`(\w+)`", line[1])
    assert len(words) > 10 and set(words) <= set(dir(controller.Controller)) - controller.FREE


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_parameter_is_a_finite_number(aimd: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^increase must be finite, got {value}$"):
        controller.load(aimd)(increase=value)


def test_files_that_are_no_libraries(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"library must be a shared object, got .*absent.so.: No such file"):
        controller.load(tmp_path / "absent.so")
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(ValueError, match=r"library .*text.so' cannot be loaded"):
        controller.load(tmp_path / "text.so")


FAULTING = SMALLEST.replace("_on_ack(void *state,", "_on_ack_of(void *state,") + (
    "void ecc_controller_on_ack(void *state, const double *p, const ecc_controller_event_t *e)"
    "{ *(volatile int *)0 = 1; }\n"
)


@pytest.mark.slow
def test_a_fault_in_a_run_says_where_it_was(tmp_path: Path) -> None:
    library = built(tmp_path, FAULTING)
    path = tmp_path / "scenario.toml"
    path.write_text(ecc.Scenario(network(), controller.load(library)(), 1.0).to_toml(), encoding="utf-8")
    for line in (["simulate", str(path)], ["conform", library, "--against", "NewReno"]):
        command = [sys.executable, "-P", "-m", "ecc", *line]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=HANG)
        assert done.returncode < 0 and done.stdout == ""
        assert done.stderr.startswith("Fatal Python error: ")
        assert re.search(r"engine\.py\", line \d+ in advance|controller\.py\", line \d+ in hook", done.stderr)


@pytest.mark.slow
def test_cases_whose_process_a_fault_ends_are_rows_that_failed(tmp_path: Path, capsys) -> None:
    library, cases = built(tmp_path, FAULTING), ["rfc9743-change", "rfc9743-fairness"]
    line = ["conform", library, "--jobs", "1", "--out", str(tmp_path / "r"), "--store", str(tmp_path / "s.sqlite")]
    assert main([*line, *(word for one in cases for word in ("--case", one)), "--case", "cubic"]) == 1
    said = capsys.readouterr()
    for one in cases:
        assert re.search(rf"^ {one} +failed +its process ended, 2 times: SIG[A-Z]+$", said.out, re.M)
        assert re.search(rf"^ecc: case {one} failed: its process ended, 2 times: SIG[A-Z]+$", said.err, re.M)
    n_cubic = sum(case.id.startswith("cubic-") for case in conformance_cases())
    assert f"\ncubic-*: {n_cubic} cases do not apply: no parameter C, no parameter beta\n" in said.out
    assert said.err.count("\n") == 4 and "cubic-" not in said.err  # no progress of what does not apply


@pytest.mark.slow
def test_a_window_that_is_no_number_ends_the_run(tmp_path: Path) -> None:
    mine = controller.load(built(tmp_path, SMALLEST.replace("return 8000.0", "return e->now > 1.0 ? 0.0 / 0.0 : 8e3")))
    with pytest.warns(RuntimeWarning, match=r"ended at 1.0\d* s: window must be finite and >= 0 bytes, got nan"):
        run = ecc.packet.simulate(ecc.Scenario(network(), mine(), 2.0))
    assert 0.9 < float(run.data.time[-1]) <= 1.2


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["c", "python"])
@pytest.mark.parametrize(
    "write",
    [
        ("((double *) state)[{words}] = 1.0"),
        ("((double *) state)[-1] = 1.0"),
    ],
)
def test_a_controller_that_writes_outside_its_state_ends_the_run(write, engine, tmp_path):
    outside = {
        "c": "the controller has written outside its state",
        "python": "a C function has written outside an array",
    }
    message = outside[engine]
    begin = "if (e->acked > 0.0) self->backed_off = 0;"
    assert begin in NEWRENO
    library = built(tmp_path, NEWRENO.replace(begin, f"{begin} {write.format(words=3)};"))
    network = ecc.Network.dumbbell("10 Mb/s", rtts=[0.02, 0.02], buffer="30 kB")
    with pytest.warns(RuntimeWarning, match=message):
        run = ecc.packet.simulate(ecc.Scenario(network, controller.load(library)(), 1.0), engine=engine)
    assert not run.is_complete and "\n" not in run.stopped
    assert re.search(message + r".*\(flow \d, on_ack, t = 0\.0\d+ s\)", run.stopped)


@pytest.mark.slow
def test_a_controller_that_reads_out_more_variables_than_it_names_ends_the_run(tmp_path):
    more = """
    const char *const *ecc_controller_variables(void) { static const char *names[] = {"a", 0}; return names; }
    void ecc_controller_read(const void *state, double *values) { values[0] = values[1] = 2.0; }
    """
    library = built(tmp_path, NEWRENO + more)
    network = ecc.Network.dumbbell("10 Mb/s", rtts=[0.02], buffer="30 kB")
    with pytest.warns(RuntimeWarning, match="ecc_controller_read has written more values"):
        run = ecc.packet.simulate(ecc.Scenario(network, controller.load(library)(), 1.0))
    assert not run.is_complete
