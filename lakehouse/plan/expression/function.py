"""Python functions in a declaration: a digest that changes when the function's behaviour may change.

The digest covers the function's own source as it was loaded, its defaults, the values in its closure, and what it uses
of its own file: functions, classes, and values of any type, by what they hold. Comments, formatting, the names of the
function and of its file, loggers and the version of Python do not count. Anything from another file counts by its name:
the digest does not follow imports. A decorator from another file counts by its name, with the functions of the own file
that it was given. The order of a dict counts, as a function may follow it; that of a set and of attributes does not.
"""

from __future__ import annotations

import ast
import copyreg
import dataclasses
import dis
import enum
import functools
import hashlib
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from lakehouse.plan.expression.source import parse_source
from lakehouse.plan.spark_functions.record import word_set

DIGITS = 8
_CACHED = type(functools.cache(len))
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# Attributes that Python itself puts into a class, or that do not change the behaviour of its instances.
CLASS_NOISE = word_set(
    """
    __module__ __qualname__ __doc__ __dict__ __weakref__ __annotations__ __firstlineno__ __static_attributes__
    __dataclass_fields__ __dataclass_params__ __match_args__ __abstractmethods__ _abc_impl __orig_bases__
    """
)


class _PlainEnum(enum.Enum):
    MEMBER = 1


class _PlainFlag(enum.Flag):
    MEMBER = 1


ENUM_NOISE = frozenset(vars(_PlainEnum)) | frozenset(vars(_PlainFlag))
ENUM_FILE = enum.Enum.__new__.__code__.co_filename
OWN_FILE = "<own file>"  # instead of its module's name, which `python app.py` and `--app app.py` give another
# The flags of a class that a statement has made: it is on the heap, and may be changed.
HEAP_TYPE, IMMUTABLE_TYPE = 1 << 9, 1 << 8

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def function_digest(function: Callable[..., Any]) -> str:
    """Return a short digest of a function; the full name of a function that is not written in Python."""
    return _Reader().digest(function)


def function_text(function: Callable[..., Any]) -> str:
    """Return a function's name and digest, so that a plan shows a changed function."""
    digest_text = function_digest(function)
    # A function that is not written in Python has a name instead.
    return (
        digest_text
        if "." in digest_text
        else f"{getattr(function, '__qualname__', type(function).__name__)}#{digest_text}"
    )


def value_text(value: Any) -> str:
    """Return a value as text, the same in every process; a function is its digest."""
    return _Reader().text(value, "")


