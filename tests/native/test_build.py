"""What the C engine refuses to be built with."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "ecc" / "native"
COMPILERS = [compiler for compiler in ("gcc", "clang") if shutil.which(compiler)]

pytestmark = pytest.mark.skipif(not NATIVE.exists() or not COMPILERS, reason="no sources, or no compiler")


def compiled(compiler: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [compiler, "-std=c17", f"-I{NATIVE}", "-fsyntax-only", *flags, "-xc", "-"]
    return subprocess.run(command, input='#include "core/state.h"\n', capture_output=True, text=True)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_arithmetic_without_nan_is_refused(compiler: str) -> None:
    for level in ("-O0", "-O2", "-O3"):
        assert compiled(compiler, level).returncode == 0
    for flag in ("-Ofast", "-ffast-math", "-ffinite-math-only"):
        refused = compiled(compiler, "-O2", flag)
        assert refused.returncode != 0
        assert refused.stderr.count("error:") == 1
        assert "the packet engine needs IEEE arithmetic: build it without -Ofast" in refused.stderr


@pytest.mark.skipif(not shutil.which("meson"), reason="no meson")
def test_the_build_says_so_in_one_line(tmp_path: Path) -> None:
    given = {**os.environ, "CC": COMPILERS[0], "CFLAGS": "-Ofast"}
    setup = ["meson", "setup", str(tmp_path / "build"), str(NATIVE.parents[1])]
    refused = subprocess.run(setup, env=given, capture_output=True, text=True)
    (line,) = [line for line in refused.stdout.splitlines() if "ERROR" in line]
    assert refused.returncode != 0 and line.endswith(
        "leave out -Ofast, -ffast-math and any part of it (CFLAGS, c_args)"
    )


@pytest.mark.skipif(not shutil.which("meson"), reason="no meson")
def test_without_a_compiler_the_build_says_what_to_install(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("meson", "ninja", "python3"):
        if shutil.which(name):
            (tools / name).symlink_to(str(shutil.which(name)))
    given = {name: value for name, value in os.environ.items() if name != "CC"} | {"PATH": str(tools)}
    setup = [str(shutil.which("meson")), "setup", str(tmp_path / "build"), str(NATIVE.parents[1])]
    refused = subprocess.run(setup, env=given, capture_output=True, text=True)
    (line,) = [line for line in refused.stdout.splitlines() if "ERROR" in line]
    assert refused.returncode != 0 and line.endswith(
        "ecc needs a C compiler, and none was found: install gcc or clang "
        "(Debian and Ubuntu: apt install gcc; Fedora: dnf install gcc; macOS: xcode-select --install)"
    )
