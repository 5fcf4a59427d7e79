"""`ecc explore`: a page, and a widget for notebooks, that redraw a loop while its parameters change.

A `View` has the protocols, the network and the parameters; `panels` computes its figures and verdicts; `session`
answers requests of the page (`server`) and of the widget (`widget`), which need the extra `explore`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecc._support.lazy import lazy

if TYPE_CHECKING:
    from ecc.explorer.view import View, reference_view, view_of

__all__ = ["View", "reference_view", "view_of"]

__getattr__, __dir__ = lazy(__name__, {"View": "view", "reference_view": "view", "view_of": "view"})
