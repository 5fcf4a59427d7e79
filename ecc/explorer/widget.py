"""`ecc.explore`: the page of `ecc explore` as a widget in notebooks (anywidget)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ecc._support.arguments import check_arguments, shown
from ecc.contract.assignment import ProtocolAssignment
from ecc.contract.protocol import Protocol
from ecc.errors import EccError, install_command
from ecc.explorer.saved import asset, plotly_script
from ecc.explorer.session import Session
from ecc.explorer.view import View, view_of
from ecc.network.network import Network

__all__ = ["explore"]


@check_arguments
def explore(
    protocol: Protocol | ProtocolAssignment | Mapping[str, Any] | str = "PIQIRCP", network: Network | None = None
) -> Any:
    """Return a widget whose sliders move the parameters of a loop, with its curves, roots, runs and verdicts.

    Parameters
    ----------
    protocol : Protocol, ProtocolAssignment, mapping or str, optional
        Protocol or its name, for example "DCTCP"; hosts and queue disciplines, {"flows": ..., "links": ...}, as for
        `Scenario`.
    network : Network, optional
        None: the network of the protocol's reference loop (`ecc.stability.reference_case`).

    Returns
    -------
    anywidget.AnyWidget
        Widget for Jupyter, VS Code, marimo and Colab. `view` has the present state, a `ecc.explorer.View`, and can be
        set; `view.code()` returns the Python lines that reproduce it.

    Raises
    ------
    EccError
        If anywidget, of the extra `explore`, is not installed.
    ValueError, TypeError
        An unknown protocol.

    Examples
    --------
    >>> widget = ecc.explore(ecc.models.PIQIRCP(alpha=0.8), ecc.Network.dumbbell("100 Mb/s", rtts=["100 ms"]))
    >>> widget.view.parameters["alpha"]
    0.8
    """
    return _widget_class()(view_of(protocol, network))


@cache
def _widget_class() -> Any:
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise EccError(f"ecc.explore needs anywidget: {install_command('explore')}") from None

    class Explorer(anywidget.AnyWidget):
        """Controls and panels of a view in a notebook."""

        _esm = asset("explore.js")
        _css = asset("explore.css")
        state: Any = traitlets.List().tag(sync=True)

        def __init__(self, view: View) -> None:
            self._session = Session(view)
            super().__init__(state=[view.to_dict()])
            self.on_msg(self._answer)

        def _answer(self, widget: Any, content: Any, buffers: Any) -> None:
            number, request = content.get("id"), content.get("request")
            if isinstance(request, dict) and request.get("ask") == "plotly":
                answer: dict[str, Any] = {"script": plotly_script()}
            else:
                answer = self._session.answer(request)
            self.send({"id": number, "answer": answer})

        @property
        def views(self) -> list[View]:
            """The views that are compared; one without a comparison."""
            return [View.from_dict(part, self._session.scenario) for part in self.state]

        @views.setter
        def views(self, views: Sequence[View]) -> None:
            if not isinstance(views, Sequence) or not all(isinstance(view, View) for view in views) or not views:
                raise TypeError(f"views must be a list of ecc.explorer.View, got {shown(views)}")
            self.state = [view.to_dict() for view in views]

        @property
        def view(self) -> View:
            """The present view, which can be set."""
            return self.views[0]

        @view.setter
        def view(self, view: View) -> None:
            if not isinstance(view, View):
                raise TypeError(f"view must be an ecc.explorer.View, got {shown(view)}")
            self.views = [view]

    return Explorer
