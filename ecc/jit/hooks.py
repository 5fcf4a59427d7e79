"""Compile the hooks of a protocol, plain Python functions, to C function pointers for the packet engine.

A copy of a hook, and copies of the functions that it calls, are compiled by Numba. The code of all hooks is linked into
one module with C entry points `int32_t hook(void *state, void *header, void *params, void *env)`, which return a number
that stands for an exception if Python would have raised one. LLVM makes one object file of the module, which is kept in
the user's cache directory, after a line with the texts of these exceptions. A later process loads that file through
llvmlite, without Numba.

The name of the file is a digest of all its inputs: the code objects of all functions that the hooks reach and the
constants that these take from outside (as they are in this process, even if the source file has changed since), the
record layouts, the versions of Python, Numba and LLVM, and the processor. Therefore, if a law in another module,
script or notebook cell changes, the file has another name.
"""

from __future__ import annotations

import dis
import functools
import inspect
import json
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from ecc._support.cache import folders, keep, kept
from ecc.jit.reach import (
    Snapshot,
    digest_of_texts,
    instructions,
    is_plain,
    jitable,
    lock,
    python_function,
    reach,
    surroundings,
    text_of,
    where,
)

__all__ = ["CompiledHooks", "compile_hooks", "report_compiling"]

Hook = Callable[[Any, Any, Any, Any], None]

RECORDS = ("state", "header", "params", "env")
_UNSUPPORTED = "needs the interpreter or allocates memory ({}); hooks use numbers and the fields of their records only"
_RUNTIME = re.compile(r"NRT_|Py|_Py|numba_")  # symbols that need the interpreter or an allocator

_loaded: dict[str, CompiledHooks] = {}
_keys: dict[tuple[object, ...], tuple[Snapshot, str]] = {}
"""Keys in `_loaded` by the arguments of `compile_hooks`, with the values that the hooks reached."""
_MAX_KEYS = 1_000


# From hooks to an object file --------------------------------------------------------------------------------------


def _one_line(error: BaseException) -> str:
    """Return the line of a Numba error that names the fault."""
    lines = [line.strip() for line in str(error).splitlines()]
    text = [line for line in lines if line and not line.startswith("Failed in")] or [type(error).__name__]
    return f"{text[0]} {text[1].removeprefix('>>> ')}" if text[0].endswith(":") and len(text) > 1 else text[0]


def _field_use(function: FunctionType, field: str, seen: set[int]) -> str | None:
    """Return the place at which a function, or one that it reaches, uses an attribute: `state.x (rcp.py:31)`."""
    seen.add(id(function))
    line, owner_name = function.__code__.co_firstlineno, None
    for step in dis.get_instructions(function):
        line = step.positions.lineno or line if step.positions else line
        if step.opname in ("LOAD_ATTR", "STORE_ATTR", "LOAD_METHOD") and step.argval == field:
            owner = f"{owner_name}." if isinstance(owner_name, str) else ""
            return f"{owner}{field} ({Path(function.__code__.co_filename).name}:{line})"
        owner_name = step.argval if step.opname.startswith("LOAD_FAST") else owner_name
    for value in map(python_function, reach(function).values()):
        if is_plain(value) and id(value) not in seen:
            if use := _field_use(value, field, seen):
                return use
    return None


def _check_reads(dispatcher: Any, records: Mapping[str, Any], unreadable: Mapping[str, str], seen: set[int]) -> None:
    """Refuse reads of `env` fields that this hook never has and would read as 0, and integers beyond 64 bits."""
    from numba.core import ir

    seen.add(id(dispatcher))
    name = where(dispatcher.py_func)
    for result in dispatcher.overloads.values():
        typed = result.type_annotation
        for statement in (s for block in typed.blocks.values() for s in block.body):
            value: Any = statement.value if isinstance(statement, ir.Assign) else None
            if isinstance(value, ir.Const | ir.Global | ir.FreeVar):
                if isinstance(value.value, int) and not -(2**63) <= value.value < 2**63:
                    place = f"{name} line {statement.loc.line}"
                    raise TypeError(f"{place} has {value.value}: whole numbers are from -2^63 to 2^63 - 1")
            elif isinstance(value, ir.Expr) and value.op == "getattr" and value.attr in unreadable:
                if typed.typemap[value.value.name] == records["env"]:
                    place = f"{name} line {statement.loc.line}"
                    raise TypeError(f"{place} reads env.{value.attr}, {unreadable[value.attr]}")
    for value in reach(dispatcher.py_func).values():
        if hasattr(value, "overloads") and id(value) not in seen:
            _check_reads(value, records, unreadable, seen)


