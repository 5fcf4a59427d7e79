"""Requests: strict checks, one-line errors, cancelled work, the token, and saved pages."""

import json
import re
import socket
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ecc.errors import EccError
from ecc.explorer import panels, saved
from ecc.explorer import session as session_module
from ecc.explorer.session import MAX_REQUEST, Session
from ecc.explorer.view import View

starlette = pytest.importorskip("starlette")

VIEW = {"protocol": "QIRCP", "capacity": 10e6, "rtts": [0.05], "flows": 2, "duration": 20.0}


@pytest.fixture(scope="module")
def session():
    return Session(View.from_dict(VIEW))


def error_of(answer):
    text = answer["error"]
    assert "\n" not in text and "Traceback" not in text and 0 < len(text) < 2000
    return text


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (None, "a request must be an object"),
        ({}, "ask must be one of choices, panel, code, page, got None"),
        ({"ask": ["panel"]}, "ask must be one of"),
        ({"ask": "code"}, "view must be an object, got None"),
        (
            {"ask": "code", "view": VIEW, "file": "/etc/passwd"},
            "a request must have fields among ask, view, got 'file'",
        ),
        ({"ask": "panel", "panel": "nyquist", "view": VIEW, "number": -1}, "number must be a whole number >= 0"),
        ({"ask": "panel", "panel": "nyquist", "view": VIEW, "side": 2}, "side must be 0 or 1, got 2"),
        ({"ask": "panel", "panel": "x" * 65, "view": VIEW}, "panel must be a string of at most 64 characters"),
        ({"ask": "panel", "panel": "map", "view": VIEW, "axes": [1, 2]}, "axes must be a string"),
        ({"ask": "panel", "panel": "no", "view": VIEW}, "panel must be one of verdict"),
        ({"ask": "choices", "preset": "none"}, "preset must be one of"),
        ({"ask": "choices", "protocol": "nobody"}, "protocol must be a name in ecc.models"),
        ({"ask": "choices", "views": []}, "views must be a list of one or two views, got []"),
        ({"ask": "choices", "views": [VIEW, 3]}, "view must be an object, got 3"),
        ({"ask": "panel", "panel": "map", "view": VIEW, "coarse": 1}, "coarse must be true or false, got 1"),
        ({"ask": "page", "views": [VIEW], "panels": []}, "panels must be names among"),
        ({"ask": "page", "views": [VIEW], "panels": ["verdict"], "parameter": "x"}, "parameter must be one of"),
    ],
)
def test_bad_requests_get_one_line(session, request_, message):
    assert error_of(session.answer(request_)).startswith(message)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 5000, b'{"ask": NaN}', b"\xff\xfe", b'{"ask": "' + b"x" * MAX_REQUEST + b'"}']
)
def test_bodies_that_are_no_request_get_one_line(session, body):
    error_of(session.answer_text(body))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from("protocol second discipline marks parameters capacity rtts flows buffer packet_size".split())


@pytest.mark.property
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ask=st.sampled_from(["choices", "panel", "code", "page"]),
    changed=st.dictionaries(FIELDS | st.sampled_from(["time", "duration"]), VALUES, max_size=2),
    other=st.dictionaries(st.sampled_from("panel axes page side number preset panels".split()), VALUES, max_size=2),
)
def test_random_requests_get_an_answer_or_one_line(session, ask, changed, other):
    request = {"ask": ask, **({"views": [VIEW | changed]} if ask in ("choices", "page") else {"view": VIEW | changed})}
    request |= other
    if ask == "panel":
        request.setdefault("panel", "verdict")
    answer = session.answer(json.loads(json.dumps(request)))
    json.dumps(answer, allow_nan=False)
    if "error" in answer:
        error_of(answer)


def test_a_newer_request_cancels_the_work_of_an_older_one(session):
    old = {"ask": "panel", "panel": "rates", "view": VIEW, "page": "tab", "number": 1}
    session.announce(old | {"number": 2})
    assert session.answer(old) == {"cancelled": True}
    assert "figure" in session.answer(old | {"page": "another tab"})
    assert "figure" in session.answer(old | {"number": 2})


