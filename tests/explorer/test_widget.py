"""The widget of notebooks: its state in Python, and its answers."""

import pytest

import ecc
from ecc.explorer.view import View

pytest.importorskip("anywidget")


def test_the_state_is_readable_and_settable_from_python():
    network = ecc.Network.dumbbell("100 Mb/s", rtts=["100 ms"])
    widget = ecc.explore(ecc.models.QIRCP(alpha=0.7), network)
    assert widget.view.parameters == {"alpha": 0.7} and widget.view.network == network
    widget.view = View("CUBIC", "", "PI2")
    assert widget.state[0]["protocol"] == "CUBIC" and widget.view.discipline == "PI2"
    widget.views = [View("RCP"), View("XCP")]
    assert [view.protocol for view in widget.views] == ["RCP", "XCP"]


@pytest.mark.parametrize(("name", "value"), [("view", 3), ("views", 3), ("views", [3]), ("views", [])])
def test_a_state_that_is_no_view_is_refused_in_one_line(name, value):
    widget = ecc.explore("RCP")
    with pytest.raises(TypeError, match=f"^{name} must be .*ecc.explorer.View, got [^\\n]+$"):
        setattr(widget, name, value)
    assert widget.view.protocol == "RCP"


def test_requests_of_the_page_are_answered(monkeypatch):
    widget = ecc.explore("QIRCP")
    sent = []
    monkeypatch.setattr(widget, "send", sent.append)
    widget._answer(widget, {"id": 3, "request": {"ask": "code", "view": widget.state[0]}}, [])
    widget._answer(widget, {"id": 4, "request": {"ask": "panel"}}, [])
    widget._answer(widget, {"id": 5, "request": {"ask": "plotly"}}, [])
    assert [message["id"] for message in sent] == [3, 4, 5]
    assert sent[0]["answer"]["code"] == widget.view.code()
    assert sent[1]["answer"]["error"].startswith("panel must be a string")
    assert "window.Plotly" in sent[2]["answer"]["script"]


def test_unknown_protocols_are_refused_in_one_line():
    with pytest.raises(ValueError, match="^protocol name must be "):
        ecc.explore("nobody")
