"""Arguments are checked where they are given: against the annotations of public functions, once, in one line.

`@check_arguments` on a function, or on a class for its public methods (and, with `constructor=True`, the one that a
dataclass has), reads the annotations on the first call and refuses what they do not allow: TypeError for a wrong
kind, ValueError for numbers that are none (NaN, infinity where it is not the default, beyond what a float or 64 bits
hold). Of the constructor of any other dataclass it refuses names alone: what is missing, unknown, or too much. What
values mean is for the function to check. Where there is not the memory that they ask for, a function raises
OutOfMemoryError.

    float                   a finite number, which is passed on as one that NumPy knows; infinity where the default is
    int, bool, str          just these, of Python or NumPy; whole numbers fit in 64 bits
    Count, Positive, Seed   whole numbers from 0 on, from 1 on, and from 0 on of 32 bits
    ArrayLike               numbers that make an array; finite, or with gaps where `@check_arguments(gaps=True)`
    Vector, Matrix          the same, of one dimension and of two
    NDArray[...]            an array of numbers, as ArrayLike; of records, an array of records
    Sequence, Iterable, Mapping, tuple, list, Callable, and classes of ours or of others
    X | Y                   one of them
    **Unpack[a TypedDict]   keywords, each by its own annotation
    Any, Quantity           not checked here
"""

from __future__ import annotations

import builtins
import inspect
import math
import numbers
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cache, partial, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, Unpack, get_args, get_origin, overload

import numpy as np
from numpy.typing import ArrayLike

from ecc.errors import OutOfMemoryError

__all__ = ["Count", "Matrix", "Positive", "Seed", "Vector", "check_arguments", "nearest", "shown"]

Count: TypeAlias = Annotated[int, 0, 63]
Positive: TypeAlias = Annotated[int, 1, 63]
Seed: TypeAlias = Annotated[int, 0, 32]
Vector: TypeAlias = Annotated[ArrayLike, 1]
Matrix: TypeAlias = Annotated[ArrayLike, 2]

C = TypeVar("C", bound=Callable[..., Any])
Refusal = type[ValueError] | type[TypeError] | None
_LONGEST = 80
_FUNCTION: Any = Callable
_TOO_LARGE = ("Maximum allowed", "array is too big")
"""How NumPy begins to say that there can be no array of such a size, in a ValueError."""