def _check_writes(dispatcher: Any, records: Mapping[str, Any], writable: Collection[str] | None, seen: set[int]) -> int:
    """Refuse writes that compiled code would do silently, by the types that Numba inferred; return the other writes.

    A float stored in an int64 field would be truncated. A value written into params, or into a field of `env` that the
    engine does not read back, would be lost. The result is a number of writes.
    """
    from numba import types
    from numba.core import ir

    seen.add(id(dispatcher))
    name, writes = where(dispatcher.py_func), 0
    for result in dispatcher.overloads.values():
        typed = result.type_annotation
        for statement in (s for block in typed.blocks.values() for s in block.body):
            if isinstance(statement, ir.SetItem | ir.StaticSetItem):
                array, value = typed.typemap[statement.target.name], typed.typemap[statement.value.name]
                if isinstance(array.dtype, types.Integer) and not isinstance(value, types.Integer | types.Boolean):
                    place = f"{name} line {statement.loc.line}"
                    raise TypeError(f"{place} stores a {value} in an int array: write int(...)")
                writes += 1
                continue
            if not isinstance(statement, ir.SetAttr):
                continue
            target, value = typed.typemap[statement.target.name], typed.typemap[statement.value.name]
            if not isinstance(target, types.Record):
                continue
            owners = [record for record, kind in records.items() if kind == target]
            field = f"{statement.target.name.partition('.')[0]}.{statement.attr}"
            place = f"{name} line {statement.loc.line}"
            if isinstance(target.typeof(statement.attr), types.Integer) and not isinstance(
                value, types.Integer | types.Boolean
            ):
                raise TypeError(f"{place} stores a {value} in the int field {field}: write int(...)")
            if owners == ["params"]:
                raise TypeError(f"{place} writes {field}: parameters are read-only")
            if owners == ["env"] and writable is not None and statement.attr not in writable:
                allowed = ", ".join(writable) or "no field"
                raise TypeError(f"{place} writes {field}: of env, this hook may write {allowed}")
            writes += 1
    for value in reach(dispatcher.py_func).values():
        if hasattr(value, "overloads") and id(value) not in seen:
            writes += _check_writes(value, records, writable, seen)
    return writes


def _compile_one(
    name: str,
    hook: FunctionType,
    records: Mapping[str, Any],
    writable: Collection[str] | None,
    unreadable: Mapping[str, str],
) -> Any:
    """Return Numba's compile result of a hook for these records."""
    from numba import types
    from numba.core.errors import NumbaExperimentalFeatureWarning

    dispatcher = jitable(hook, from_python=False, allocates=False)
    signature = tuple(records.values())
    try:
        with warnings.catch_warnings():  # Numba warns if one record begins like another, needlessly
            warnings.simplefilter("ignore", NumbaExperimentalFeatureWarning)
            dispatcher.compile(signature)
        _check_reads(dispatcher, records, unreadable, set())
        writes = _check_writes(dispatcher, records, writable, set())
        result = dispatcher.overloads[signature]
        if result.signature.return_type != types.none:
            raise TypeError(f"returns a {result.signature.return_type}; a hook acts by writing fields")
        if writes == 0:
            raise TypeError("writes no field of any record, and so does nothing")
    except Exception as error:  # Numba raises many kinds, a KeyError for a record without the field
        cause = _one_line(error)
        cause = _UNSUPPORTED.format("NRT") if cause.startswith("NRT required") else cause
        if use := isinstance(error, KeyError) and _field_use(hook, str(error.args[0]), set()):
            fields = "; ".join(f"{record}: {', '.join(kind.fields) or 'none'}" for record, kind in records.items())
            cause = f"no such field {use}, the fields are {fields}"
        cause = re.sub(r"^Cannot cast (.+?) to (?:float64|int64): %.*", r"a number must be there, not a \1", cause)
        if re.search(r"setitem\(readonly |Cannot modify readonly array", cause):
            cause = "writes an entry of an array of p: parameters are read-only"
        if "float(bool)" in cause:
            cause = "float() of a comparison is not compiled: write 1.0 if ... else 0.0"
        place = getattr(error, "loc", None)
        line = f" (line {place.line})" if place else ""
        # Numba's traceback, of about eighty lines, stays in __context__
        raise TypeError(f"hook {name}, {where(hook)}: {cause}{line}") from None
    return result


