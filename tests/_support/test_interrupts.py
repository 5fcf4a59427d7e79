import contextlib
import importlib
import signal
import sys
import time

import pytest

from ecc._support import interrupts
from ecc._support.interrupts import InterruptRecord, interrupt

PACKAGE = """
import signal, time
from interrupted.part import value
signal.raise_signal(signal.SIGINT)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    pass
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    def write(seconds):
        at = tmp_path / "interrupted"
        at.mkdir()
        (at / "__init__.py").write_text(PACKAGE.format(seconds=seconds))
        (at / "part.py").write_text("value = 1")
        importlib.invalidate_caches()

    monkeypatch.syspath_prepend(tmp_path)
    yield write
    for name in ("interrupted", "interrupted.part"):
        sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def handler():
    before = signal.signal(signal.SIGINT, interrupt)
    yield
    signal.signal(signal.SIGINT, before)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def wait_for_interruption():
    end = time.monotonic() + 10.0
    while time.monotonic() < end:
        time.sleep(0.001)


@pytest.mark.parametrize("recorded", [False, True])
def test_an_import_ends_before_it_is_interrupted(package, recorded):
    package(seconds=0.1)
    with InterruptRecord() if recorded else contextlib.nullcontext() as record:
        with pytest.raises(KeyboardInterrupt):
            import interrupted  # noqa: F401

            wait_for_interruption()
        assert sys.modules["interrupted"].part.value == 1
        assert not recorded or record.noted


def test_without_an_import_it_is_raised_at_once():
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_import_that_takes_long_is_interrupted(package, monkeypatch):
    monkeypatch.setattr(interrupts, "_GRACE_PERIOD", 0.1)
    package(seconds=10.0)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("interrupted")
    assert time.monotonic() - start < 5.0


def test_the_alarm_of_another_stays(package):
    other = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        package(seconds=0.1)
        with pytest.raises(KeyboardInterrupt):
            importlib.import_module("interrupted")
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN
        assert "interrupted" not in sys.modules
    finally:
        signal.signal(signal.SIGALRM, other)
