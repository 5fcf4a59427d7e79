"""Controllers in Rust and Go behind `ecc_controller.h`, built by their own tools."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import ecc
from ecc import conform
from ecc.models import CUBIC, controller
from ecc.scenario import protocol_class

EXAMPLES = Path(__file__).parents[2] / "examples"


def version(tool, *arguments):
    """The version of a tool, (0, 0) if there is none."""
    if shutil.which(tool) is None:
        return (0, 0)
    text = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=60).stdout
    return tuple(int(part) for part in re.search(r"(\d+)\.(\d+)", text).groups())


@pytest.fixture(scope="module")
def s2n_cubic(tmp_path_factory):
    if version("cargo", "--version") < (1, 95):
        pytest.skip("needs cargo 1.95")
    folder = tmp_path_factory.mktemp("rust") / "s2n_cubic"
    shutil.copytree(EXAMPLES / "s2n_cubic", folder)
    built = subprocess.run(
        ["cargo", "build", "--release", "-q"], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert built.returncode == 0, built.stderr
    return protocol_class(f"{folder / 's2n_cubic.py'}:S2nCubic")


def scenario(first, second, duration=40.0):
    network = ecc.Network.dumbbell("10 Mb/s", rtts=["50 ms"] * 2, buffer="60 kB", packet_size=1200)
    return ecc.Scenario(network, {"flows": {0: first, 1: second}}, duration)


@pytest.mark.slow
def test_a_controller_of_a_crate_shares_a_link_with_our_own(s2n_cubic):
    run = ecc.packet.simulate(scenario(s2n_cubic(), CUBIC(transport="quic")))
    shares = run.goodput[-1000:].mean("time").to_numpy()
    assert shares.sum() > 9e6 and shares.min() > 3e6


@pytest.mark.slow
def test_what_the_laboratory_finds_of_it(s2n_cubic):
    cases = ["cubic-window", "cubic-fast-convergence", "cubic-reduction", "cubic-reno", "rfc9743-reordering"]
    found = conform.run(s2n_cubic(), cases)
    assert not found.failures
    assert {one.claim.id for one in found.findings if str(one.verdict) == "refuted"} == {
        "cubic-reno",  # RFC 8312 counts from W_max beta without the growth of RFC 9438 beyond it
        "rfc9743-reordering",  # three later packets are a loss (RFC 9002 sec. 6.1.1)
    }


@pytest.mark.slow
def test_a_controller_in_go(tmp_path):
    if version("go", "version") < (1, 21):
        pytest.skip("needs go 1.21")
    library = tmp_path / "aimd_go.so"
    command = ["go", "build", "-buildmode=c-shared", "-o", str(library), str(EXAMPLES / "aimd.go")]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert built.returncode == 0, built.stderr
    protocol = controller.load(library)()
    run = ecc.packet.simulate(scenario(protocol, protocol))
    assert run.goodput[-1000:].mean("time").sum() > 9e6
