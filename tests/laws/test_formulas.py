"""The formulas of laws are those of their text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from latex2mathml.converter import convert

from ecc.contract.protocol import Protocol
from ecc.laws.formulas import formulas, symbol
from ecc.models import CUBIC, FAST, RCP, all_protocols
from ecc.queues import RED, all_disciplines


def laws_of(cls: type[Protocol]) -> Iterator[Callable[..., float]]:
    """Yield the laws of a class, those of its states and their jumps too."""
    protocol = cls(rate=1e6) if cls.__name__ == "ConstantRate" else cls()  # type: ignore[call-arg]
    named = (getattr(protocol, name, None) for name in dir(cls) if name.endswith("_law"))
    yield from (law for law in named if callable(law))
    for state in protocol.states.values():
        yield from (law for law in (state.law, *state.jumps.values()) if law is not None)


@pytest.mark.parametrize("cls", [*all_protocols(True).values(), *all_disciplines().values()], ids=lambda c: c.__name__)
def test_every_law_has_formulas_that_browsers_can_set(cls):
    for law in laws_of(cls):
        lines = formulas(law, "w", r"\leftarrow")
        assert lines[0].startswith(r"w \leftarrow ")
        assert len(lines) == len(set(lines))
        for line in lines:
            assert "<math" in convert(line)


def test_symbols():
    assert symbol("alpha") == r"\alpha"
    assert symbol("alpha1") == r"\alpha_{1}"
    assert symbol("R_prev") == r"R_{\mathrm{prev}}"
    assert symbol("base_rtt") == r"\mathrm{base\ rtt}"


def test_formulas_of_laws():
    assert formulas(FAST.router_law, "R") == [r"R = \frac{q}{C}"]
    assert formulas(RCP().router_law, "R", r"\leftarrow")[0].startswith(r"R \leftarrow R\, \left(1 + \frac{T\, ")
    first, goal, cubic = formulas(CUBIC().source_law, "w")
    assert first == r"w = \max\left(\mathrm{goal}\left(w, t, K, M, D, s\right), E\right)"
    assert goal.endswith(r"1.5\, W\right)")  # a constant of the module is its number
    assert (
        cubic
        == r"\mathrm{cubic}(t, K, M, s) = s\, C\, \left(t - K\right)\, \left(t - K\right)\, \left(t - K\right) + M"
    )
    assert any(line.count("&") == 4 for line in formulas(RED().probability_law, "P"))  # a case for each branch


def halved(w: float) -> float:
    return w / 2.0


def with_branches(w: float, R: float, p: object) -> float:
    """A law with a value that two branches name."""
    gain = 1.0
    if R > 2.0:
        gain = p.alpha  # type: ignore[attr-defined]
    elif R > 1.0:
        gain += halved(w)
    if w < 0.0:
        return 0.0
    return w - (gain - R) if w > 1.0 else -w // 1.0


def test_branches_and_called_functions():
    assert formulas(with_branches, "w") == [
        r"w = \begin{cases} 0 & \text{if } w < 0 \\ w - \left(\mathrm{gain} - R\right) & \text{if } w > 1 \\ "
        r"\left\lfloor -w \right\rfloor & \text{otherwise} \end{cases}",
        r"\mathrm{gain} = 1",
        r"\mathrm{gain} = \alpha \quad \text{if } R > 2",
        r"\mathrm{gain} \leftarrow \mathrm{gain} + \mathrm{halved}\left(w\right) \quad \text{otherwise, if } R > 1",
        r"\mathrm{halved}(w) = \frac{w}{2}",
    ]


def looping(w: float) -> float:
    for _ in range(3):
        w += 1.0
    return w


def test_a_loop_is_refused_by_name():
    with pytest.raises(ValueError, match="law must have assignments, branches and a result only, got 'for _ in range"):
        formulas(looping, "w")
