"""Python functions in a declaration: a digest that changes when the function's behaviour may change.

The digest covers the function's own source, its defaults, the values in its closure, and the functions and constants of
its own file that it uses; not comments, formatting, the function's name or the version of Python. It does not follow
imports from elsewhere.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import linecache
import re
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

DIGITS = 8
PLAIN = (str, bytes, int, float, bool, type(None), tuple, list, dict, set, frozenset)
ADDRESS = re.compile(r" at 0x[0-9a-f]+")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def function_digest(function: Callable[..., Any]) -> str:
    """Return a short digest of a function; the full name of a function that is not written in Python."""
    return _digest_function(function, [])


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
    return _value_as_text(value, [])


def _digest_function(function: Any, outer_functions: list[Any]) -> str:
    if isinstance(function, functools.partial):
        bound_values = [function.func, function.args, function.keywords]
        return _hash_parts([_value_as_text(bound_value, outer_functions) for bound_value in bound_values])
    if any(bound_value is function for bound_value in outer_functions):
        return f"helper {outer_functions.index(function)}"  # it calls itself, or two of its helpers call a third one
    outer_functions.append(function)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return _digest_callable(function, outer_functions)
    bound_values = [getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)]
    bound_values += [_cell_content(cell) for cell in getattr(function, "__closure__", None) or ()]
    used_globals = sorted(_used_globals(function, code).items())
    return _hash_parts(
        [
            _function_source(code) or _byte_code_text(code),
            _value_as_text(bound_values, outer_functions),
            _value_as_text(used_globals, outer_functions),
        ]
    )


def _digest_callable(function: Any, outer_functions: list[Any]) -> str:
    """Return a callable object as its class and attributes; a class, or a function in C, as its name."""
    call_method: Any = type(function).__call__
    if not isinstance(function, type) and hasattr(call_method, "__code__"):
        return _hash_parts(
            [
                _digest_function(call_method, outer_functions),
                _value_as_text(getattr(function, "__dict__", {}), outer_functions),
            ]
        )
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _hash_parts(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]


def _value_as_text(value: Any, outer_functions: list[Any]) -> str:
    if isinstance(value, set | frozenset):  # the order of sets differs between processes
        return f"set({', '.join(sorted(_value_as_text(item, outer_functions) for item in value))})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value_as_text(item, outer_functions) for item in value)}]"
    if isinstance(value, dict):
        pairs = sorted(
            f"{_value_as_text(key, outer_functions)}: {_value_as_text(item, outer_functions)}"
            for key, item in value.items()
        )
        return f"{{{', '.join(pairs)}}}"
    return f"#{_digest_function(value, outer_functions)}" if callable(value) else ADDRESS.sub("", repr(value))


def _cell_content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not filled yet


def _used_globals(function: Any, code: CodeType) -> dict[str, Any]:
    """Return the functions and constants of its own file that a function reads by name."""
    own_globals = getattr(function, "__globals__", {})
    globals_by_name = {name: own_globals[name] for name in _code_names(code) if name in own_globals}
    return {
        name: value
        for name, value in globals_by_name.items()
        if isinstance(value, PLAIN) or getattr(getattr(value, "__code__", None), "co_filename", "") == code.co_filename
    }


def _code_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_names(constant)


def _function_source(code: CodeType) -> str | None:
    """Return the function's own source in a normal form; None if it can't be located, or is ambiguous."""
    linecache.checkcache(code.co_filename)
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
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
        _byte_code_text(constant) if isinstance(constant, CodeType) else _value_as_text(constant, [])
        for constant in code.co_consts
    ]
    return repr((sys.version_info[:2], code.co_code, constant_texts, code.co_names))