class _Reader:
    """A reader of functions and values, which knows what it is reading: functions and objects may refer to each other.

    module: the name of the file in which a value was met. A class of that file counts by what it says, others by name.
    """

    def __init__(self) -> None:
        self._functions: list[Any] = []
        self._outer_objects: list[Any] = []

    def digest(self, function: Any, module: str = "") -> str:
        """Return the digest of a function. module: that in which a partial one was met; its function's if unknown."""
        if isinstance(function, functools.partial):
            module = module or _module_of_partial(function)
            bound_values = [function.func, function.args, function.keywords]
            return _hash_parts([self.text(bound_value, module) for bound_value in bound_values])
        if isinstance(function, MethodType):
            method_module = getattr(function.__func__, "__globals__", {}).get("__name__", "")
            return _hash_parts([self.digest(function.__func__), self.text(function.__self__, method_module)])
        if any(known_function is function for known_function in self._functions):
            return f"helper {self._functions.index(function)}"  # it calls itself, or two helpers call a third one
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType):
            return self._callable_digest(function, module)
        self._functions.append(function)
        own_globals = getattr(function, "__globals__", {})
        bound_values = [
            getattr(function, "__defaults__", None),
            _sort_attributes(getattr(function, "__kwdefaults__", None)),
        ]
        bound_values += [_cell_content(cell) for cell in getattr(function, "__closure__", None) or ()]
        bound_values += [attributes] if (attributes := _sort_attributes(getattr(function, "__dict__", None))) else []
        module = own_globals.get("__name__", "")
        used_globals = {
            name: self._global_text(own_globals[name], module, code)
            for name in sorted({*_global_names(code)})
            if name in own_globals and not (name.startswith("__") and name.endswith("__"))
        }
        return _hash_parts(
            [_function_source(code) or _byte_code_text(code), self.text(bound_values, module), repr(used_globals)]
        )

    def _global_text(self, value: Any, module: str, code: CodeType) -> str:
        """Return what a function uses of its file as text; a function that the file imports is its name."""
        value_code = getattr(value, "__code__", None)
        if isinstance(value_code, CodeType) and value_code.co_filename != code.co_filename:
            wrapped_texts = self._wrapped_texts(value, module, code.co_filename)
            if not wrapped_texts:
                return _qualified_name(value, module)
            return f"{value_code.co_qualname} {' '.join(wrapped_texts)}"
        return self.text(value, module)

    def _wrapped_texts(self, wrapper: Any, module: str, file_name: str) -> list[str]:
        """Return what a decorator of another file holds, if it holds a function of this one; else nothing.

        Numbers and texts are its options. Other objects may be its caches, which change from call to call.
        """
        functions: list[Any] = []
        options: list[str] = []
        known, todo = [wrapper], [wrapper]
        while todo:
            outer = todo.pop()
            cells = zip(outer.__code__.co_freevars, outer.__closure__ or (), strict=True)
            held = {name: _cell_content(cell) for name, cell in cells} | vars(outer)
            for name, item in sorted(held.items()):
                is_option = item is None or type(item) in (str, bytes, int, float, bool)
                if is_option and name not in functools.WRAPPER_ASSIGNMENTS:
                    options.append(f"{name}={item!r}")
                # A registry has functions by their arguments' types.
                for inner in item.values() if isinstance(item, Mapping) else (item,):
                    if not isinstance(inner, FunctionType) or any(inner is one for one in known):
                        continue
                    known.append(inner)
                    (functions if inner.__code__.co_filename == file_name else todo).append(inner)
        return [*options, *sorted(self.text(function, module) for function in functions)] if functions else []

    def _callable_digest(self, function: Any, module: str) -> str:
        """Return a callable object by its class and what it holds; a class that is given is read as a function is.

        One of C, or of Python's own modules, counts by its name; so does a function in C.
        """
        if isinstance(function, _CACHED):
            return self.digest(function.__wrapped__)
        owner = getattr(function, "__self__", None)
        if isinstance(function, type) and _is_written_in_python(function):
            return _hash_parts([self._class_text(function, function.__module__)])
        if isinstance(function, type) or (
            isinstance(function, BuiltinFunctionType) and (owner is None or isinstance(owner, ModuleType))
        ):
            return _qualified_name(function, "")
        reduced = _reduce(function)
        if isinstance(reduced, str):
            return f"{_module_text(function, module)}.{reduced}"
        return _hash_parts([self._object_text(function, type(function).__module__)])

    def text(self, value: Any, module: str) -> str:
        if type(value) in (set, frozenset):  # the order of sets differs between processes
            return f"set({', '.join(sorted(self.text(item, module) for item in value))})"
        if type(value) in (list, tuple):
            items_text = ", ".join(self.text(item, module) for item in value)
            return f"[{items_text}]" if type(value) is list else f"({items_text})"
        if type(value) is dict:  # in its own order, which a function may follow
            pairs = [f"{self.text(key, module)}: {self.text(item, module)}" for key, item in value.items()]
            return f"{{{', '.join(pairs)}}}"
        if value is None or type(value) in (str, bytes, int, float, bool):
            return repr(value)
        if isinstance(value, ModuleType):
            return f"module {OWN_FILE if value.__name__ == module else value.__name__}"
        if isinstance(value, type):
            return self._class_text(value, module)
        if isinstance(value, MappingProxyType):
            return f"read only {self.text(dict(value), module)}"
        if isinstance(value, (logging.Logger, logging.LoggerAdapter)):
            return "logger"  # it changes no value, and mostly has its module's name
        return f"#{self.digest(value, module)}" if callable(value) else self._object_text(value, module)

    def _object_text(self, value: Any, module: str) -> str:
        """Return an object as the parts of which pickle would make it again; as its repr if pickle can't."""
        if any(outer_object is value for outer_object in self._outer_objects):
            return f"outer {len(self._outer_objects)}"
        self._outer_objects.append(value)
        try:
            reduced = _reduce(value)
            if reduced is None or isinstance(reduced, str):
                return f"{self._class_text(type(value), module)} {reduced or ADDRESS.sub('', repr(value))}"
            maker, arguments, *rest = reduced
            state, items, pairs, *_ = (*rest, None, None, None)
            if isinstance(state, dict):  # an object around a function may have its name and its docstring
                state = {name: item for name, item in state.items() if name not in functools.WRAPPER_ASSIGNMENTS}
            if not hasattr(value, "__setstate__"):  # it is the attributes, with those of __slots__ in a second dict
                state = tuple(map(_sort_attributes, state)) if isinstance(state, tuple) else _sort_attributes(state)
            if isinstance(arguments, tuple):
                arguments = tuple(OWN_FILE if _is_name(argument, module) else argument for argument in arguments)
            maker_text = self._class_text(maker, module) if isinstance(maker, type) else _qualified_name(maker, module)
            return f"{maker_text} {self.text([arguments, state, list(items or ()), list(pairs or ())], module)}"
        finally:
            self._outer_objects.pop()

    def _class_text(self, value: type, module: str) -> str:
        """Return a class of the file with what it says; another class by its name."""
        if value.__module__ != module:
            return _qualified_name(value, module)
        if any(outer_object is value for outer_object in self._outer_objects):
            return "outer class"
        self._outer_objects.append(value)
        try:
            base_texts = [self._class_text(base, module) for base in value.__bases__]
            if issubclass(value, enum.Enum):
                members = [(name, member.value) for name, member in value.__members__.items()]
                return f"class {base_texts} {self.text([members, _enum_attributes(value)], module)}"
            return f"class {base_texts} {self.text(_class_attributes(value), module)}"
        finally:
            self._outer_objects.pop()


