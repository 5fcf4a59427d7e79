"""Checks of the arguments of public functions against their annotations, with messages of one line.

`@check_arguments` on a function, or on a class for its public methods (and, with `constructor=True`, for the
constructor of a dataclass), reads the annotations on the first call and refuses other arguments: TypeError for a wrong
type, ValueError for unusable numbers (NaN, infinity unless it is the default, numbers beyond a float or 64 bits). For
the constructor of any other dataclass it checks only the names: missing, unknown or surplus arguments. The function
itself checks the meaning of values. If memory does not suffice for the arguments, a function raises OutOfMemoryError.

    float                   a finite number, converted to a type of NumPy; infinity if the default is infinite
    int, bool, str          these types, of Python or NumPy; whole numbers of 64 bits
    Count, Positive, Seed   whole numbers >= 0, >= 1, and >= 0 of 32 bits
    ArrayLike               numbers for an array; finite, or with gaps if `@check_arguments(gaps=True)`
    Vector, Matrix          likewise, of one dimension and of two
    NDArray[...]            an array of numbers, like ArrayLike; an array of records if annotated so
    Sequence, Iterable, Mapping, tuple, list, Callable, and any class
    X | Y                   one of the alternatives
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
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, Unpack, get_args, get_origin, overload

import numpy as np
from numpy.typing import ArrayLike

from ecc._support.reports import shows_progress
from ecc.errors import OutOfMemoryError

__all__ = ["Count", "Matrix", "Positive", "Seed", "Vector", "check_arguments", "nearest", "shown", "unknown_key"]

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
"""Beginnings of NumPy's ValueErrors for an array of impossible size."""