@pytest.mark.parametrize(("name", "faster"), [("rates", "model"), ("limit", "run"), ("map", "model")])
def test_slower_panels_wait_for_faster_ones(name, faster, monkeypatch):
    monkeypatch.setattr(panels, "_GRID", 3)
    session, events = Session(View.from_dict(VIEW)), []

    def finish():
        events.append(faster)
        session.due[faster] = 0

    session.due[faster] = 1
    threading.Timer(0.1, finish).start()
    request = {"ask": "panel", "panel": name, "view": VIEW | {"parameters": {"gamma": 0.9}, "capacity": 12e6}}
    answer = session.answer(request)
    events.append(name)
    assert "error" not in answer and events == [faster, name]


def test_a_saved_comparison_has_both_sides(session, monkeypatch):
    monkeypatch.setattr(saved, "_VALUES", 2)
    views = [VIEW, VIEW | {"protocol": "EMKC"}]
    page = session.answer({"ask": "page", "views": views, "panels": ["verdict"], "parameter": "alpha"})["page"]
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert [card["title"] for card in data["cards"]] == ["Verdict: QIRCP", "Verdict: EMKC"]
    assert all(len(frame) == 2 for frame in data["frames"]) and "# EMKC" in page


def test_choices_of_a_protocol_come_with_its_reference_network(session):
    (part,) = session.answer({"ask": "choices", "protocol": "DCTCP"})["views"]
    assert part["view"]["discipline"] == "RampMarking" and part["view"]["capacity"] == 10e9
    assert {slider["name"] for slider in part["sliders"]} >= {"flows.g", "links.max_threshold"}
    views = session.answer({"ask": "choices", "preset": "Lecture 6: data centers"})["views"]
    assert [each["view"]["discipline"] for each in views] == ["RampMarking", "StepMarking"]


def test_a_saved_page_is_complete(session):
    answer = session.answer({"ask": "page", "views": [VIEW], "panels": ["verdict", "roots"], "parameter": "alpha"})
    page = answer["page"]
    assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="(?!data:)', page)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["name"] == "alpha" and len(data["values"]) == len(data["frames"]) >= 15
    assert [card["name"] for card in data["cards"]] == ["verdict", "roots"]
    words = {frame[0]["words"] for frame in data["frames"]}
    assert words == {"stable, proven", "unstable, proven"}
    assert data["values"][data["first"]] == 0.5


def frames_of(session, protocol="QIRCP", **request):
    page = session.answer({"ask": "page", "views": [VIEW | {"protocol": protocol}], **request})["page"]
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    names = [card["name"] for card in data["cards"]]
    return [
        (value, dict(zip(names, frame, strict=True)))
        for value, frame in zip(data["values"], data["frames"], strict=True)
    ]


def test_limits_and_maps_of_a_saved_page_have_the_value_of_the_slider(session, monkeypatch):
    monkeypatch.setattr(panels, "_GRID", 3)
    for value, frame in frames_of(session, panels=["limit", "map"], parameter="alpha"):
        rows = dict(frame["limit"]["rows"])
        assert rows["present alpha"] == f"{value:.4g}"
        assert rows["limit / present"] == f"{frame['limit']['limit'] / value:.3g}"
        (cross,) = [trace for trace in frame["map"]["figure"]["data"] if trace.get("name") == "present values"]
        assert cross["x"] == [value] and frame["map"]["axes"][0] == "alpha"


def test_a_limit_of_another_parameter_is_computed_at_each_value(session, monkeypatch):
    monkeypatch.setattr(saved, "_VALUES", 2)
    frames = frames_of(session, "RCP", panels=["limit"], parameter="beta")
    found = [frame["limit"] for _, frame in frames if "error" not in frame["limit"]]
    assert len({answer["words"] for answer in found}) > 1
    assert len({dict(answer["rows"])["present alpha"] for answer in found}) == 1