def _target_machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )


def _reasons(module: Any) -> dict[int, str]:
    """Return the exceptions that the code may raise: return code of the entry points -> type and text.

    Numba keeps an exception as a pickled constant; the name of the constant contains the SHA-1 of the pickle.
    """
    reasons = {}
    for symbol in module.global_variables:
        name = re.fullmatch(r"\.const\.pickledata\.([0-9a-f]{40})(?:\.\d+)?", symbol.name)
        text = re.search(r' c"((?:[^"\\]|\\[0-9A-F]{2})*)"', str(symbol))
        if name and text:
            data = re.sub(r"\\([0-9A-F]{2})", lambda byte: chr(int(byte[1], 16)), text[1]).encode("latin-1")
            kind, arguments, _ = pickle.loads(data)
            if kind is not None:
                message = str(kind(*arguments))
                code = int.from_bytes(bytes.fromhex(name[1])[:4], "little", signed=True) | 1
                reasons[code] = f"{kind.__name__}: {message}" if message else kind.__name__
    return reasons


def _libraries(results: Collection[Any]) -> Iterator[Any]:
    """Yield the libraries of the compile results and of all code that they call, each once."""
    seen, waiting = set(), [result.library for result in results]
    while waiting:
        library = waiting.pop()
        if id(library) not in seen:
            seen.add(id(library))
            waiting.extend(library._linking_libraries)
            yield library


def _linked(results: Collection[Any], machine: Any) -> tuple[Any, dict[int, str]]:
    """Return an optimized LLVM module, and the exceptions it may raise.

    It has a C entry point `hook_<i>` for the i-th compile result and no other entry point.
    """
    import llvmlite.binding as llvm
    from llvmlite import ir
    from numba.core.registry import cpu_target

    context = cpu_target.target_context
    entries = ir.Module("hooks")
    entries.triple, entries.data_layout = machine.triple, str(machine.target_data)
    pointer, status = ir.PointerType(ir.IntType(8)), ir.IntType(32)
    for i, result in enumerate(results):
        types = result.signature.args
        entry = ir.Function(entries, ir.FunctionType(status, [pointer] * len(types)), f"hook_{i}")
        builder = ir.IRBuilder(entry.append_basic_block())
        arguments = [
            builder.bitcast(argument, context.get_argument_type(kind))
            for argument, kind in zip(entry.args, types, strict=True)
        ]
        callee = context.declare_function(entries, result.fndesc)
        returned, _ = context.call_conv.call_function(builder, callee, result.signature.return_type, types, arguments)
        with builder.if_then(builder.or_(returned.is_ok, returned.is_none), likely=True):
            builder.ret(status(0))
        digest = builder.load(builder.gep(returned.excinfoptr, [status(0), status(2)]))  # digest of the exception
        code = builder.load(builder.bitcast(digest, status.as_pointer()), align=1)
        builder.ret(builder.or_(code, status(1)))
    module = llvm.parse_assembly(str(entries))
    for library in _libraries(results):
        module.link_in(library._final_module, preserve=True)
    for symbol in (*module.functions, *module.global_variables):
        if not symbol.is_declaration and not symbol.name.startswith("hook_"):
            symbol.linkage = "internal"
    reasons = _reasons(module)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes = builder.getModulePassManager()
    passes.add_strip_dead_prototype_pass()
    passes.run(module, builder)
    return module, reasons


