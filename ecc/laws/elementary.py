"""The functions beyond + - * /, comparisons, min, max and abs that a law may use: exp, log, sqrt, tanh.

One name for floats (in Python and compiled), for jets (exact derivatives) and for SymPy (equations in notebooks).
"""

from math import exp, log, sqrt, tanh

__all__ = ["exp", "log", "sqrt", "tanh"]
