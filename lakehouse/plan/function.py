"""Python functions in a declaration: a digest of what they do, which changes when the function does.

The digest covers the function's own source, its defaults, the values that it closes over, and the functions and
constants of its own file that it uses; not comments, formatting, the function's name or the version of Python. Imports
from elsewhere are not followed.
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


def digest(function: Callable[..., Any]) -> str:
    """Return a short digest of a function; for one that is not written in Python, its full name."""
    return _digest(function, [])


def function_text(function: Callable[..., Any]) -> str:
    """Return a function's name and a digest of what it does, so that a plan can tell a changed function."""
    found = digest(function)
    # A function that is not written in Python has a name instead.
    return found if "." in found else f"{getattr(function, '__qualname__', type(function).__name__)}#{found}"


def value_text(value: Any) -> str:
    """Return a value as text that is the same in every process; a function is given as its digest."""
    return _text(value, [])


def _digest(function: Any, within: list[Any]) -> str:
    if isinstance(function, functools.partial):
        bound = [function.func, function.args, function.keywords]
        return _hashed([_text(item, within) for item in bound])
    if any(item is function for item in within):
        return f"helper {within.index(function)}"  # it calls itself, or two of its helpers call a third
    within.append(function)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return _no_function(function, within)
    bound = [getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)]
    bound += [_cell(cell) for cell in getattr(function, "__closure__", None) or ()]
    used = sorted(_used(function, code).items())
    return _hashed([_source(code) or _bytes(code), _text(bound, within), _text(used, within)])


def _no_function(function: Any, within: list[Any]) -> str:
    """A callable object, by its class and its attributes; a class, or a function in C, by its name."""
    call: Any = type(function).__call__
    if not isinstance(function, type) and hasattr(call, "__code__"):
        return _hashed([_digest(call, within), _text(getattr(function, "__dict__", {}), within)])
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _hashed(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]


def _text(value: Any, within: list[Any]) -> str:
    if isinstance(value, set | frozenset):  # their order changes from process to process
        return f"set({', '.join(sorted(_text(item, within) for item in value))})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_text(item, within) for item in value)}]"
    if isinstance(value, dict):
        pairs = sorted(f"{_text(key, within)}: {_text(item, within)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    return f"#{_digest(value, within)}" if callable(value) else ADDRESS.sub("", repr(value))


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not filled yet


def _used(function: Any, code: CodeType) -> dict[str, Any]:
    """The functions and constants of its own file that a function reads by name."""
    known = getattr(function, "__globals__", {})
    found = {name: known[name] for name in _names(code) if name in known}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, PLAIN) or getattr(getattr(value, "__code__", None), "co_filename", "") == code.co_filename
    }


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _source(code: CodeType) -> str | None:
    """The function's own source in one form; None if it can't be located, or not told from another function's."""
    linecache.checkcache(code.co_filename)
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return None
    found = {_plain(node) for node in ast.walk(tree) if isinstance(node, FunctionNode) and _is(node, code)}
    return found.pop() if len(found) == 1 else None


def _is(node: FunctionNode, code: CodeType) -> bool:
    first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))])
    name = getattr(node, "name", "<lambda>")
    arguments = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
    return (first, name, tuple(arguments)) == (
        code.co_firstlineno, code.co_name, code.co_varnames[: code.co_argcount],
    )  # fmt: skip


def _plain(node: FunctionNode) -> str:
    """A function as a lambda or as statements, without its name, docstring and decorators."""
    if isinstance(node, ast.Lambda):
        return ast.unparse(node)
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return "\n".join([ast.unparse(node.args), *map(ast.unparse, body)])


def _bytes(code: CodeType) -> str:
    """A function without source (typed in, made by exec) as its byte code, which each Python compiles differently."""
    inner = [_bytes(item) if isinstance(item, CodeType) else _text(item, []) for item in code.co_consts]
    return repr((sys.version_info[:2], code.co_code, inner, code.co_names))
