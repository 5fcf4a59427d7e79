"""Pictures shared by many claims."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from ecc import plot
from ecc.claims.ledger import Picture
from ecc.claims.report.text import typeset

__all__ = ["side_by_side"]


def side_by_side(pictures: Sequence[Picture], title: str) -> list[Picture]:
    """Combine three or more similar pictures into small multiples; return other pictures unchanged.

    Pictures are similar if each name has the same color in all of them. If, for example, "x1" had a second color in
    another network, the legend would show both.

    Parameters
    ----------
    pictures : sequence of Picture
        Pictures with the same panels; each keeps its title, and its caption if captions differ.
    title : str
        Title of the combined picture.
    """
    drawn = {
        (trace.get("name"), trace.get("line", {}).get("color"))
        for picture in pictures
        for trace in picture.figure["data"]
    }
    if len(pictures) < 3 or len(drawn) > len({name for name, _ in drawn}):
        return list(pictures)
    titles: dict[str, Picture] = {}
    for picture in pictures:
        again = sum(earlier.title == picture.title for earlier in titles.values())
        titles[f"{picture.title} #{again + 1}" if again else picture.title] = picture
    captions: dict[str, list[str]] = {}
    for name, picture in titles.items():
        captions.setdefault(picture.caption, []).append(name)
    parts = [caption if len(captions) == 1 else f"{'; '.join(of)}: {caption}" for caption, of in captions.items()]
    figure = plot.small_multiples_figure({typeset(name): go.Figure(picture.figure) for name, picture in titles.items()})
    return [Picture.of(figure, title, " ".join(parts))]
