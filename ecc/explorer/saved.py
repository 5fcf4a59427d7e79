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
from ecc.explorer.panels import PANELS, Cancel, Cancelled, axes_of, panel, with_present_values
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


def saved_page(view: View, panels: Sequence[str], parameter: str, cancel: Cancel) -> str:
    """Return an HTML page without references to other files: a slider over one parameter, and panels at each value.

    The map, over this parameter, is computed once, and so is the stability limit of this parameter.

    Parameters
    ----------
    view : View
    panels : sequence of str
        Names of panels.
    parameter : str
        Name of a slider of the view. "": its main parameter.
    cancel : callable
        Called during the work; if it returns True, `Cancelled` is raised.

    Raises
    ------
    ValueError
        If the view has no such slider, or a panel does not exist.
    """
    name = parameter or view.main_parameter
    slider = next((each for each in view.sliders if each.name == name), None)
    if slider is None:
        listed = ", ".join(each.name for each in view.sliders) or "none: this view has no sliders"
        raise ValueError(f"parameter must be one of {listed}, got {shown(parameter)}")
    if unknown := [each for each in panels if each not in PANELS]:
        raise ValueError(f"panels must be among {', '.join(PANELS)}, got {shown(unknown[0])}")
    grid = [float(f"{value:.4g}") for value in np.geomspace(slider.minimum, slider.maximum, _VALUES)]
    values = sorted({value for value in grid if slider.minimum <= value <= slider.maximum} | {slider.value})
    axes = {"map": axes_of(view, name)}
    shared = [each for each in panels if each == "map" or (each == "limit" and name == view.main_parameter)]
    kept = {each: _content(each, view, cancel, axes.get(each, ())) for each in shared}

    def content(each: str, at: View) -> dict[str, Any]:
        return with_present_values(each, kept[each], at) if each in kept else _content(each, at, cancel)

    frames: list[dict[str, Any]] = []
    for value in values:
        changed = replace(view, parameters={**view.parameters, name: value})
        frames.append({each: content(each, changed) for each in panels})
    data = {
        "name": name,
        "values": values,
        "first": values.index(slider.value),
        "titles": {each: PANELS[each] for each in panels},
        "frames": frames,
    }
    title = f"{view.protocol}{f' and {view.second}' if view.second else ''}" + (
        f" over {view.discipline}" if view.discipline else ""
    )
    # A closing tag inside the data would end the script.
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} by {escape(name)}</title>\n<style>{asset('explore.css')}</style>\n"
        f"<script>{plotly_script()}</script>\n</head>\n<body>\n"
        f'<main class="ecc-explore"><div class="bar"><h1>{escape(title)}</h1></div>\n'
        '<div class="results"><div id="slider"></div><div class="panels"></div>\n'
        f"<details><summary>Python code</summary><pre>{escape(_code(view))}</pre></details></div></main>\n"
        f'<script type="application/json" id="data">{text}</script>\n'
        f"<script>{asset('saved.js')}</script>\n</body>\n</html>\n"
    )


def _content(name: str, view: View, cancel: Cancel, axes: Sequence[str] = ()) -> dict[str, Any]:
    try:
        answer = panel(name, view, cancel, axes)
    except Cancelled:
        raise ValueError("the page takes too long: choose fewer panels or a shorter duration") from None
    except (ValueError, EccError) as error:
        return {"error": " ".join(str(error).split())}
    if "figure" in answer:
        answer["figure"] = json.loads(answer["figure"].to_json())
    return answer


def _code(view: View) -> str:
    try:
        return view.code()
    except ValueError as error:
        return f"# {error}"
