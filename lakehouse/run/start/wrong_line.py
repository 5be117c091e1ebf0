"""Where a wrong declaration is: the file and line of the user's own code, with the line itself."""

from __future__ import annotations

import inspect
import linecache
import re
import sysconfig
import traceback
from pathlib import Path

from lakehouse.errors import LakehouseError
from lakehouse.plan import aggregates, build, windows
from lakehouse.plan.refused.near import near
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Aggregated, Changes, Grouped, Table

OURS = Path(__file__).resolve().parents[2]
OTHERS = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib"))
KEYWORD = re.compile(r"(?:(\w+)\.)?(\w+)\(\) got an unexpected keyword argument '(\w+)'")
MODULES = (build, windows, aggregates)
STEPS = {kind.__name__: kind for kind in (Stream, Grouped, Aggregated, Table, Changes)}


def place(error: BaseException) -> tuple[str, int] | None:
    """Return the file and line of the user's code, the innermost, where an error comes from; None if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 1
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return next(((file, line) for file, line in reversed(lines) if _is_users(file)), None)


def message(error: BaseException) -> str:
    """Return an error of an application's file as a message: app.py:3: what is wrong, and the line below it."""
    what = f"{error}{_keyword(error)}" if isinstance(error, LakehouseError) else _named(error)
    if (found := place(error)) is None:
        return what
    file, line = found
    text = linecache.getline(file, line).strip()
    return f"{_short(file)}:{line}: {what}" + (f"\n    {text}" if text else "")


def _named(error: BaseException) -> str:
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {said}{_keyword(error)}"


def _keyword(error: BaseException) -> str:
    """Return the near name of a parameter that one of lakehouse's functions does not have."""
    if not isinstance(error, TypeError) or (match := KEYWORD.search(str(error))) is None:
        return ""
    owner, function, keyword = match.groups()
    called = [getattr(there, function, None) for there in ([STEPS[owner]] if owner in STEPS else MODULES)]
    if not any(called):
        return ""
    names = [
        name
        for name, one in inspect.signature(next(filter(None, called))).parameters.items()
        if one.kind != one.VAR_KEYWORD
    ]
    named = [name for name in names if name != "self"]
    return f".{near(keyword, named)} There are: {', '.join(named)}."


def _is_users(file: str) -> bool:
    path = Path(file)
    if file.startswith("<") or not path.is_absolute():
        return not file.startswith("<")
    return not any(folder in path.resolve().parents for folder in (OURS, *OTHERS))


def _short(file: str) -> str:
    """Return a path as people name it here: relative to this folder, if it is below it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
