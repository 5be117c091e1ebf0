"""The text of the files that functions were loaded from, as it was then: a job runs on while its file is edited."""

from __future__ import annotations

import ast
import linecache
import weakref
from functools import lru_cache
from types import CodeType

# By the id of a code object, as two files may have equal code. A code object that is gone takes its entry with it.
_texts: dict[int, tuple[weakref.ref[CodeType], str]] = {}


def keep_source(code: CodeType, file_text: str) -> None:
    """Keep the text that a file's code was compiled from, for the functions in it."""
    _keep_text(code, file_text)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            keep_source(constant, file_text)


def parse_source(code: CodeType) -> ast.Module | None:
    """Return the file that a function was loaded from; None if there is none that can be read.

    A file whose text nobody kept is read at the first call for a function, and never again for that function.
    """
    if id(code) not in _texts:
        linecache.checkcache(code.co_filename)
        _keep_text(code, "".join(linecache.getlines(code.co_filename)))
    return _parse_text(_texts[id(code)][1])


def _keep_text(code: CodeType, file_text: str) -> None:
    key = id(code)
    _texts[key] = weakref.ref(code, lambda _: _texts.pop(key, None)), file_text


@lru_cache(maxsize=8)
def _parse_text(file_text: str) -> ast.Module | None:
    try:
        return ast.parse(file_text)
    except (SyntaxError, ValueError):
        return None