def shown(value: object) -> str:
    """Return a value as a message shows it: in one line of moderate length, for any value.

    Parameters
    ----------
    value : object
        Anything.
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of very many digits, or an object that has no text
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 20]}...{text[-17:]}"


def nearest(name: object, known: Mapping[str, str]) -> str:
    """Return the end of a message on an unknown name: which ones may have been meant, or nothing.

    Parameters
    ----------
    name : object
        As it was given.
    known : mapping
        Name -> what it stands for, in a line: its words are looked for first, then names that are spelled alike.
    """
    from difflib import get_close_matches

    if not isinstance(name, str):
        return ""
    word = name.lower()
    meant = [key for key, line in known.items() if word in re.findall(r"[\w-]+", line.lower())]
    if not meant:
        spelled = {re.sub(r"[-_ ]", "", key.lower()): key for key in known}
        meant = [spelled[one] for one in get_close_matches(re.sub(r"[-_ ]", "", word), spelled)]
    return f": did you mean {' or '.join(', '.join(meant).rsplit(', ', 1))}?" if meant else ""


def given(**options: Any) -> dict[str, Any]:
    """Return the options that are not None, by name: those that a function passes on to another.

    Parameters
    ----------
    **options : object
        None: left to the default of the other function.
    """
    return {name: value for name, value in options.items() if value is not None}


@overload
def check_arguments(call: C) -> C: ...
@overload
def check_arguments(*, gaps: bool = False, constructor: bool = False) -> Callable[[C], C]: ...
def check_arguments(call: Any = None, *, gaps: bool = False, constructor: bool = False) -> Any:
    """Let a function, or the public methods of a class, check arguments by their annotations.

    Parameters
    ----------
    call : object, optional
        Function or class.
    gaps : bool, optional
        Arrays may hold NaN and infinity.
    constructor : bool, optional
        That of a class is checked too.
    """
    if call is None:
        return partial(_decorated, gaps=gaps, constructor=constructor)
    return _decorated(call, gaps, constructor)


def _decorated(call: Any, gaps: bool, constructor: bool) -> Any:
    if not isinstance(call, type):
        return _wrapped(call, gaps)
    for name, member in list(vars(call).items()):
        if (name == "__init__" and constructor) or not (name.startswith("_") or name.endswith("_law")):
            if isinstance(member, classmethod | staticmethod):
                setattr(call, name, type(member)(_wrapped(member.__func__, gaps)))
            elif inspect.isfunction(member):
                setattr(call, name, _wrapped(member, gaps))
    if not constructor and "__dataclass_fields__" in vars(call) and "__init__" in vars(call):
        call.__init__ = _named(vars(call)["__init__"])  # type: ignore[misc]
    return call


def _named(constructor: Callable[..., None]) -> Callable[..., None]:
    @wraps(constructor)
    def inner(self: Any, *arguments: Any, **named: Any) -> None:
        try:
            constructor(self, *arguments, **named)
        except TypeError:
            _check_names(constructor, (self, *arguments), named, *_kinds(constructor, False))
            raise

    return inner


def _check_names(
    call: Callable[..., Any],
    arguments: Sized,
    named: Mapping[str, Any],
    positions: Sequence[tuple[str, Any]],
    kinds: Mapping[str | None, Any],
    needed: Iterable[tuple[str, float]],
) -> None:
    """Refuse arguments that are unknown, too many, or missing, once Python has: it says so by other words."""
    of = call.__qualname__.removesuffix(".__init__")
    for name in named:
        if name not in kinds and None not in kinds:
            raise TypeError(f"{of} must have arguments among {_listed(kinds)}, got {shown(name)}") from None
    if len(arguments) > len(positions):
        own = [name for name, _ in positions if name not in ("self", "cls")]
        surplus = len(arguments) - len(positions) + len(own)
        listed = f" ({', '.join(own)})" if own else ""
        raise TypeError(f"{of} must have at most {_number_of(own)} without a name{listed}, got {surplus}") from None
    if missing := [name for name, place in needed if place >= len(arguments) and name not in named]:
        raise TypeError(f"{of} lacks {_counted(missing)}") from None


def _wrapped(call: Callable[..., Any], gaps: bool) -> Callable[..., Any]:
    @wraps(call)
    def inner(*arguments: Any, **named: Any) -> Any:
        positions, kinds, needed = _kinds(call, gaps)
        for k, ((name, kind), value) in enumerate(zip(positions, arguments, strict=False)):
            if kind is not None and (refusal := kind.refuses(value)):
                raise refusal(_refused(name, kind, refusal, value))
            if kind is not None and kind.is_real and type(value) is not float:
                arguments = (*arguments[:k], _usual(value), *arguments[k + 1 :])
        for name, value in named.items():
            if (kind := kinds.get(name)) is not None and (refusal := kind.refuses(value)):
                raise refusal(_refused(name, kind, refusal, value))
            elif kind is not None and kind.is_real and type(value) is not float:
                named[name] = _usual(value)
        try:
            return call(*arguments, **named)
        except OutOfMemoryError:
            raise
        except TypeError:
            _check_names(call, arguments, named, positions, kinds, needed)
            raise
        except (MemoryError, ValueError) as error:
            if isinstance(error, MemoryError) or str(error).startswith(_TOO_LARGE):
                why = f": {error}" if str(error) else ""
                what = call.__qualname__.removesuffix(".__init__")
                raise OutOfMemoryError(f"{what} asks for more memory than there is{why}") from error
            raise

    return inner


def _refused(name: str, kind: Kind, refusal: type[Exception], value: object) -> str:
    """That an argument is refused. How many bits a number may have is said to those who gave one."""
    text = kind.text.replace(" of 64 bits", "") if refusal is TypeError else kind.text
    return f"{name} must be {text}, got {shown(value)}"


def _number_of(names: Sequence[str]) -> str:
    return f"{len(names)} argument{'' if len(names) == 1 else 's'}"


def _counted(names: Sequence[str]) -> str:
    return f"the argument{'s' if names[1:] else ''} {' and '.join(', '.join(map(repr, names)).rsplit(', ', 1))}"


def _listed(kinds: Mapping[Any, Any]) -> str:
    return ", ".join(name for name in kinds if name not in ("self", "cls"))


@cache
def _kinds(
    call: Callable[..., Any], gaps: bool
) -> tuple[list[tuple[str, Kind | None]], dict[str | None, Kind | None], list[tuple[str, float]]]:
    """What each parameter may be: by position, and by name; the name None is for those that `**` takes.

    And those without a default, with their positions; infinite: by name only.
    """
    names = _Names(getattr(inspect.unwrap(call), "__globals__", {}))
    positions: list[tuple[str, Kind | None]] = []
    kinds: dict[str | None, Kind | None] = {}
    needed: list[tuple[str, float]] = []
    for name, one in inspect.signature(call).parameters.items():
        annotation = one.annotation
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, {}, names)
            except Exception:  # of a protocol that is not ours, for one: then it is not checked
                annotation = one.empty
        kind = None if annotation is one.empty else _kind(annotation, gaps, one.default)
        if one.kind is one.VAR_KEYWORD and get_origin(annotation) is Unpack:
            kinds.update(_kinds_of_keywords(get_args(annotation)[0], gaps))
        elif one.kind is one.VAR_KEYWORD:
            kinds[None] = None
        elif one.kind is one.VAR_POSITIONAL:
            positions += [(name, kind)] * 100
        else:
            if one.default is one.empty:
                needed.append((name, math.inf if one.kind is one.KEYWORD_ONLY else len(positions)))
            if one.kind is not one.KEYWORD_ONLY:
                positions.append((name, kind))
            kinds[name] = kind
    return positions, kinds, needed


def _kinds_of_keywords(keywords: Any, gaps: bool) -> dict[str, Kind | None]:
    """The kinds of the keywords that a TypedDict names, which stands behind `**` as `Unpack[...]`."""
    names = _Names(vars(sys.modules[keywords.__module__]))
    texts = {name: getattr(one, "__forward_arg__", one) for name, one in keywords.__annotations__.items()}
    return {name: _kind(eval(one, {}, names) if isinstance(one, str) else one, gaps) for name, one in texts.items()}


class _Unseen(type):
    """Stands for a class that is imported for type checkers only, and is known by its name."""

    def __getattr__(cls, name: str) -> _Unseen:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Unseen(name, (), {})


class _Numbers:
    """Stands for ArrayLike, which is a union itself and would be lost in another."""


class _Names(dict[str, Any]):
    """The names that annotations of a module may use."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        super().__init__(names, ArrayLike=_Numbers)

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name) if hasattr(builtins, name) else _Unseen(name, (), {})


