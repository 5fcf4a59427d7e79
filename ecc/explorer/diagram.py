"""The block diagram of a view as SVG: hosts, delays, the bottleneck and its queue discipline or routers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from ecc._support.display import quantity_text
from ecc.explorer.view import View

__all__ = ["block_diagram"]

_ROWS = 4  # groups of flows that have a row; a line of text counts the others
_WIDTH, _ROW = 480, 84
_NAME = ' class="name"'


def block_diagram(view: View) -> str:
    """Return an SVG: a row for each group of equal flows, with its delays to the bottleneck and back.

    Parameters
    ----------
    view : View
    """
    groups = _groups(view)
    shown = groups[:_ROWS]
    bottom = _ROW * len(shown)
    link = int(np.argmin(view.network.capacities))
    parts = [_box(326, 8, 146, bottom - 16, _link_lines(view, link))]
    for row, (name, rtt, count, (forward, back)) in enumerate(shown):
        y = _ROW * row + 8
        flows = f"{count} flow{'s' * (count > 1)}"
        parts += [
            _box(8, y, 138, 68, [name, flows, f"RTT {quantity_text(rtt, 's')}"]),
            _arrow(146, y + 20, 324, y + 20),
            _label(236, y + 14, f"data, delay {quantity_text(forward, 's')}"),
            _arrow(326, y + 50, 148, y + 50),
            _label(236, y + 66, f"feedback, delay {quantity_text(back, 's')}"),
        ]
    if len(groups) > len(shown):
        parts.append(_label(120, bottom + 10, f"and {len(groups) - len(shown)} more groups of flows"))
        bottom += 20
    names = ", ".join(f"{count} of {name} with an RTT of {quantity_text(rtt, 's')}" for name, rtt, count, _ in groups)
    title = f"Block diagram. Flows: {names}. Bottleneck: {', '.join(_link_lines(view, link))}."
    arrow = '<path d="M0 0 8 4 0 8z" fill="currentColor"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom}" role="img" '
        f'aria-label="{escape(title)}">'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        f'orient="auto">{arrow}</marker></defs>{"".join(parts)}</svg>'
    )


def _groups(view: View) -> list[tuple[str, float, int, tuple[float, float]]]:
    """Return protocol, RTT, number of flows and delays to the first link and back, of each group of equal flows."""
    network = view.network
    counts: dict[tuple[str, float, tuple[float, float]], int] = {}
    for flow, protocol in enumerate(view.run.deployment.flows):
        rtt = float(f"{network.rtts[flow]:.9g}")
        forward = float(f"{np.nanmin(network.forward_delays[flow]):.9g}")
        key = (type(protocol).__name__, rtt, (forward, float(f"{rtt - forward:.9g}")))
        counts[key] = counts.get(key, 0) + 1
    return [(name, rtt, count, delays) for (name, rtt, delays), count in counts.items()]


def _link_lines(view: View, link: int) -> list[str]:
    """Return the capacity, the routers or discipline, and the buffer of the bottleneck."""
    deployed = view.run.deployment.links[link]
    routers = [type(router).__name__ for router in deployed if router.gives or not router.has_hosts()]
    buffer = view.network.links[link].buffer
    several = [f"slowest of {view.network.n_links} links"] if view.network.n_links > 1 else []
    return [
        quantity_text(float(view.network.capacities[link]), "bit/s"),
        *several,
        ", ".join(routers) or "drop-tail queue",
        "unlimited buffer" if buffer is None else f"buffer {quantity_text(float(buffer), 'bytes')}",
    ]


def _box(x: float, y: float, width: float, height: float, lines: Sequence[str]) -> str:
    middle, first = x + 0.5 * width, y + 0.5 * height - 9 * (len(lines) - 1) + 5
    texts = (
        f'<text x="{middle}" y="{first + 18 * k}" text-anchor="middle"{_NAME if k == 0 else ""}>{escape(line)}</text>'
        for k, line in enumerate(lines)
    )
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>{"".join(texts)}'


def _arrow(x0: float, y0: float, x1: float, y1: float) -> str:
    return f'<path d="M{x0} {y0}L{x1} {y1}" marker-end="url(#arrow)"/>'


def _label(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle" class="label">{escape(text)}</text>'