def _class_attributes(value: type) -> dict[str, Any]:
    """Return what a class says, without the functions that a dataclass makes of its fields."""
    is_dataclass = "__dataclass_fields__" in vars(value)
    attributes: dict[str, Any] = _dataclass_attributes(value) if is_dataclass else {}
    for name, attribute in vars(value).items():
        if isinstance(attribute, property):
            attribute = [attribute.fget, attribute.fset]
        code = getattr(attribute, "__code__", None)
        is_generated = is_dataclass and isinstance(code, CodeType) and code.co_filename == "<string>"
        if name not in CLASS_NOISE and not is_generated:
            attributes[name] = getattr(attribute, "__func__", attribute)
    sorted_attributes: dict[str, Any] = _sort_attributes(attributes)
    return sorted_attributes


def _enum_attributes(value: type[enum.Enum]) -> dict[str, Any]:
    """Return what an enum says beside its members, without what Python puts into every enum."""
    attributes = {
        name: attribute
        for name, attribute in _class_attributes(value).items()
        if name not in value.__members__
        and (
            name not in ENUM_NOISE
            if (code := getattr(attribute, "__code__", None)) is None
            else code.co_filename != ENUM_FILE
        )
    }
    boundary = getattr(value, "_boundary_", None)
    return attributes | ({} if boundary is None else {"boundary of the flags": boundary.name})


