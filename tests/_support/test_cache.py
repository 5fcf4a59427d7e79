"""What is kept between processes: bounded, and not needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ecc._support import cache
from ecc._support.store import Store

NAMES = [f"{k:064x}" for k in range(6)]


def test_what_has_not_been_used_for_longest_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "MAX_FILES", 4)
    others = [tmp_path / "results.sqlite", tmp_path / "notes"]
    for age, file in enumerate(others):
        file.write_text("of others")
        os.utime(file, (age, age))
    for age, name in enumerate(NAMES[:4]):
        cache.keep(name, b"code")
        os.utime(tmp_path / name, (100 + age, 100 + age))
    assert cache.kept(NAMES[0]) == b"code"  # it is used again
    for name in NAMES[4:]:
        cache.keep(name, b"code")
    assert {file.name for file in tmp_path.iterdir()} == {NAMES[0], *NAMES[3:], "results.sqlite", "notes"}
    monkeypatch.setattr(cache, "MAX_BYTES", 2 * (32 + 4) + 10_032)
    cache.keep("f" * 64, bytes(10_000))
    assert len([file for file in tmp_path.iterdir() if file not in others]) == 3 and cache.kept("f" * 64)
    assert cache.kept(NAMES[0]) is None and cache.kept(NAMES[5]) == b"code"


def test_a_store_keeps_the_last_results_where_it_is_told_how_many(tmp_path: Path) -> None:
    bounded, free = Store(tmp_path / "some.sqlite", most=3), Store(tmp_path / "all.sqlite")
    for k in range(5):
        for store in (bounded, free):
            store.put(str(k), k)
        bounded.put("1", "again")
    assert len(free) == 5 and len(bounded) == 3
    assert [bounded.get(str(k)) for k in range(5)] == [None, "again", None, 3, 4]


RUN = """
import pwd, sys
def unknown(number):
    raise KeyError(number)
if "nobody" in sys.argv:
    pwd.getpwuid = unknown  # as where the user has no entry
import ecc
from ecc import Network, Scenario, fluid, packet
from ecc._support.store import Store
scenario = Scenario(Network.dumbbell("10 Mb/s", rtts=[0.05]), ecc.models.QIRCP(), duration=0.5)
print(packet.simulate(scenario).stopped, fluid.simulate(scenario).stopped, Store.of_user().parent.parent)
"""


def test_without_a_home_there_is_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ECC_CACHE_DIR", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", unknown)  # as where the user has no entry
    (folder,) = cache.folders()
    assert folder.parent == tmp_path and folder.stat().st_mode & 0o777 == 0o700
    cache.keep(NAMES[0], b"code")
    assert cache.kept(NAMES[0]) == b"code" and Store.of_user().parent.parent == folder


@pytest.mark.slow
@pytest.mark.parametrize("home", [None, "/dev/null"])
def test_without_a_home_a_temporary_folder_does(tmp_path: Path, home: str | None) -> None:
    """No entry for the user and no HOME, as in many containers; or one that nobody can write to."""
    environment = {"TMPDIR": str(tmp_path)} | ({} if home is None else {"HOME": home})
    command = [sys.executable, "-P", "-c", RUN, *(["nobody"] if home is None else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *stopped, folder = done.stdout.split()
    assert stopped == ["completed", "completed"]
    (made,) = tmp_path.iterdir()
    assert made.name.startswith("ecc-") and made.stat().st_mode & 0o777 == 0o700 and any(made.iterdir())
    assert folder == (str(made) if home is None else f"{home}/.cache/ecc")
