"""What is done with the text of a law: its arguments, its elementary functions, its derivatives, its equations.

`arguments`: the names of what a law takes. `elementary`: exp, log, sqrt, in one name for floats and for all below.
`jets`: exact derivatives, by truncated Taylor numbers. `equations`: the laws as SymPy shows them.
"""