def shown(value: object) -> str:
    """Return any value as text for a message: one line of moderate length.

    Parameters
    ----------
    value : object
        Any value.
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer with too many digits, or an object with a failing repr
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 20]}...{text[-17:]}"


def nearest(name: object, known: Mapping[str, str]) -> str:
    """Return the end of a message on an unknown name: a question with similar names, or "".

    Parameters
    ----------
    name : object
        Unknown name, for example "xpc".
    known : mapping
        Name -> description in one line. Parts of names are searched first ("Reno" of "NewReno"), then the words of the
        descriptions, then names with a similar spelling.
    """
    from difflib import get_close_matches

    if not isinstance(name, str):
        return ""
    word = name.lower()
    meant = [key for key in known if word in map(str.lower, re.findall("[A-Z][a-z]+", key))]
    meant = meant or [key for key, line in known.items() if word in re.findall(r"[\w-]+", line.lower())]
    if not meant:
        spelled = {re.sub(r"[-_ ]", "", key.lower()): key for key in known}
        meant = [spelled[match] for match in get_close_matches(re.sub(r"[-_ ]", "", word), spelled)]
    return f": did you mean {' or '.join(', '.join(meant).rsplit(', ', 1))}?" if meant else ""


def unknown_key(where: str, key: object, allowed: Iterable[str]) -> str:
    """Return the message on an unknown key of a table: a similar key first, then all allowed ones.

    Parameters
    ----------
    where : str
        Name of the table, for example "links[0]".
    key : object
        Unknown key.
    allowed : iterable of str
        Allowed keys.
    """
    names = list(allowed)
    if not names:
        return f"{where} has no key {shown(key)}: it takes no parameters"
    meant = nearest(key, dict.fromkeys(names, "")).removeprefix(": ")
    return f"{where} has no key {shown(key)}{f' ({meant})' if meant else ''}; allowed are {', '.join(names)}"


def given(**options: Any) -> dict[str, Any]:
    """Return the options that are not None, by name, so that a function can pass them on to another.

    Parameters
    ----------
    **options : object
        Options by name; None: the default of the other function applies.
    """
    return {name: value for name, value in options.items() if value is not None}


@overload
def check_arguments(call: C) -> C: ...
@overload
def check_arguments(
    *, gaps: bool = False, constructor: bool = False, former: Mapping[str, str] = {}
) -> Callable[[C], C]: ...
def check_arguments(
    call: Any = None, *, gaps: bool = False, constructor: bool = False, former: Mapping[str, str] = {}
) -> Any:
    """Let a function, or the public methods of a class, check arguments by their annotations.

    Parameters
    ----------
    call : object, optional
        Function or class.
    gaps : bool, optional
        Arrays may hold NaN and infinity.
    constructor : bool, optional
        True: the constructor of a class is checked too.
    former : mapping, optional
        Former name of a keyword of a function, which is still accepted -> its present name.
    """
    if call is None:
        return partial(_decorated, gaps=gaps, constructor=constructor, former=former)
    return _decorated(call, gaps, constructor)


def _decorated(call: Any, gaps: bool, constructor: bool, former: Mapping[str, str] = {}) -> Any:
    if not isinstance(call, type):
        return _wrapped(call, gaps, former)
    for name, member in list(vars(call).items()):
        if (name == "__init__" and constructor) or not (name.startswith("_") or name.endswith("_law")):
            if isinstance(member, classmethod | staticmethod):
                setattr(call, name, type(member)(_wrapped(member.__func__, gaps)))
            elif inspect.isfunction(member):
                setattr(call, name, _wrapped(member, gaps))
    if not constructor and "__dataclass_fields__" in vars(call) and "__init__" in vars(call):
        call.__init__ = _with_checked_names(vars(call)["__init__"])  # type: ignore[misc]
    return call


def _with_checked_names(constructor: Callable[..., None]) -> Callable[..., None]:
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
    """Refuse unknown, surplus or missing arguments after Python has, with a clearer message."""
    of = call.__qualname__.removesuffix(".__init__")
    for name in named:
        if name not in kinds and None not in kinds:
            raise TypeError(f"{of} must have arguments among {_listed(kinds)}, got {shown(name)}") from None
    if len(arguments) > len(positions):
        allowed = [name for name, _ in positions if name not in ("self", "cls")]
        surplus = len(arguments) - len(positions) + len(allowed)
        listed = f" ({', '.join(allowed)})" if allowed else ""
        raise TypeError(f"{of} must have at most {_number_of(allowed)} without a name{listed}, got {surplus}") from None
    if missing := [name for name, place in needed if place >= len(arguments) and name not in named]:
        raise TypeError(f"{of} lacks {_counted(missing)}") from None


@cache  # not in a closure: digests of functions cover closures, and must not depend on earlier calls
def _checked(
    call: Callable[..., Any], gaps: bool
) -> tuple[list[tuple[int, str, Kind]], dict[str | None, Kind | None], int | None]:
    """Return index, name and kind of the positional parameters that are checked, and the kinds by name.

    The last item is the index of the parameter `progress`: sys.maxsize if it is passed by name only, None without it.
    """
    positions, kinds, _ = _kinds(call, gaps)
    checked = [(k, name, kind) for k, (name, kind) in enumerate(positions) if kind is not None]
    places = (k for k, name, _ in checked if name == "progress")
    return checked, kinds, next(places, sys.maxsize) if "progress" in kinds else None


def _wrapped(call: Callable[..., Any], gaps: bool, former: Mapping[str, str] = {}) -> Callable[..., Any]:
    @wraps(call)
    def inner(*arguments: Any, **named: Any) -> Any:
        for old, name in former.items():
            if old in named:
                if name in named:
                    raise TypeError(f"{old} is the former name of {name}, and both are given")
                named[name] = named.pop(old)
        positional, kinds, place = _checked(call, gaps)
        for k, name, kind in positional:
            if k >= len(arguments):
                break
            if (value := arguments[k]) is kind.default:
                continue
            if refusal := kind.refuses(value):
                raise refusal(_refused(name, kind, refusal, value))
            if kind.is_real and type(value) is not float:
                arguments = (*arguments[:k], _as_numpy_number(value), *arguments[k + 1 :])
        for name, value in named.items():
            if (of_name := kinds.get(name)) is None or value is of_name.default:
                continue
            if refusal := of_name.refuses(value):
                raise refusal(_refused(name, of_name, refusal, value))
            if of_name.is_real and type(value) is not float:
                named[name] = _as_numpy_number(value)
        try:
            if place is None:
                return call(*arguments, **named)
            by_name = place >= len(arguments)
            given = named.pop("progress", None) if by_name else arguments[place]
            with shows_progress(call.__qualname__, given) as progress:
                if by_name:
                    named["progress"] = progress
                else:
                    arguments = (*arguments[:place], progress, *arguments[place + 1 :])
                return call(*arguments, **named)
        except OutOfMemoryError:
            raise
        except TypeError:
            _check_names(call, arguments, named, *_kinds(call, gaps))
            raise
        except (MemoryError, ValueError) as error:
            if isinstance(error, MemoryError) or str(error).startswith(_TOO_LARGE):
                why = f": {error}" if str(error) else ""
                name_of_call = call.__qualname__.removesuffix(".__init__")
                raise OutOfMemoryError(f"{name_of_call} asks for more memory than there is{why}") from error
            raise

    return inner


def _refused(name: str, kind: Kind, refusal: type[Exception], value: object) -> str:
    """Return the message on a refused argument, with the number of bits only if a number was given."""
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
    """Return the kinds of parameters by position and by name, and the required ones with their positions.

    The name None stands for arguments of `**`. The position of a keyword-only parameter is infinite.
    """
    names = _Names(getattr(inspect.unwrap(call), "__globals__", {}))
    positions: list[tuple[str, Kind | None]] = []
    kinds: dict[str | None, Kind | None] = {}
    needed: list[tuple[str, float]] = []
    for name, parameter in inspect.signature(call).parameters.items():
        annotation = parameter.annotation
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, {}, names)
            except Exception:  # for example in a user's protocol: then it is not checked
                annotation = parameter.empty
        kind = None if annotation is parameter.empty else _kind(annotation, gaps, parameter.default)
        kind = kind and replace(kind, default=parameter.default)
        if parameter.kind is parameter.VAR_KEYWORD and get_origin(annotation) is Unpack:
            kinds.update(_kinds_of_keywords(get_args(annotation)[0], gaps))
        elif parameter.kind is parameter.VAR_KEYWORD:
            kinds[None] = None
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positions += [(name, kind)] * 100
        else:
            if parameter.default is parameter.empty:
                needed.append((name, math.inf if parameter.kind is parameter.KEYWORD_ONLY else len(positions)))
            if parameter.kind is not parameter.KEYWORD_ONLY:
                positions.append((name, kind))
            kinds[name] = kind
    return positions, kinds, needed


def _kinds_of_keywords(keywords: Any, gaps: bool) -> dict[str, Kind | None]:
    """Return the kinds of the keywords of a TypedDict that annotates `**` as `Unpack[...]`."""
    names = _Names(vars(sys.modules[keywords.__module__]))
    texts = {name: getattr(hint, "__forward_arg__", hint) for name, hint in keywords.__annotations__.items()}
    return {name: _kind(eval(hint, {}, names) if isinstance(hint, str) else hint, gaps) for name, hint in texts.items()}


class _NamedOnly(type):
    """Placeholder of a class that is imported for type checkers only, and is identified by its name."""

    def __getattr__(cls, name: str) -> _NamedOnly:
        if name.startswith("_"):
            raise AttributeError(name)
        return _NamedOnly(name, (), {})


class _Numbers:
    """Placeholder of ArrayLike, which is itself a union and would be merged into another."""


class _Names(dict[str, Any]):
    """Names that annotations of a module may use."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        super().__init__(names, ArrayLike=_Numbers)

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name) if hasattr(builtins, name) else _NamedOnly(name, (), {})


