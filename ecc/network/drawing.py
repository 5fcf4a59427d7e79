"""A drawing of a network: links as columns, flows as lines with a dot at each link that they cross."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["routes_svg"]

MAX_LINKS, MAX_FLOWS = 12, 10
_LEFT, _TOP, _COLUMN, _ROW = 70, 52, 96, 22  # pixels


def routes_svg(links: Sequence[tuple[str, ...]], routes: Sequence[Sequence[int]]) -> str:
    """Return a network as SVG in the color of the surrounding text, or "" if it has too many links to be read.

    Parameters
    ----------
    links : sequence of tuple of str
        Lines of text of each link, for example ("100 Mb/s", "10 ms").
    routes : sequence of sequence of int
        Links that each flow crosses. Flows after the first ten are counted, but not drawn.

    Examples
    --------
    >>> routes_svg([("8 Mb/s",)], [[0]]).count("<circle")
    1
    """
    from ecc.plot.look import PALETTE  # with Plotly, which takes time to import

    if len(links) > MAX_LINKS:
        return ""
    drawn = routes[:MAX_FLOWS]
    bottom = _TOP + _ROW * len(drawn)
    parts = []
    for k, lines in enumerate(links):
        x = _LEFT + _COLUMN * k
        parts.append(
            f'<rect x="{x + 4}" y="2" width="{_COLUMN - 8}" height="{bottom}" rx="4" fill="none"'
            ' stroke="currentColor" stroke-opacity="0.4"/>'
        )
        for row, text in enumerate((f"link {k}", *lines)):
            parts.append(_text(x + _COLUMN // 2, 15 + 14 * row, text, "middle"))
    for k, route in enumerate(drawn):
        y, color = _TOP + _ROW * k + 8, PALETTE[k % (len(PALETTE) - 1)]  # without black, which dark pages hide
        crossed = [_LEFT + _COLUMN * link + _COLUMN // 2 for link in route]
        parts.append(_text(2, y + 4, f"flow {k}", "start"))
        end = max(crossed) + _COLUMN // 2 + 6
        arrow = f"M{min(crossed) - _COLUMN // 2 - 6} {y}H{end}m-5 -4l5 4l-5 4"
        parts.append(f'<path d="{arrow}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="5" fill="{color}"/>' for x in crossed]
    more = len(routes) - len(drawn)
    parts += [_text(2, bottom + 20, f"{more} more flows", "start")] if more else []
    size = f'width="{_LEFT + _COLUMN * len(links) + 14}" height="{bottom + (26 if more else 6)}"'
    return f'<svg {size} role="img" aria-label="links and routes" style="max-width:100%">{"".join(parts)}</svg>'


def _text(x: int, y: int, text: str, anchor: str) -> str:
    style = f'x="{x}" y="{y}" text-anchor="{anchor}" font-size="11" fill="currentColor"'
    return f"<text {style}>{escape(text)}</text>"
