"""A self-contained page of a view, with panels computed for each value of one parameter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from ecc._support.arguments import shown
from ecc.errors import EccError
from ecc.explorer.panels import HELP, PANELS, Cancel, Cancelled, axes_of, panel, with_present_values
from ecc.explorer.view import View

__all__ = ["asset", "plotly_script", "saved_page"]

_VALUES = 15  # positions of the slider


def asset(name: str) -> str:
    """Return the text of a file in `assets`.

    Parameters
    ----------
    name : str
        Name of the file, for example "explore.css".
    """
    return (files("ecc.explorer") / "assets" / name).read_text(encoding="utf-8")


def plotly_script() -> str:
    """Return Plotly's script, from the installed package."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def saved_page(views: Sequence[View], panels: Sequence[str], parameter: str, cancel: Cancel) -> str:
    """Return an HTML page without references to other files: a slider over one parameter, and panels at each value.

    The map, over this parameter, is computed once, and so is the stability limit of this parameter.

    Parameters
    ----------
    views : sequence of View
        One view, or two that are compared.
    panels : sequence of str
        Names of panels.
    parameter : str
        Name of a slider of one of the views. "": the main parameter of the first one.
    cancel : callable
        Called during the work; if it returns True, `Cancelled` is raised.

    Raises
    ------
    ValueError
        If no view has such a slider, or a panel does not exist.
    """
    name = parameter or views[0].main_parameter
    sliders = [slider for view in views for slider in view.sliders]
    slider = next((each for each in sliders if each.name == name), None)
    if slider is None:
        listed = ", ".join(dict.fromkeys(each.name for each in sliders)) or "none: this view has no sliders"
        raise ValueError(f"parameter must be one of {listed}, got {shown(parameter)}")
    if unknown := [each for each in panels if each not in PANELS]:
        raise ValueError(f"panels must be among {', '.join(PANELS)}, got {shown(unknown[0])}")
    grid = [float(f"{value:.4g}") for value in np.geomspace(slider.minimum, slider.maximum, _VALUES)]
    values = sorted({value for value in grid if slider.minimum <= value <= slider.maximum} | {slider.value})
    sides = [_Side(view, name, cancel) for view in views]
    cards = [(panel_name, side) for panel_name in panels for side in sides]
    data = {
        "name": name,
        "unit": slider.unit,
        "explanation": slider.explanation,
        "values": values,
        "first": values.index(slider.value),
        "cards": [{"name": each, "title": _title(each, side, len(sides)), "help": HELP[each]} for each, side in cards],
        "compared": len(sides) > 1,
        "frames": [[side.content(each, value) for each, side in cards] for value in values],
    }
    title = " compared with ".join(_label(view) for view in views)
    # A closing tag inside the data would end the script.
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    codes = "\n\n".join(f"# {_label(view)}\n{_code(view)}" for view in views)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} by {escape(name)}</title>\n<style>{asset('explore.css')}</style>\n"
        f"<script>{plotly_script()}</script>\n</head>\n<body>\n"
        f'<main class="ecc-explore"><div class="bar"><h1>{escape(title)}</h1></div>\n'
        '<div class="results"><div id="slider"></div><div class="panels"></div>\n'
        f"<details><summary>Python code</summary><pre>{escape(codes)}</pre></details></div></main>\n"
        f'<script type="application/json" id="data">{text}</script>\n'
        f"<script>{asset('saved.js')}</script>\n</body>\n</html>\n"
    )


class _Side:
    """A view whose panels are computed for values of one parameter; maps and some limits do not depend on it."""

    def __init__(self, view: View, parameter: str, cancel: Cancel) -> None:
        self.view, self._parameter, self._cancel = view, parameter, cancel
        self._has_parameter = any(each.name == parameter for each in view.sliders)
        self._kept: dict[str, dict[str, Any]] = {}

    def content(self, name: str, value: float) -> dict[str, Any]:
        """Return a panel as JSON, at a value of the parameter."""
        try:
            view = self._at(value)
        except (ValueError, TypeError) as error:
            return {"error": str(error)}
        if self._has_parameter and name != "map" and not (name == "limit" and self._is_main()):
            return self._computed(name, view)
        if name not in self._kept:
            self._kept[name] = self._computed(name, self.view)
        return with_present_values(name, self._kept[name], view)

    def _is_main(self) -> bool:
        return self._parameter == self.view.main_parameter

    def _at(self, value: float) -> View:
        if not self._has_parameter:
            return self.view
        return replace(self.view, parameters={**self.view.parameters, self._parameter: value})

    def _computed(self, name: str, view: View) -> dict[str, Any]:
        axes = axes_of(view, self._parameter if self._has_parameter else "") if name == "map" else ()
        try:
            answer = panel(name, view, self._cancel, axes)
        except Cancelled:
            raise ValueError("the page takes too long: choose fewer panels or a shorter duration") from None
        except (ValueError, EccError) as error:
            return {"error": " ".join(str(error).split())}
        if "figure" in answer:
            answer = answer | {"figure": json.loads(answer["figure"].to_json())}
        return answer


def _label(view: View) -> str:
    pair = f"{view.protocol} and {view.second}" if view.second else view.protocol
    return f"{pair} over {view.discipline}" if view.discipline else pair


def _title(panel_name: str, side: _Side, count: int) -> str:
    return f"{PANELS[panel_name]}: {_label(side.view)}" if count > 1 else PANELS[panel_name]


def _code(view: View) -> str:
    try:
        return view.code()
    except ValueError as error:
        return f"# {error}"