# ---- kinds of arguments -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """What an argument may be, in words, and with what exception a value is refused."""

    text: str
    refuses: Callable[[Any], Refusal]
    is_real: bool = False


def _kind(annotation: Any, gaps: bool, default: Any = None) -> Kind | None:
    """What an annotation allows; None: all."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Union or origin is UnionType:
        return _union([_kind(one, gaps, default) for one in inside])
    if annotation is _Numbers:
        return _array_like(gaps)
    if origin is Annotated and isinstance(inside[1], str):
        return None
    if origin is Annotated:
        return _whole(*inside[1:]) if inside[0] is int else _array_like(gaps, inside[1])
    if annotation in (None, NoneType):
        return Kind("None", lambda value: None if value is None else TypeError)
    if annotation is float:
        return _FLOAT_OR_INFINITE if default in (math.inf, -math.inf) else _FLOAT
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin = origin or annotation
    if not isinstance(origin, type) or origin in (Any, object) or getattr(origin, "_is_protocol", False):
        return None
    if origin is np.ndarray and "Any" in str(inside[-1]):
        return _class(origin)
    if origin is np.ndarray:
        records = "void" in str(annotation)
        return _RECORDS if records else _array(gaps)
    if origin is tuple:
        return _tuple(inside, gaps)
    if origin in (Sequence, Iterable, Iterator, list):
        return _sequence(origin, _kind(inside[0], gaps) if inside else None)
    if origin in (Mapping, dict):
        return _mapping([_kind(one, gaps) for one in inside])
    if origin is _FUNCTION:
        return Kind("a function", lambda value: None if callable(value) else TypeError)
    return _class(origin)


def _number(value: Any, infinite: bool) -> Refusal:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        return TypeError
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return ValueError
    return None if math.isfinite(number) or (infinite and math.isinf(number)) else ValueError


def _usual(value: Any) -> Any:
    """A fraction, or a whole number beyond 64 bits, as a float: NumPy does not count with either; all else as it is."""
    if isinstance(value, bool | float | np.generic) or not isinstance(value, numbers.Real):
        return value
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else float(value)


_FLOAT = Kind("a finite number", lambda value: _number(value, False), True)
_FLOAT_OR_INFINITE = Kind("a number", lambda value: _number(value, True), True)


def _integer(value: Any) -> Refusal:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        return TypeError
    return None if -(2**63) <= int(value) < 2**64 else ValueError


@cache
def _whole(least: int, bits: int) -> Kind:
    """A whole number of so many bits, from one on."""

    def refuses(value: Any) -> Refusal:
        return _integer(value) or (None if least <= value < 2**bits else ValueError)

    return Kind(f"a whole number from {least} to 2^{bits} - 1", refuses)


def _path(value: Any) -> Refusal:
    """Whether the system could have a file of this name; a text of several lines is the content of one."""
    try:
        name = os.fsencode(value)
    except UnicodeError:
        return ValueError
    return None if b"\0" not in name or b"\n" in name else ValueError


def _of(*kinds: type) -> Callable[[Any], Refusal]:
    return lambda value: None if isinstance(value, kinds) else TypeError


_PLAIN: dict[Any, Kind] = {
    int: Kind("a whole number of 64 bits", _integer),
    bool: Kind("True or False", _of(bool, np.bool_)),
    str: Kind("a string", _of(str)),
    bytes: Kind("bytes", _of(bytes, bytearray, memoryview)),
    Path: Kind("a path", lambda value: _path(value) if isinstance(value, os.PathLike) else TypeError),
}
_PATH = Kind("a path", lambda value: _path(value) if isinstance(value, str | os.PathLike) else TypeError)
_RECORDS = Kind(
    "an array of records",
    lambda value: None if isinstance(value, np.ndarray) and value.dtype.kind == "V" else TypeError,
)


def _numbers(value: Any, gaps: bool) -> Refusal:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return TypeError
    if array.dtype.kind not in "biufc" and array.size:
        return TypeError
    if array.dtype.kind in "fc" and not gaps and not np.isfinite(array).all():
        return ValueError
    return None


@cache
def _array_like(gaps: bool, dimensions: int | None = None) -> Kind:
    def refuses(value: Any) -> Refusal:
        refusal = _numbers(value, gaps)
        return refusal or (None if dimensions in (None, np.ndim(value)) else ValueError)

    what = {None: "an array", 1: "a one-dimensional array", 2: "a two-dimensional array"}[dimensions]
    return Kind(f"{what} of {'' if gaps else 'finite '}numbers", refuses)


@cache
def _array(gaps: bool) -> Kind:
    def refuses(value: Any) -> Refusal:
        return _numbers(value, gaps) if isinstance(value, np.ndarray) else TypeError

    return Kind(f"an array of {'' if gaps else 'finite '}numbers", refuses)


def _union(kinds: list[Kind | None]) -> Kind | None:
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None
    if _PLAIN[Path] in known and _PLAIN[str] in known:
        known = [_PATH, *(kind for kind in known if kind not in (_PLAIN[Path], _PLAIN[str]))]

    def refuses(value: Any) -> Refusal:
        refusals = [kind.refuses(value) for kind in known]
        return None if None in refusals else ValueError if ValueError in refusals else TypeError

    texts = dict.fromkeys(kind.text for kind in known)
    return Kind(" or ".join(texts), refuses, any(kind.is_real for kind in known))


def _inside(values: Iterable[Any], kind: Kind | None) -> Refusal:
    """The first refusal of what is in a container."""
    return None if kind is None else next((found for value in values if (found := kind.refuses(value))), None)


def _sequence(origin: type, kind: Kind | None) -> Kind:
    once = origin in (Iterable, Iterator)

    def refuses(value: Any) -> Refusal:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return TypeError
        if isinstance(value, np.ndarray) and value.ndim == 0:
            return TypeError
        if isinstance(value, Iterator) or not isinstance(value, Sized):
            return None if once else TypeError
        return _inside(value, kind)

    return Kind(f"a sequence{f', each of it {kind.text}' if kind else ''}", refuses)


def _mapping(kinds: list[Kind | None]) -> Kind:
    keys, values = kinds if len(kinds) == 2 else (None, None)

    def refuses(value: Any) -> Refusal:
        if not isinstance(value, Mapping):
            return TypeError
        return _inside(value.keys(), keys) or _inside(value.values(), values)

    of = f", each key {keys.text}" if keys else ""
    return Kind(f"a mapping{of}{f', each value {values.text}' if values else ''}", refuses)


def _tuple(inside: tuple[Any, ...], gaps: bool) -> Kind:
    if len(inside) == 2 and inside[1] is ...:
        return _sequence(list, _kind(inside[0], gaps))
    kinds = [_kind(one, gaps) for one in inside]

    def refuses(value: Any) -> Refusal:
        if not isinstance(value, tuple | list | np.ndarray) or (isinstance(value, np.ndarray) and value.ndim == 0):
            return TypeError
        if len(value) != len(kinds):
            return ValueError
        return next((found for one, kind in zip(value, kinds, strict=True) if (found := _inside([one], kind))), None)

    return Kind(f"({', '.join(kind.text if kind else 'anything' for kind in kinds)})", refuses)


def _class(kind: type) -> Kind:
    name = kind.__name__
    article = "an " if name[0] in "AEIOU" else "a "
    if name.isupper():  # a protocol by its abbreviation
        article = ""
    if isinstance(kind, _Unseen):
        return Kind(
            f"{article}{name}",
            lambda value: None if any(one.__name__ == name for one in type(value).__mro__) else TypeError,
        )
    return Kind(f"{article}{name}", _of(kind))
