"""The reader of TOML gives the tables and errors of tomllib, for texts with and without long lists."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ecc
from ecc._support import toml

FLOW = "[[flows]]\nroute = [\n    0,\n]\naccess_delay = 0.5\n\n"
NUMBERS = "[\n" + "    1.5,\n" * 12 + "]\n"
TEXTS = {
    "tables": FLOW * 3,
    "tables and a list": f"rtts = {NUMBERS}\n{FLOW * 3}",
    "between others": f"a = 1\n[b]\nc = {NUMBERS}d = true\n{FLOW * 3}[e]\nf = 2\n",
    "two names": FLOW * 2 + FLOW.replace("flows", "a.b") * 2,
    "two lists": f"a = {NUMBERS}b = {NUMBERS.replace('1.5', '-2')}",
    "two runs": FLOW * 2 + "[[flows]]\nroute = { a = 1 }\n" + FLOW * 2,
    "empty tables": "[[flows]]\n[[flows]]\n\n[[flows]]\n",
    "kinds of values": '[[a]]\ns = "x [[a]], {"\nb = false\nn = -0\nx = 1.25E+3\nl = [1, "y,"]\n[[a]]\nl = []\n',
    "other numbers": "[[a]]\nx = 1_000\n[[a]]\nx = 0x10\n[[a]]\nx = inf\n[[a]]\nx = 1979-05-27\n",
    "comments": "[[a]]\nx = 1 # one\n[[a]]\nx = 2\n# two\n[[a]]\nx = 3\n",
    "continued": FLOW * 3 + "start = { a = 1 }\n",
    "subtable": FLOW * 3 + "[flows.more]\nx = 1\n",
    "inside a string": f's = """\n{FLOW * 3}"""\n',
    "list inside a string": f"s = '''\nrtts = {NUMBERS}'''\n",
    "the mark": f'stretch = 1\nb = "stretch1"\nc = {NUMBERS}',
    "line ends of Windows": (f"rtts = {NUMBERS}" + FLOW * 3).replace("\n", "\r\n"),
}
BAD = {
    "repeated key": FLOW * 2 + "[[flows]]\nroute = 1\nroute = 2\n" + FLOW,
    "repeated list": f"a = {NUMBERS}a = {NUMBERS}",
    "table and list": "[flows]\n" + FLOW * 3,
    "static list": "flows = []\n" + FLOW * 3,
    "inside a list": f"a = [\n{FLOW * 3}]\n",
    "later error": FLOW * 3 + "\n\nx = \n",
    "leading zero": "[[a]]\nx = 1\n[[a]]\nx = 01\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_tables_are_those_of_tomllib(name: str) -> None:
    tables = toml.loads(TEXTS[name])
    assert repr(tables) == repr(tomllib.loads(TEXTS[name]))


@pytest.mark.parametrize("name", BAD)
def test_an_error_is_that_of_tomllib(name: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError) as expected:
        tomllib.loads(BAD[name])
    with pytest.raises(tomllib.TOMLDecodeError) as error:
        toml.loads(BAD[name])
    assert str(error.value) == str(expected.value)


@given(st.lists(st.sampled_from([FLOW, "[[flows]]\n", "a = 1\n", "[b]\n", f"c = {NUMBERS}", '"""', "x = '''", "]\n"])))
def test_any_order_of_pieces_reads_like_tomllib(pieces: list[str]) -> None:
    text = "".join(pieces)
    try:
        expected: object = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        with pytest.raises(tomllib.TOMLDecodeError) as raised:
            toml.loads(text)
        assert str(raised.value) == str(error)
    else:
        assert toml.loads(text) == expected


def test_tomllib_does_not_read_the_lists_of_a_large_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    network = ecc.Network.dumbbell("1 Gb/s", rtts=np.linspace(0.02, 0.22, 100))
    text = ecc.Scenario(network, ecc.models.RCP(), duration=1.0).to_toml()
    expected, sizes, of_tomllib = tomllib.loads(text), [], tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: sizes.append(len(text)) or of_tomllib(text))
    assert toml.loads(text) == expected
    assert len(sizes) == 1 and sizes[0] < len(text) / 20
