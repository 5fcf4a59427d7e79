"""The array of characteristic roots, which knows its plane."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecc._support.arguments import shown

__all__ = ["CharacteristicRoots"]


class CharacteristicRoots(np.ndarray):
    """Characteristic roots as a complex array, with the plane in which they lie.

    Slices and copies keep the plane. Results of arithmetic are plain arrays, because log(z) is not in the z plane.

    Parameters
    ----------
    roots : array_like, shape (k,)
        Complex roots: s [1/s], or z.
    plane : str
        "s" (continuous time, stable for Re s < 0) or "z" (sampled, stable for |z| < 1).

    Raises
    ------
    ValueError
        Another plane.

    Examples
    --------
    >>> roots = DelaySystem([-1.0], [1.0]).roots(2)
    >>> roots.plane, roots[:1].plane
    ('s', 's')
    >>> SampledSystem([0.5], [0]).roots(1).plane
    'z'
    """

    plane: str
    """"s" or "z"."""

    def __new__(cls, roots: ArrayLike, plane: str) -> CharacteristicRoots:
        if plane not in ("s", "z"):
            raise ValueError(f"plane must be 's' or 'z', got {shown(plane)}")
        out = np.asarray(roots, dtype=complex).view(cls)
        out.plane = plane
        return out

    def __array_finalize__(self, source: Any) -> None:
        self.plane = getattr(source, "plane", "s")

    def __array_wrap__(self, array: NDArray[Any], context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else np.asarray(array)

    def __reduce__(self) -> Any:
        return CharacteristicRoots, (np.asarray(self), self.plane)

    def __repr__(self) -> str:
        return repr(np.asarray(self))
