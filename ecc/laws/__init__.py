"""Operations on the text of a law: its arguments, its elementary functions, its derivatives, its equations.

`arguments`: the names of a law's arguments. `elementary`: exp, log, sqrt and tanh, under one name for floats and for
all below. `jets`: exact derivatives, by truncated Taylor numbers. `equations`: the laws as SymPy equations.
`formulas`: the laws as LaTeX, with their branches.
"""
