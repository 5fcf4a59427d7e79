"""Numerical tools of the second methods: plain NumPy, and nothing of ecc."""

import numpy as np


def zeros_right_of_axis(function, radius, at=0.0):
    """Count the zeros of an analytic function in Re s > at, |s - at| < radius, by the change of its argument.

    Steps along the boundary are halved until no step turns the value by more than half a radian.
    """
    turned = 0.0
    arc = np.exp(1j * np.linspace(-np.pi / 2, np.pi / 2, 400))
    axis = 1j * np.concatenate([np.geomspace(1.0, 1e-9, 400), [0.0], -np.geomspace(1e-9, 1.0, 400)])
    for path in (arc, axis):
        points = list(at + radius * path)
        values = [function(s) for s in points]
        k = 0
        while k + 1 < len(points):
            step = np.angle(values[k + 1] / values[k])
            if abs(step) > 0.5 and abs(points[k + 1] - points[k]) > 1e-13 * radius:
                middle = 0.5 * (points[k] + points[k + 1])
                points.insert(k + 1, middle)
                values.insert(k + 1, function(middle))
            else:
                turned += step
                k += 1
    return round(turned / (2.0 * np.pi))


def delayed_determinant(now, late, delay):
    """det(s - A - B exp(-s delay)) as a function of s; rows are scaled by the caller."""
    size = len(now)
    return lambda s: np.linalg.det(s * np.eye(size) - now - late * np.exp(-s * delay))


def jacobian(function, point):
    """Central differences with steps of a millionth of each coordinate."""
    point = np.asarray(point, dtype=float)
    columns = []
    for k, value in enumerate(point):
        step = 1e-6 * abs(value)
        up, down = point.copy(), point.copy()
        up[k] += step
        down[k] -= step
        columns.append((np.asarray(function(up)) - np.asarray(function(down))) / (2.0 * step))
    return np.array(columns).T


def bisect(is_below, low, high, steps=60):
    """The number at which a condition stops to hold."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return 0.5 * (low + high)
