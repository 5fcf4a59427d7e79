"""Pictures that many claims share."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from ecc import plot
from ecc.claims.ledger import Picture
from ecc.claims.report.text import typeset

__all__ = ["side_by_side"]


def side_by_side(pictures: Sequence[Picture], title: str) -> list[Picture]:
    """Return three or more pictures of like figures as one of small multiples, and others as they are.

    Like are those in which a name has one color: in another network "x1" may have another; a legend would show both.

    Parameters
    ----------
    pictures : sequence of Picture
        With the same panels; each keeps its title, and its caption unless it is the same for all.
    title : str
        Of the one.
    """
    drawn = {
        (trace.get("name"), trace.get("line", {}).get("color")) for one in pictures for trace in one.figure["data"]
    }
    if len(pictures) < 3 or len(drawn) > len({name for name, _ in drawn}):
        return list(pictures)
    titles: dict[str, Picture] = {}
    for picture in pictures:
        again = sum(one.title == picture.title for one in titles.values())
        titles[f"{picture.title} #{again + 1}" if again else picture.title] = picture
    captions: dict[str, list[str]] = {}
    for name, picture in titles.items():
        captions.setdefault(picture.caption, []).append(name)
    said = [caption if len(captions) == 1 else f"{'; '.join(of)}: {caption}" for caption, of in captions.items()]
    figure = plot.small_multiples_figure({typeset(name): go.Figure(one.figure) for name, one in titles.items()})
    return [Picture.of(figure, title, " ".join(said))]