def _missing(module: Any) -> list[str]:
    """Return the symbols that are missing in a process without Numba: those of the interpreter and the allocator."""
    import llvmlite.binding as llvm

    names = [symbol.name for symbol in (*module.functions, *module.global_variables) if symbol.is_declaration]
    return [
        name
        for name in names
        if not name.startswith("llvm.") and (_RUNTIME.match(name) or llvm.address_of_symbol(name) is None)
    ]


_INTERPRETED = ("print", "input", "breakpoint")


@functools.lru_cache(4096)
def _names_of_python(code: CodeType) -> tuple[tuple[str, int], ...]:
    """Return the names of a code object that need the interpreter, such as `print` or `import x`, and their lines."""
    line, uses = code.co_firstlineno, []
    for step in instructions(code):
        line = step.positions.lineno or line if step.positions else line
        if step.opname == "LOAD_GLOBAL" and step.argval in _INTERPRETED:
            uses.append((step.argval, line))
        if step.opname == "IMPORT_NAME":
            uses.append((f"import {step.argval}", line))
    return tuple(uses)


def _use_of_python(function: FunctionType, seen: set[int]) -> str | None:
    """Return the place at which a function, or one that it reaches, needs the interpreter: `print (rcp.py:31)`."""
    seen.add(id(function))
    for name, line in _names_of_python(function.__code__):
        if name not in function.__globals__:
            return f"{name} ({Path(function.__code__.co_filename).name}:{line})"
    for value in map(python_function, reach(function).values()):
        if is_plain(value) and id(value) not in seen:
            if use := _use_of_python(value, seen):
                return use
    return None


def _object_code(
    hooks: Mapping[str, FunctionType],
    layouts: Mapping[str, np.dtype[Any]],
    writable: Mapping[str, Collection[str]],
    unreadable: Mapping[str, Mapping[str, str]],
) -> bytes:
    """Return a line with the exceptions, then an object file with a C entry point `hook_<i>` for the i-th hook."""
    import numba
    from numba.core.compiler_lock import global_compiler_lock

    from ecc.jit.read_only import read_only

    records = {name: numba.from_dtype(layout) for name, layout in layouts.items()}
    records["params"] = read_only(records["params"])
    machine = _target_machine()
    with global_compiler_lock:
        results = [
            _compile_one(name, hook, records, writable.get(name), unreadable.get(name, {}))
            for name, hook in hooks.items()
        ]
        module, reasons = _linked(results, machine)
        if _missing(module):
            for (name, hook), result in zip(hooks.items(), results, strict=True):
                if missing := _missing(_linked([result], machine)[0]):
                    raise TypeError(f"hook {name}, {where(hook)}: {_UNSUPPORTED.format(missing[0])}")
        code = machine.emit_object(module)
    assert isinstance(code, bytes)
    return json.dumps(reasons).encode() + b"\n" + code


@functools.cache
def report_compiling() -> None:
    """Report once per process on standard error, if it is a terminal, that the first seconds are spent on compiling."""
    if sys.stderr is not None and sys.stderr.isatty():
        folder = next(folders(), "memory")
        print(f"ecc: compiling for this processor, for some seconds; kept in {folder} for next time", file=sys.stderr)


@functools.lru_cache(1024)
def _layout_text(layout: np.dtype[Any]) -> str:
    return repr([(name, str(kind), offset) for name, (kind, offset, *_) in (layout.fields or {}).items()])


class CompiledHooks(Mapping[str, int]):
    """The addresses of compiled hooks by name; the code lives as long as this object does.

    `reasons`: return code of a hook -> text of the exception that Python would have raised. `source`: digest of all
    Python code and constants that the hooks reach.
    """

    def __init__(self, names: Collection[str], stored: bytes, source: str) -> None:
        import llvmlite.binding as llvm

        self.source = source
        reasons, _, code = stored.partition(b"\n")
        self.reasons = {int(number): text for number, text in json.loads(reasons).items()}
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self._addresses = {name: int(self._engine.get_function_address(f"hook_{i}")) for i, name in enumerate(names)}

    def __getitem__(self, name: str) -> int:
        return self._addresses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    def __repr__(self) -> str:
        return f"CompiledHooks({', '.join(self)})"


