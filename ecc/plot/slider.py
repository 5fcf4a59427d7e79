"""Several figures of one kind as one, with a slider to go from one to the next."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

__all__ = ["slider_figure"]


def slider_figure(figures: Mapping[str, go.Figure], name: str = "", first: int = 0) -> go.Figure:
    """Return one figure that shows one of several, as a slider says; it moves without a kernel, in a saved page too.

    Parameters
        figures : label -> plotly Figure, of the same layout; the layout of the first is taken.
        name : str, shown before the label, such as "alpha = ".
        first : int, 0 to len(figures) - 1: the figure that is shown to begin with.
    Returns
        plotly Figure.
    Raises
        ValueError: no figures, or no figure of that number.
    """
    if not 0 <= first < len(figures):
        raise ValueError(f"first must be 0 to {len(figures) - 1} for {len(figures)} figures, got {first}")
    parts = list(figures.values())
    owners = [k for k, part in enumerate(parts) for _ in part.data]
    made = go.Figure([trace for part in parts for trace in part.data], parts[first].layout)
    for trace, owner in zip(made.data, owners, strict=True):
        trace.visible = owner == first
    steps = [
        {"method": "update", "label": label, "args": [
            {"visible": [owner == k for owner in owners]},
            {"shapes": part.layout.shapes, "annotations": part.layout.annotations},
        ]}
        for k, (label, part) in enumerate(figures.items())
    ]  # fmt: skip
    made.update_layout(
        sliders=[{"steps": steps, "active": first, "currentvalue": {"prefix": name}, "pad": {"t": 60}}],
        height=(made.layout.height or 450) + 90,
    )
    return made
