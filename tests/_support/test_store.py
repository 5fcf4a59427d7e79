"""The store: rows with checksums, for several processes, of which nothing that is wrong ever comes back."""

import math
import os
import random
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from ecc._support.store import Store

KEYS = [f"{k:064x}" for k in range(40)]


@pytest.fixture
def filled(tmp_path):
    store = Store(tmp_path / "store.sqlite")
    for k, key in enumerate(KEYS):
        store.put(key, {"value": k / 7})
    return store.path


def test_what_is_put_comes_back(tmp_path):
    store = Store(tmp_path / "folder" / "store.sqlite")
    assert store.get("a") is None and len(store) == 0
    store.put("a", {"values": np.array([1.0, math.inf]), "count": np.int64(3), "nan": math.nan, "text": "α"})
    again = Store(tmp_path / "folder" / "store.sqlite").get("a")
    assert math.isnan(again.pop("nan")) and again == {"values": [1.0, math.inf], "count": 3, "text": "α"}
    assert Store(store.path, fresh=True).get("a") is None
    store.put("a", 1)
    assert (Store(store.path).get("a"), len(store), store.trouble) == (1, 1, None)
    assert Store(tmp_path).path == tmp_path / "results.sqlite"


def test_several_results_are_put_and_read_at_once(tmp_path):
    store = Store(tmp_path / "results.sqlite")
    assert store.get_all(["a", "b"]) == {} and not store.path.exists()
    store.put_all({})
    assert not store.path.exists()
    store.put_all({"a": {"x": math.inf}, "b": np.arange(3)})
    assert store.get_all(["b", "c", "a"]) == {"a": {"x": math.inf}, "b": [0, 1, 2]} and len(store) == 2
    with pytest.raises(AttributeError):
        store.put_all({"c": 1.0, "d": object()})
    assert store.get("c") is None and Store(store.path, fresh=True).get_all(["a"]) == {}


def test_a_damaged_row_is_missing_and_no_other(filled):
    with sqlite3.connect(filled) as database:
        database.execute("UPDATE ecc_results SET result = '{\"value\": 3.0}' WHERE key = ?", (KEYS[3],))
        database.execute("UPDATE ecc_results SET result = CAST(X'ff00' AS TEXT) WHERE key = ?", (KEYS[4],))
        database.execute("UPDATE ecc_results SET checksum = NULL WHERE key = ?", (KEYS[5],))
    database.close()
    store = Store(filled)
    assert [k for k, key in enumerate(KEYS) if store.get(key) != {"value": k / 7}] == [3, 4, 5]
    assert [store.get(KEYS[k]) for k in (3, 4, 5)] == [None] * 3
    store.put(KEYS[3], {"value": 3 / 7})
    assert store.get(KEYS[3]) == {"value": 3 / 7}


def test_a_repair_takes_over_all_rows_that_are_good_and_no_other(filled):
    with sqlite3.connect(filled) as database:
        for k in (3, 30):  # what lies between two that cannot be decoded is read, too
            database.execute("UPDATE ecc_results SET result = CAST(X'ff00' AS TEXT) WHERE key = ?", (KEYS[k],))
        database.execute("UPDATE ecc_results SET result = '{\"value\": 3.0}' WHERE key = ?", (KEYS[10],))
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = replace(sql, 'result TEXT', 'result INT')")
    database.close()
    store = Store(filled)
    assert [k for k, key in enumerate(KEYS) if store.get(key) != {"value": k / 7}] == [3, 10, 30]
    assert len(store) == len(KEYS) - 3 and store.trouble is None and list(filled.parent.glob("*.damaged-*"))


@pytest.mark.parametrize("word", [b"ecc_results", b"CREATE TABLE", b"sqlite_autoindex"])
def test_one_byte_that_is_no_text_costs_no_more_than_what_is_there(filled, word):
    whole = filled.read_bytes()
    filled.write_bytes(whole.replace(word, b"\xff" + word[1:], 1))  # which SQLite quotes in its message
    store = Store(filled)
    found = [store.get(key) for key in KEYS]
    assert all(value in (None, {"value": k / 7}) for k, value in enumerate(found))
    store.put("new", 1)
    assert store.get("new") == 1 and store.trouble is None


