"""A place in the user's own code: its file and line, and a message that begins with it."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from types import FrameType

Place = tuple[str, int | None]  # a file and its line, if known

OURS = Path(__file__).resolve().parents[2]
OTHERS = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib", "scripts"))

_file: ContextVar[str | None] = ContextVar("file", default=None)


@lru_cache(maxsize=1024)
def is_user_file(file: str) -> bool:
    """Say whether a file is the user's: not lakehouse's, the standard library's, or an installed package's."""
    path = Path(file)
    if file.startswith("<") or not path.is_absolute():
        return not file.startswith("<")
    return not any(folder in path.resolve().parents for folder in (OURS, *OTHERS))


def calling_place() -> Place | None:
    """Return the innermost line of the user's code on the stack; None if there is none.

    For a file of SQL, see `in_file`, the line is unknown: statements are compiled after all of them were read.
    """
    if (file := _file.get()) is not None:
        return file, None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


@contextmanager
def in_file(file: str) -> Iterator[None]:
    """Inside the block, let declarations have their place in a file that is not Python."""
    token = _file.set(file)
    try:
        yield
    finally:
        _file.reset(token)


def message_with_place(message: str, place: Place | None) -> str:
    """Return a message with its place before it and the source line below it: app.py:3: ..."""
    if place is None:
        return message
    file, line = place
    if line is None:
        return f"{_short_path(file)}: {message}"
    source_line = linecache.getline(file, line).strip()
    return f"{_short_path(file)}:{line}: {message}" + (f"\n    {source_line}" if source_line else "")


def _short_path(file: str) -> str:
    """Return a path relative to the current folder, if it is below that."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
