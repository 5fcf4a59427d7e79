"""Laws as formulas in LaTeX, read from the same text that the engines run.

A law is plain Python: assignments, branches and one returned value. Each assignment is a formula of its own, a branch
is a formula with cases, and a function that the law calls follows as its own definition. Unlike `ecc.laws.equations`,
which evaluates a law on SymPy's symbols, this shows a law that branches, and names every parameter.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import getsource, unwrap
from types import FunctionType, ModuleType
from typing import Any

__all__ = ["formulas", "symbol"]

_GREEK = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi"
    " omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega".split()
)
_FUNCTIONS = {"min": r"\min", "max": r"\max", "exp": r"\exp", "log": r"\ln", "tanh": r"\tanh", "float": "", "int": ""}
_RELATIONS = {ast.Lt: "<", ast.LtE: r"\le", ast.Gt: ">", ast.GtE: r"\ge", ast.Eq: "=", ast.NotEq: r"\ne"}
_SUM, _PRODUCT, _UNARY, _ATOM = range(4)


def symbol(name: str) -> str:
    """Return an identifier as LaTeX: Greek letters, indices after an underscore, upright words.

    Parameters
    ----------
    name : str

    Examples
    --------
    >>> print(symbol("alpha"), symbol("R_prev"), symbol("base_rtt"))
    \\alpha R_{\\mathrm{prev}} \\mathrm{base\\ rtt}
    """
    head, *indices = [part for part in name.split("_") if part]
    digits = head.lstrip("".join(sorted(set(head) - set("0123456789"))))
    if digits and head != digits:
        head, indices = head[: -len(digits)], [digits, *indices]
    if len(head) > 1 and head not in _GREEK:
        return _upright(name)
    letter = f"\\{head}" if head in _GREEK else head
    if not indices:
        return letter
    words = [part if part.isdigit() or len(part) == 1 else f"\\mathrm{{{part}}}" for part in indices]
    return f"{letter}_{{{','.join(words)}}}"


def formulas(law: Callable[..., Any], result: str, relation: str = "=") -> list[str]:
    """Return the formulas of a law: its result, the values that it names, and the functions that it calls.

    Parameters
    ----------
    law : callable
        A law of a protocol, or a function that laws call.
    result : str
        LaTeX of the left side, for example "w" or "\\\\dot x".
    relation : str, optional
        LaTeX between the left side and the result, for example "\\\\leftarrow".

    Raises
    ------
    ValueError
        The law has a statement that has no formula, such as a loop.

    Examples
    --------
    >>> from ecc.models import FAST
    >>> formulas(FAST.router_law, "R")
    ['R = \\\\frac{q}{C}']
    """
    called: dict[str, FunctionType] = {}
    lines = _Text(unwrap(law), called).lines(f"{result} {relation}")
    shown_functions: set[str] = set()
    while remaining := [name for name in called if name not in shown_functions]:
        name = remaining[0]
        shown_functions.add(name)
        text = _Text(called[name], called)
        lines += text.lines(f"{_upright(name)}({', '.join(map(symbol, text.arguments))}) =")
    return lines


def _upright(name: str) -> str:
    """Return the words of an identifier as LaTeX."""
    words = name.strip("_").replace("_", r"\ ")
    return f"\\mathrm{{{words}}}"


@dataclass
class _Text:
    """The text of one function; `called` collects the functions that it calls."""

    law: Any
    called: dict[str, FunctionType]
    values: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        tree = ast.parse(textwrap.dedent(getsource(self.law)))
        nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda))]
        self.node = nodes[0]
        self.arguments = [argument.arg for argument in self.node.args.args if argument.arg != "p"]

    def lines(self, left_side: str) -> list[str]:
        """Return the formulas of the function, its result first."""
        if isinstance(self.node, ast.Lambda):
            returned = self.expression(self.node.body)
        else:
            returned = self.returned(self.node.body)
        return [f"{left_side} {returned}", *self.values]

    # ---- statements --------------------------------------------------------------------------------------

    def returned(self, body: Sequence[ast.stmt]) -> str:
        """Return the expression that statements return, and keep the formulas of the values that they name."""
        for place, statement in enumerate(body):
            if isinstance(statement, ast.Return) and statement.value is not None:
                return self.expression(statement.value)
            if isinstance(statement, ast.If) and _returns(statement.body):
                otherwise = statement.orelse or body[place + 1 :]
                chosen = self.returned(statement.body)
                return _cases([(chosen, self.expression(statement.test)), *self.other(otherwise)])
            self.statement(statement)
        raise ValueError(f"law must return a value, got {self.law.__qualname__}")

    def other(self, body: Sequence[ast.stmt]) -> list[tuple[str, str]]:
        """Return the remaining cases: those of a branch that follows at once, or one expression."""
        first = body[0]
        if isinstance(first, ast.If) and _returns(first.body):
            test, chosen = self.expression(first.test), self.returned(first.body)
            return [(chosen, test), *self.other(first.orelse or body[1:])]
        if isinstance(first, ast.Return) and first.value is not None:
            return self.choices(first.value)
        return [(self.returned(body), "")]

    def statement(self, statement: ast.stmt) -> None:
        """Keep the formulas of a statement that names values."""
        if isinstance(statement, ast.Expr):
            return  # the docstring
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            statement = ast.Assign([statement.target], statement.value)
        if isinstance(statement, ast.Assign):
            (target,) = statement.targets
            pairs = [(target, statement.value)]
            if isinstance(target, ast.Tuple):
                if not isinstance(statement.value, ast.Tuple):
                    names = ", ".join(self.expression(part) for part in target.elts)
                    self.values.append(f"({names}) = {self.expression(statement.value)}")
                    return
                pairs = list(zip(target.elts, statement.value.elts, strict=True))
            self.values += [f"{self.expression(name)} = {self.expression(value)}" for name, value in pairs]
        elif isinstance(statement, ast.AugAssign):
            change = ast.BinOp(statement.target, statement.op, statement.value)
            self.values.append(f"{self.expression(statement.target)} \\leftarrow {self.expression(change)}")
        elif isinstance(statement, ast.If):
            self.conditional(statement)
        else:
            raise ValueError(f"law must have assignments, branches and a result only, got {ast.unparse(statement)!r}")

    def conditional(self, statement: ast.If) -> None:
        """Keep the formulas of values that are named under a condition."""
        branches: list[tuple[str, Sequence[ast.stmt]]] = [(rf"\text{{if }} {self.test(statement)}", statement.body)]
        while len(statement.orelse) == 1 and isinstance(statement.orelse[0], ast.If):
            statement = statement.orelse[0]
            branches.append((rf"\text{{otherwise, if }} {self.test(statement)}", statement.body))
        branches.append((r"\text{otherwise}", statement.orelse))
        for condition, body in branches:
            before = len(self.values)
            for part in body:
                self.statement(part)
            self.values[before:] = [_conditional(line, condition) for line in self.values[before:]]

    def test(self, statement: ast.If) -> str:
        """Return the condition of a branch."""
        return self.expression(statement.test)

    # ---- expressions -------------------------------------------------------------------------------------

    def expression(self, node: ast.expr, within: int = _SUM) -> str:
        """Return an expression as LaTeX, in parentheses if the operation around it binds more tightly."""
        text, binds = self.typeset(node)
        return f"\\left({text}\\right)" if binds < within else text

    def typeset(self, node: ast.expr) -> tuple[str, int]:
        """Return an expression as LaTeX, and how tightly its outermost operation binds."""
        if isinstance(node, ast.Name):
            return self.name(node.id), _ATOM
        if isinstance(node, ast.Constant):
            return _number(node.value), _ATOM
        if isinstance(node, ast.Attribute):
            return symbol(node.attr), _ATOM
        if isinstance(node, ast.Subscript):
            return f"{self.expression(node.value)}_{{{self.expression(node.slice)}}}", _ATOM
        if isinstance(node, ast.UnaryOp):
            sign = r"\lnot " if isinstance(node.op, ast.Not) else "-"
            return f"{sign}{self.expression(node.operand, _PRODUCT)}", _SUM
        if isinstance(node, ast.BinOp):
            return self.operation(node)
        if isinstance(node, ast.Compare):
            parts = [self.expression(node.left)]
            for relation, operand in zip(node.ops, node.comparators, strict=True):
                parts += [_RELATIONS[type(relation)], self.expression(operand)]
            return " ".join(parts), _SUM
        if isinstance(node, ast.BoolOp):
            word = r" \text{ and } " if isinstance(node.op, ast.And) else r" \text{ or } "
            parts = [self.expression(value, _ATOM if isinstance(value, ast.BoolOp) else _SUM) for value in node.values]
            return word.join(parts), _SUM
        if isinstance(node, ast.IfExp):
            return _cases(self.choices(node)), _ATOM
        if isinstance(node, ast.Call):
            return self.call(node), _ATOM
        if isinstance(node, ast.Tuple):
            return ", ".join(map(self.expression, node.elts)), _ATOM
        raise ValueError(f"law must be an expression of numbers, got {ast.unparse(node)!r}")

    def choices(self, node: ast.expr) -> list[tuple[str, str]]:
        """Return the cases of a conditional expression; the last one has no condition."""
        if not isinstance(node, ast.IfExp):
            return [(self.expression(node), "")]
        return [(self.expression(node.body), self.expression(node.test)), *self.choices(node.orelse)]

    def operation(self, node: ast.BinOp) -> tuple[str, int]:
        """Return an operation of two operands, and how tightly it binds."""
        if isinstance(node.op, ast.Div):
            return f"\\frac{{{self.expression(node.left)}}}{{{self.expression(node.right)}}}", _ATOM
        if isinstance(node.op, ast.FloorDiv):
            whole = isinstance(node.right, ast.Constant) and node.right.value == 1
            quotient = self.expression(node.left if whole else ast.BinOp(node.left, ast.Div(), node.right))
            return f"\\left\\lfloor {quotient} \\right\\rfloor", _ATOM
        if isinstance(node.op, ast.Pow):
            return f"{self.expression(node.left, _ATOM)}^{{{self.expression(node.right)}}}", _ATOM
        if isinstance(node.op, ast.Mult):
            left, right = self.expression(node.left, _PRODUCT), self.expression(node.right, _PRODUCT)
            between = r" \cdot " if right[:1].isdigit() else r"\, "
            return f"{left}{between}{right}", _PRODUCT
        if isinstance(node.op, ast.Add):
            return f"{self.expression(node.left)} + {self.expression(node.right)}", _SUM
        if isinstance(node.op, ast.Sub):
            return f"{self.expression(node.left)} - {self.expression(node.right, _PRODUCT)}", _SUM
        raise ValueError(f"law must have the operations + - * / **, got {ast.unparse(node)!r}")

    def call(self, node: ast.Call) -> str:
        """Return a call as LaTeX; functions other than elementary ones are kept for definitions of their own."""
        function = self.resolved(node.func)
        name = getattr(function, "__name__", ast.unparse(node.func))
        values = [
            self.expression(value)
            for value in (*node.args, *(keyword.value for keyword in node.keywords))
            if not (isinstance(value, ast.Name) and value.id == "p")
        ]
        if name == "sqrt":
            return f"\\sqrt{{{values[0]}}}"
        if name == "abs":
            return f"\\left|{values[0]}\\right|"
        listed = f"\\left({', '.join(values)}\\right)"
        if name in _FUNCTIONS:
            return f"{_FUNCTIONS[name]}{listed}" if _FUNCTIONS[name] else values[0]
        if isinstance(function, FunctionType):
            self.called.setdefault(name, function)
        return f"{_upright(name)}{listed}"

    def resolved(self, node: ast.expr) -> Any:
        """Return the function that a call names, of this module or of another one; None if it is not found."""
        if isinstance(node, ast.Attribute):
            owner = self.resolved(node.value)
            found = getattr(owner, node.attr, None) if isinstance(owner, (ModuleType, type)) else None
        else:
            found = self.law.__globals__.get(getattr(node, "id", ""))
        return unwrap(found) if callable(found) else found

    def name(self, name: str) -> str:
        """Return a name as LaTeX: the number, if it is a constant of the module."""
        constant = self.law.__globals__.get(name)
        is_constant = isinstance(constant, (int, float)) and name not in self.arguments
        return _number(constant) if is_constant else symbol(name)


def _conditional(line: str, condition: str) -> str:
    """Return a formula with a condition, before the condition that it has already."""
    formula, *inner = line.split(r" \quad ")
    return r" \quad ".join([formula, r"\text{, }".join([condition, *inner])])


def _returns(body: Sequence[ast.stmt]) -> bool:
    """Return whether statements end by returning a value."""
    return isinstance(body[-1], ast.Return)


def _cases(cases: Sequence[tuple[str, str]]) -> str:
    conditions = [rf"\text{{if }} {test}" if test else r"\text{otherwise}" for _, test in cases]
    rows = r" \\ ".join(f"{value} & {condition}" for (value, _), condition in zip(cases, conditions, strict=True))
    return rf"\begin{{cases}} {rows} \end{{cases}}"


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"\\text{{{value}}}"
    mantissa, _, exponent = f"{value:.12g}".partition("e")
    if value == float("inf"):
        return r"\infty"
    return f"{mantissa} \\cdot 10^{{{int(exponent)}}}" if exponent else mantissa
