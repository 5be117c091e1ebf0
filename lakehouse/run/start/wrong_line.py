"""Where a wrong declaration is: the file and line of the user's own code, with the line itself."""

from __future__ import annotations

import inspect
import re
import traceback

from lakehouse.errors import LakehouseError
from lakehouse.plan import aggregates, build, windows
from lakehouse.plan.refused.near import near
from lakehouse.plan.refused.place import Place, is_users, placed
from lakehouse.plan.rows import Rows, View
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Aggregated, Changes, Grouped, Table

KEYWORD = re.compile(r"(?:(\w+)\.)?(\w+)\(\) got an unexpected keyword argument '(\w+)'")
MODULES = (build, windows, aggregates)
STEPS = {kind.__name__: kind for kind in (Stream, Grouped, Aggregated, Table, Changes, Rows, View)}


def place(error: BaseException) -> Place | None:
    """Return the file and line of the user's code, the innermost, where an error comes from; None if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 1
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return next(((file, line) for file, line in reversed(lines) if is_users(file)), None)


def message(error: BaseException) -> str:
    """Return an error of an application's file as a message: app.py:3: what is wrong, and the line below it."""
    what = f"{error}{_keyword(error)}" if isinstance(error, LakehouseError) else _named(error)
    return placed(what, place(error))


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