@pytest.mark.parametrize(
    "count",
    [
        30,
        pytest.param(500, marks=pytest.mark.slow),
        pytest.param(2600, marks=[pytest.mark.slow, pytest.mark.extensive]),
    ],
)
def test_no_damage_refuses_the_store_or_gives_a_wrong_value(filled, count):
    whole, draw = filled.read_bytes(), random.Random(count)
    kept = 0
    for kind in range(count):
        data = bytearray(whole)
        if kind % 4 == 0:
            data = data[: draw.randrange(len(data))]
        elif kind % 4 == 1:
            at = draw.randrange(len(data))
            data[at : at + 512] = bytes(draw.randrange(256) for _ in range(len(data[at : at + 512])))
        else:
            for _ in range(draw.choice([1, 1, 5])):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        filled.write_bytes(data)
        store = Store(filled)
        found = [store.get(key) for key in KEYS]
        assert all(value in (None, {"value": k / 7}) for k, value in enumerate(found)), kind
        kept += sum(value is not None for value in found)
        store.put("new", kind)
        assert store.get("new") == kind and store.trouble is None
        for aside in filled.parent.glob("*.damaged-*"):
            aside.unlink()
    assert kept > 0.6 * count * len(KEYS)


@pytest.mark.parametrize("size", [1, 13, 46, 71, 72, 600])
def test_a_store_that_was_cut_off_early_is_begun_again(filled, size):
    filled.write_bytes(filled.read_bytes()[:size])
    store = Store(filled)
    store.put("new", 1)
    assert store.get("new") == 1 and store.trouble is None


def test_other_files_are_refused_and_left_alone(tmp_path):
    text, empty, foreign = tmp_path / "a.toml", tmp_path / "empty", tmp_path / "b.db"
    text.write_text("duration = 1")
    empty.write_text("")
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE other (x)")
    database.close()
    for path in (text, foreign):
        before = path.read_bytes()
        with pytest.raises(ValueError, match=r"store must be a file that was made as a store, got '.*'"):
            Store(path)
        assert path.read_bytes() == before
    store = Store(empty)
    store.put("a", 1)
    assert store.get("a") == 1


WRITER = """
import sys
from ecc._support.store import Store
store = Store(sys.argv[1])
for k in range(30):
    store.put(f"{sys.argv[2]} {k}", k)
assert store.trouble is None, store.trouble
"""


def test_processes_may_share_a_store(tmp_path):
    path = tmp_path / "store.sqlite"
    writers = [subprocess.Popen([sys.executable, "-P", "-c", WRITER, path, name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert len(Store(path)) == 60


@pytest.mark.slow
def test_processes_that_repair_a_store_at_once_lose_nothing(filled):
    with sqlite3.connect(filled) as database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = replace(sql, 'result TEXT', 'result INT')")
    database.close()
    writers = [subprocess.Popen([sys.executable, "-P", "-c", WRITER, filled, name]) for name in "abcd"]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert len(Store(filled)) == len(KEYS) + 4 * 30


FULL = """
import resource, sys
from ecc._support.store import Store
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
store = Store(sys.argv[1])
for k in range(100):
    store.put(str(k), "x" * 500)
print(store.trouble)
"""


def test_a_full_disk_keeps_what_was_there(tmp_path):
    path = tmp_path / "store.sqlite"
    said = subprocess.run([sys.executable, "-P", "-c", FULL, path], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"results are not kept: {path} cannot be written: ")
    store = Store(path)
    assert store.trouble is None and 5 < len(store) < 100
    assert all(store.get(str(k)) == "x" * 500 for k in range(len(store)))


def test_a_place_that_cannot_be_written_is_left_alone(tmp_path):
    for path in ("/dev/full", "/proc/store.sqlite", tmp_path / ("x" * 300)):
        store = Store(path)
        store.put("a", 1)
        assert store.get("a") is None and "cannot be written" in store.trouble
    assert os.path.exists("/dev/full")