def _checked(name: str, hook: Hook) -> FunctionType:
    if not isinstance(hook, FunctionType):
        raise TypeError(f"hook {name} must be a plain function, got a {type(hook).__name__}")
    if hook.__name__ == "<lambda>":
        raise TypeError(f"hook {name}, {where(hook)}: must be a function with a name, got a lambda")
    code = hook.__code__
    if code.co_argcount != len(RECORDS) or code.co_kwonlyargcount or code.co_flags & inspect.CO_VARARGS:
        parameters = ", ".join(inspect.signature(hook).parameters)
        raise TypeError(f"hook {name}, {where(hook)}: must take ({', '.join(RECORDS)}), got ({parameters})")
    return hook


def compile_hooks(
    hooks: Mapping[str, Hook],
    state: np.dtype[Any],
    header: np.dtype[Any],
    params: np.dtype[Any],
    env: np.dtype[Any],
    writable: Mapping[str, Collection[str]] | None = None,
    unreadable: Mapping[str, Mapping[str, str]] | None = None,
) -> CompiledHooks:
    """Return the C function pointers of hooks over these records.

    Parameters
    ----------
    hooks : mapping
        Name -> plain function `hook(state, header, params, env)` in the language of hooks: numbers, the fields of the
        records, and functions of the same kind that it reaches through its globals.
    state, header, params, env : dtype[object]
        Structured dtypes of float64 and int64 fields, or arrays of these of fixed length; offsets are kept. An index
        outside an array raises IndexError.
    writable : mapping, optional
        Hook -> the fields of `env` that it may write; a hook that is missing here may write all fields.
    unreadable : mapping, optional
        Hook -> fields of `env` that it never has -> reason, for the error message.

    Returns
    -------
    hooks : CompiledHooks
        Mapping of the same names to addresses (int) of `int32_t hook(void *state, void *header, void *params, void
        *env)`, which returns 0 on success, else the code of an exception in `hooks.reasons`. Keep this object as long
        as the addresses are in use.

    Raises
    ------
    TypeError
        A hook cannot be compiled; the message has its name, file, line and the cause. A record field is neither float64
        nor int64.

    Notes
    -----
    The first call takes about 0.1 s per hook. A later process reads the object file from the cache directory
    (`ECC_CACHE_DIR`, default: the user's) in milliseconds and does not import Numba.

    Examples
    --------
    `compile_hooks({"on_drop": count_drop}, state, header, params, env)["on_drop"]`
    """
    functions = {name: _checked(name, hook) for name, hook in hooks.items()}
    arguments = (*functions.items(), state, header, params, env, repr(writable), repr(unreadable))
    snapshot, key = _keys.get(arguments, (None, ""))
    if snapshot is not None and key in _loaded and snapshot.is_current():
        return _loaded[key]
    layouts = dict(zip(RECORDS, (state, header, params, env), strict=True))
    for record, layout in layouts.items():
        for field, (kind, *_) in (layout.fields or {}).items():
            if kind.base not in (np.float64, np.int64):
                raise TypeError(f"field {field} of {record} must be float64 or int64, got {kind}")
    texts = []
    for name, function in functions.items():
        if use := _use_of_python(function, set()):
            raise TypeError(
                f"hook {name}, {where(function)}: {use} needs Python, and hooks are compiled; to run hooks as Python, "
                "use ecc.packet.simulate(..., engine='python') or ecc simulate --python"
            )
        try:
            texts.append(f"{name}: {text_of(function, {})}")
        except TypeError as error:
            raise TypeError(f"hook {name}, {where(function)}: {error}") from None
    with lock:
        allowed, forbidden = dict(writable or {}), {name: dict(fields) for name, fields in (unreadable or {}).items()}
        layout_texts = repr(list(map(_layout_text, layouts.values())))
        key = digest_of_texts(surroundings(), layout_texts, repr(allowed), repr(forbidden), *texts)
        if key not in _loaded:
            code = kept(key)
            if code is None:
                report_compiling()
                code = _object_code(functions, layouts, allowed, forbidden)
                keep(key, code)
            _loaded[key] = CompiledHooks(functions, code, digest_of_texts(*texts))
        if len(_keys) >= _MAX_KEYS:
            _keys.clear()
        _keys[arguments] = Snapshot(functions.values()), key
        return _loaded[key]