def _sort_attributes(attributes: Any) -> Any:
    """Return attributes by their names; anything else as it is."""
    if type(attributes) is not dict:
        return attributes
    return dict(sorted(attributes.items(), key=lambda attribute: str(attribute[0])))


def _dataclass_attributes(value: Any) -> dict[str, Any]:
    """Return what a dataclass says of its fields, and of the functions that it makes of them."""
    fields = {
        field.name: [
            field.init, field.compare, field.hash, field.kw_only,
            None if field.default_factory is dataclasses.MISSING else field.default_factory,
        ]
        for field in value.__dataclass_fields__.values()
    }  # fmt: skip
    params = value.__dataclass_params__
    return {
        "fields of the dataclass": fields,
        "options of the dataclass": [params.init, params.eq, params.order, params.unsafe_hash, params.frozen],
    }


def _reduce(value: Any) -> str | tuple[Any, ...] | None:
    """Return the parts of which pickle would make an object; None if it can't."""
    try:
        reducer = copyreg.dispatch_table.get(type(value))
        parts: str | tuple[Any, ...] = reducer(value) if reducer else value.__reduce_ex__(4)
        return parts
    except Exception:  # whatever a class raises: it has no such form
        return None


def _qualified_name(value: Any, module: str) -> str:
    """Return the full name of a function or a class; `module`, that of the file being read, has no name in it."""
    return f"{_module_text(value, module)}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _module_text(value: Any, module: str) -> str:
    value_module = getattr(value, "__module__", "")
    return OWN_FILE if value_module == module != "" else str(value_module)


def _is_name(argument: Any, module: str) -> bool:
    return type(argument) is str and argument == module != ""


def _module_of_partial(function: functools.partial[Any]) -> str:
    """Return the name of the module of the innermost function of partial ones."""
    innermost: Any = function
    while isinstance(innermost, functools.partial):
        innermost = innermost.func
    named = innermost if isinstance(innermost, FunctionType | MethodType | type) else type(innermost)
    return str(getattr(named, "__module__", ""))


def _is_written_in_python(value: type) -> bool:
    """Say whether a class was made by a statement, not in C, and not by a module of Python's own."""
    is_of_statement = value.__flags__ & (HEAP_TYPE | IMMUTABLE_TYPE) == HEAP_TYPE
    return is_of_statement and value.__module__.partition(".")[0] not in sys.stdlib_module_names


def _hash_parts(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]


def _cell_content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not filled yet


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the names that a function and the functions in it read from its file; an attribute's name is none."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _function_source(code: CodeType) -> str | None:
    """Return the function's own source, as loaded, in a normal form; None if it can't be located, or is ambiguous."""
    if (tree := parse_source(code)) is None:
        return None
    sources = {
        _unparse_function(node)
        for node in ast.walk(tree)
        if isinstance(node, FunctionNode) and _matches_code(node, code)
    }
    return sources.pop() if len(sources) == 1 else None


def _matches_code(node: FunctionNode, code: CodeType) -> bool:
    first_line = min([node.lineno, *(argument.lineno for argument in getattr(node, "decorator_list", []))])
    name = getattr(node, "name", "<lambda>")
    argument_names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    return (first_line, name, tuple(argument_names)) == (
        code.co_firstlineno,
        code.co_name,
        code.co_varnames[: code.co_argcount],
    )


def _unparse_function(node: FunctionNode) -> str:
    """Return a function as a lambda or as statements, without its name, docstring and decorators."""
    if isinstance(node, ast.Lambda):
        return ast.unparse(node)
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return "\n".join([ast.unparse(node.args), *map(ast.unparse, body)])


def _byte_code_text(code: CodeType) -> str:
    """Return the byte code of a function without source (typed in, made by exec); Python versions differ in it."""
    constant_texts = [
        _byte_code_text(constant) if isinstance(constant, CodeType) else value_text(constant)
        for constant in code.co_consts
    ]
    return repr((sys.version_info[:2], code.co_code, constant_texts, code.co_names))