def test_work_that_takes_too_long_is_reported(session, monkeypatch):
    monkeypatch.setattr(session_module, "MAX_SECONDS", 0.0)
    request = {"ask": "panel", "panel": "rates", "view": VIEW | {"capacity": 11e6}, "page": "slow", "number": 1}
    assert error_of(session.answer(request)).startswith("stopped after 0 s: ")
    session.announce(request | {"number": 2})
    assert session.answer(request) == {"cancelled": True}


# ---- the server -------------------------------------------------------------------------------------------------

PORT, TOKEN = 8123, "token-of-this-test"


@pytest.fixture(scope="module")
def client(session):
    testclient = pytest.importorskip("starlette.testclient")
    from ecc.explorer.server import application

    return testclient.TestClient(application(session, TOKEN, PORT), base_url=f"http://127.0.0.1:{PORT}")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/{TOKEN}/", {}, 200),
        (f"/{TOKEN}/", {"Host": f"localhost:{PORT}"}, 200),
        (f"/{TOKEN}/", {"Origin": f"http://127.0.0.1:{PORT}"}, 200),
        ("/", {}, 403),
        ("/wrong/", {}, 403),
        (f"/{TOKEN}x/explore.js", {}, 403),
        (f"/{TOKEN}/", {"Host": "example.org"}, 403),
        (f"/{TOKEN}/", {"Host": f"127.0.0.1.example.org:{PORT}"}, 403),
        (f"/{TOKEN}/", {"Origin": "http://example.org"}, 403),
        (f"/{TOKEN}/", {"Origin": "null"}, 403),
        (f"/{TOKEN}/ask", {}, 404),
        (f"/{TOKEN}/../secret", {}, 403),
        (f"/{TOKEN}/%2e%2e/view.py", {}, 404),
        (f"/{TOKEN}/view.py", {}, 404),
    ],
)
def test_requests_without_the_token_or_from_elsewhere_are_refused(client, path, headers, status):
    answer = client.get(path, headers=headers)
    assert answer.status_code == status
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_questions_need_the_token_and_a_page_of_this_origin(client):
    assert client.post(f"/{TOKEN}/ask", json={"ask": "choices"}).json()["views"]
    assert client.post("/other/ask", json={"ask": "choices"}).status_code == 403
    foreign = client.post(f"/{TOKEN}/ask", json={"ask": "choices"}, headers={"Origin": "https://example.org"})
    assert foreign.status_code == 403
    assert "at most" in client.post(f"/{TOKEN}/ask", content=b"x" * 10 * MAX_REQUEST).json()["error"]


def test_files_of_the_page_refer_to_no_other_host(client):
    for name in ("", "explore.js", "page.js", "explore.css"):
        text = client.get(f"/{TOKEN}/{name}").text
        assert not re.search(r"https?://(?!www\.w3\.org/)", text), name
    assert len(client.get(f"/{TOKEN}/plotly.js").text) > 1_000_000


def test_the_server_listens_on_the_loopback_address_only():
    from ecc.explorer.server import listening_socket

    with listening_socket(0) as bound:
        address, port = bound.getsockname()
        assert address == "127.0.0.1"
        bound.listen()
        with pytest.raises(ValueError, match=f"^port must be free on 127.0.0.1, got {port}: "):
            listening_socket(port)
        with socket.create_connection(("127.0.0.1", port), 5.0):
            pass


def test_missing_packages_are_named(monkeypatch):
    import sys

    from ecc.explorer import server, widget

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(EccError, match=r"^ecc explore needs starlette and uvicorn: pip install '.*\[explore\]'$"):
        server.serve(View.from_dict(VIEW), browser=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    widget._widget_class.cache_clear()
    with pytest.raises(EccError, match=r"^ecc.explore needs anywidget: pip install '.*\[explore\]'$"):
        widget.explore("RCP")
