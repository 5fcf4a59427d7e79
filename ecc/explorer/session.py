"""Answers to the requests of a page or widget: strict checks, one-line errors, and work that newer requests replace."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from time import monotonic, sleep
from typing import Any

from ecc._support.arguments import shown
from ecc.errors import EccError
from ecc.explorer.panels import HELP, PANELS, WORK, Cancelled, panel
from ecc.explorer.presets import PRESETS
from ecc.explorer.saved import saved_page
from ecc.explorer.view import MAX_FLOWS, MAX_RTTS, TIMES, View, disciplines, reference_view
from ecc.models import all_protocols
from ecc.scenario import Scenario

__all__ = ["MAX_REQUEST", "Session"]

MAX_REQUEST = 16_384
"""Maximum length of a request in bytes."""
MAX_SECONDS = 30.0
"""Maximum time of work for one panel; a saved page has ten times as much."""
_MAX_WAIT, _POLL = 1.0, 0.002  # seconds for which slower panels leave the interpreter to faster ones
_MAX_SLOTS = 256  # panels of open pages whose latest request is remembered
_MAX_NAME = 64  # characters of names in requests
_ERRORS = (ValueError, TypeError, EccError, OverflowError, MemoryError, ArithmeticError)

Answer = dict[str, Any]


class Session:
    """The views of one page server or widget.

    Parameters
    ----------
    view : View
        View that is shown first.
    """

    def __init__(self, view: View) -> None:
        self.first = view
        self._latest: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False
        self.due = dict.fromkeys(WORK.values(), 0)
        """Kind of work -> requests without an answer; the server counts them."""

    def close(self) -> None:
        """Cancel all work, for example if the server ends."""
        self._closed = True

    def answer_text(self, body: bytes) -> Answer:
        """Return the answer to a request as JSON text; errors are {"error": line}.

        Parameters
        ----------
        body : bytes
            A JSON object of at most `MAX_REQUEST` bytes.
        """
        if len(body) > MAX_REQUEST:
            return {"error": f"a request must have at most {MAX_REQUEST} bytes, got {len(body)}"}
        try:
            request = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return {"error": "a request must be JSON with finite numbers"}
        return self.answer(request)

    def announce(self, request: Any) -> None:
        """Note the number of a request before its work begins, so that older ones of its panel are cancelled.

        Parameters
        ----------
        request : object
            Decoded request.
        """
        try:
            slot, number = _slot(request)
        except _ERRORS:
            return
        with self._lock:
            self._latest[slot] = max(number, self._latest.pop(slot, -1))
            while len(self._latest) > _MAX_SLOTS:
                self._latest.popitem(last=False)

    def answer(self, request: Any) -> Answer:
        """Return the answer to a decoded request: {"ask": "panel", ...}; errors are {"error": line}.

        Parameters
        ----------
        request : object
            Decoded request.
        """
        try:
            if not isinstance(request, dict):
                raise TypeError(f"a request must be an object, got {shown(request)}")
            ask = request.get("ask")
            if not isinstance(ask, str) or ask not in self._answers:
                raise ValueError(f"ask must be one of {', '.join(self._answers)}, got {shown(ask)}")
            return self._answers[ask](self, request)
        except Cancelled:
            return {"cancelled": True}
        except _ERRORS as error:
            return {"error": " ".join(str(error).split()) or type(error).__name__}
        except Exception as error:  # a fault of ours, or of a custom protocol: the other panels go on
            return {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}

    def _choices(self, request: Mapping[str, Any]) -> Answer:
        """Answer with the controls of a view; of another protocol, those on its reference network."""
        _check_keys(request, "views", "protocol", "second", "discipline", "preset")
        if "preset" in request:
            name = _text(request["preset"], "preset")
            if name not in PRESETS:
                raise ValueError(f"preset must be one of {'; '.join(PRESETS)}, got {shown(name)}")
            views = list(PRESETS[name].views())
        elif "protocol" in request:
            discipline = request.get("discipline")
            views = [
                reference_view(
                    _text(request["protocol"], "protocol"),
                    _text(request.get("second", ""), "second"),
                    None if discipline is None else _text(discipline, "discipline"),
                )
            ]
        else:
            views = self._views(request["views"]) if "views" in request else [self.first]
        answer: Answer = {"views": [_described(view) for view in views], **_constants()}
        answer["fixed"] = views[0].scenario is not None
        if "preset" in request:
            answer["panels"] = list(PRESETS[name].panels)
        return answer

    def _panel(self, request: Mapping[str, Any]) -> Answer:
        _check_keys(request, "view", "panel", "axes", "coarse", "page", "side", "number")
        name = _text(request.get("panel"), "panel")
        axes = request.get("axes", [])
        if not isinstance(axes, list) or len(axes) not in (0, 2):
            raise ValueError(f"axes must be two names of parameters, got {shown(axes)}")
        coarse = request.get("coarse", False)
        if not isinstance(coarse, bool):
            raise TypeError(f"coarse must be true or false, got {shown(coarse)}")
        slot, number = _slot(request)
        self.announce(request)
        end = monotonic() + MAX_SECONDS

        def is_replaced() -> bool:
            return self._closed or self._latest.get(slot, number) > number

        def cancel() -> bool:
            return is_replaced() or monotonic() > end

        first = {"run": ("model",), "search": ("model", "run")}.get(WORK.get(name, ""), ())

        def wait() -> None:
            latest = monotonic() + _MAX_WAIT
            while any(self.due[kind] for kind in first) and monotonic() < min(latest, end) and not is_replaced():
                sleep(_POLL)

        try:
            answer = panel(name, self._view(request), cancel, [_text(axis, "axes") for axis in axes], coarse, wait)
        except Cancelled:
            if is_replaced():
                raise
            hint = "fewer flows, a shorter duration or a lower link rate take less time"
            raise ValueError(f"stopped after {MAX_SECONDS:g} s: {hint}") from None
        if "figure" in answer:
            answer["figure"] = answer["figure"].to_json()
        return answer

    def _code(self, request: Mapping[str, Any]) -> Answer:
        _check_keys(request, "view")
        return {"code": self._view(request).code()}

    def _page(self, request: Mapping[str, Any]) -> Answer:
        _check_keys(request, "views", "panels", "parameter")
        names = request.get("panels")
        if not isinstance(names, list) or not 1 <= len(names) <= len(PANELS):
            raise ValueError(f"panels must be names among {', '.join(PANELS)}, got {shown(names)}")
        end = monotonic() + 10.0 * MAX_SECONDS
        parameter = _text(request.get("parameter", ""), "parameter")
        chosen = [_text(name, "panels") for name in names]
        views = self._views(request.get("views"))
        return {"page": saved_page(views, chosen, parameter, lambda: self._closed or monotonic() > end)}

    _answers: dict[str, Callable[[Session, Mapping[str, Any]], Answer]] = {
        "choices": _choices,
        "panel": _panel,
        "code": _code,
        "page": _page,
    }

    def _view(self, request: Mapping[str, Any]) -> View:
        return View.from_dict(request.get("view"), self.scenario)

    def _views(self, views: Any) -> list[View]:
        if not isinstance(views, list) or len(views) not in (1, 2):
            raise ValueError(f"views must be a list of one or two views, got {shown(views)}")
        return [View.from_dict(view, self.scenario) for view in views]

    @property
    def scenario(self) -> Scenario | None:
        """The scenario of all views, whose parameters alone can change; None if networks and protocols can."""
        return self.first.scenario


def _described(view: View) -> Answer:
    """Return a view with its sliders."""
    sliders = [
        {"name": slider.name, "value": slider.value, "min": slider.minimum, "max": slider.maximum}
        | {"main": slider.is_main, "unit": slider.unit, "explanation": slider.explanation}
        for slider in view.sliders
    ]
    return {"view": view.to_dict(), "sliders": sliders, "parameter": view.main_parameter, "times": _times(view)} | {
        "canMark": view.can_mark
    }


def _times(view: View) -> list[str]:
    return [time for time in TIMES if time in view.loop.times] or ["continuous"]


def _constants() -> Answer:
    return {
        "protocols": list(all_protocols()),
        "disciplines": list(disciplines()),
        "presets": list(PRESETS),
        "panelTitles": dict(PANELS),
        "panelHelp": dict(HELP),
        "work": dict(WORK),
        "maxFlows": MAX_FLOWS,
        "maxRtts": MAX_RTTS,
    }


def _check_keys(request: Mapping[str, Any], *known: str) -> None:
    for key in request:
        if key not in ("ask", *known):
            raise ValueError(f"a request must have fields among {', '.join(('ask', *known))}, got {shown(key)}")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_NAME:
        raise TypeError(f"{name} must be a string of at most {_MAX_NAME} characters, got {shown(value)}")
    return value


def _slot(request: Any) -> tuple[tuple[str, str], int]:
    """Return the page with the panel and side of a request, and the number of the request."""
    if not isinstance(request, dict):
        raise TypeError(f"a request must be an object, got {shown(request)}")
    page, name = _text(request.get("page", ""), "page"), _text(request.get("panel", ""), "panel")
    side, number = request.get("side", 0), request.get("number", 0)
    if isinstance(side, bool) or side not in (0, 1):
        raise ValueError(f"side must be 0 or 1, got {shown(side)}")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**53:
        raise ValueError(f"number must be a whole number >= 0, got {shown(number)}")
    return (page, f"{name} {side}"), number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"numbers must be finite, got {name}")