# ---- kinds of arguments -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of argument: its description, and a function that returns the exception for a refused value."""

    text: str
    refuses: Callable[[Any], Refusal]
    is_real: bool = False
    default: object = inspect.Parameter.empty
    """Default of the parameter, which is not checked again if it is passed."""


def _kind(annotation: Any, gaps: bool, default: Any = None) -> Kind | None:
    """Return the kind of an annotation; None: everything is allowed."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Union or origin is UnionType:
        return _union([_kind(part, gaps, default) for part in inside])
    if annotation is _Numbers:
        return _array_like(gaps)
    if origin is Annotated and isinstance(inside[1], str):
        return None
    if origin is Annotated:
        return _whole_number(*inside[1:]) if inside[0] is int else _array_like(gaps, inside[1])
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
        return _mapping([_kind(part, gaps) for part in inside])
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


def _as_numpy_number(value: Any) -> Any:
    """Convert a fraction, or an integer beyond 64 bits, to a float, as NumPy cannot use it; keep other values."""
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
def _whole_number(minimum: int, bits: int) -> Kind:
    """Return the kind of whole numbers from a minimum to a number of bits."""

    def refuses(value: Any) -> Refusal:
        return _integer(value) or (None if minimum <= value < 2**bits else ValueError)

    return Kind(f"a whole number from {minimum} to 2^{bits} - 1", refuses)


def _path(value: Any) -> Refusal:
    """Refuse names that no file can have; a text of several lines is content, not a name."""
    try:
        name = os.fsencode(value)
    except UnicodeError:
        return ValueError
    return None if b"\0" not in name or b"\n" in name else ValueError


def _instance_of(*kinds: type) -> Callable[[Any], Refusal]:
    return lambda value: None if isinstance(value, kinds) else TypeError


_PLAIN: dict[Any, Kind] = {
    int: Kind("a whole number of 64 bits", _integer),
    bool: Kind("True or False", _instance_of(bool, np.bool_)),
    str: Kind("a string", _instance_of(str)),
    bytes: Kind("bytes", _instance_of(bytes, bytearray, memoryview)),
    Path: Kind("a path", lambda value: _path(value) if isinstance(value, os.PathLike) else TypeError),
}
_PATH = Kind("a path", lambda value: _path(value) if isinstance(value, str | os.PathLike) else TypeError)
_RECORDS = Kind(
    "an array of records",
    lambda value: None if isinstance(value, np.ndarray) and value.dtype.kind == "V" else TypeError,
)


def _numbers(value: Any, gaps: bool) -> Refusal:
    if type(value) is float and (gaps or math.isfinite(value)):
        return None
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
        return refusal or (None if dimensions is None or np.ndim(value) == dimensions else ValueError)

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
        worst: Refusal = TypeError
        for kind in known:
            if (refusal := kind.refuses(value)) is None:
                return None
            worst = refusal if refusal is ValueError else worst
        return worst

    texts = dict.fromkeys(kind.text for kind in known)
    return Kind(" or ".join(texts), refuses, any(kind.is_real for kind in known))


def _refusal_of_items(values: Iterable[Any], kind: Kind | None) -> Refusal:
    """Return the first refusal of an item of a container, or None."""
    return None if kind is None else next((refusal for value in values if (refusal := kind.refuses(value))), None)


def _sequence(origin: type, kind: Kind | None) -> Kind:
    once = origin in (Iterable, Iterator)

    def refuses(value: Any) -> Refusal:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return TypeError
        if isinstance(value, np.ndarray) and value.ndim == 0:
            return TypeError
        if isinstance(value, Iterator) or not isinstance(value, Sized):
            return None if once else TypeError
        return _refusal_of_items(value, kind)

    return Kind(f"a sequence{f', each of it {kind.text}' if kind else ''}", refuses)


def _mapping(kinds: list[Kind | None]) -> Kind:
    keys, values = kinds if len(kinds) == 2 else (None, None)

    def refuses(value: Any) -> Refusal:
        if not isinstance(value, Mapping):
            return TypeError
        return _refusal_of_items(value.keys(), keys) or _refusal_of_items(value.values(), values)

    of = f", each key {keys.text}" if keys else ""
    return Kind(f"a mapping{of}{f', each value {values.text}' if values else ''}", refuses)


def _tuple(inside: tuple[Any, ...], gaps: bool) -> Kind:
    if len(inside) == 2 and inside[1] is ...:
        return _sequence(list, _kind(inside[0], gaps))
    kinds = [_kind(item, gaps) for item in inside]

    def refuses(value: Any) -> Refusal:
        if not isinstance(value, tuple | list | np.ndarray) or (isinstance(value, np.ndarray) and value.ndim == 0):
            return TypeError
        if len(value) != len(kinds):
            return ValueError
        return next(
            (refusal for item, kind in zip(value, kinds, strict=True) if (refusal := _refusal_of_items([item], kind))),
            None,
        )

    return Kind(f"({', '.join(kind.text if kind else 'anything' for kind in kinds)})", refuses)


def _class(kind: type) -> Kind:
    name = kind.__name__
    article = "an " if name[0] in "AEIOU" else "a "
    if name.isupper():  # an abbreviation of a protocol
        article = ""
    if isinstance(kind, _NamedOnly):
        return Kind(
            f"{article}{name}",
            lambda value: None if any(base.__name__ == name for base in type(value).__mro__) else TypeError,
        )
    return Kind(f"{article}{name}", _instance_of(kind))
