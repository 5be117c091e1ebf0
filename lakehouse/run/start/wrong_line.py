"""The place of a wrong declaration: the file and line of the user's own code, with the line itself."""

from __future__ import annotations

import inspect
import re
import traceback

from lakehouse.errors import LakehouseError
from lakehouse.plan import aggregate_functions as aggregates
from lakehouse.plan import build, windows
from lakehouse.plan.refused.near import suggest_near
from lakehouse.plan.refused.place import Place, is_user_file, message_with_place
from lakehouse.plan.rows import Rows, View
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Aggregated, Changes, Grouped, Table

KEYWORD = re.compile(r"(?:(\w+)\.)?(\w+)\(\) got an unexpected keyword argument '(\w+)'")
MODULES = (build, windows, aggregates)
STEPS = {kind.__name__: kind for kind in (Stream, Grouped, Aggregated, Table, Changes, Rows, View)}


def error_place(error: BaseException) -> Place | None:
    """Return the innermost file and line of the user's code that an error comes from; None if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 1
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return next(((file, line) for file, line in reversed(lines) if is_user_file(file)), None)


def located_message(error: BaseException) -> str:
    """Return an error of an application's file as a message: app.py:3: the error, and the line below it."""
    description = f"{error}{_suggest_keyword(error)}" if isinstance(error, LakehouseError) else _describe_error(error)
    return message_with_place(description, error_place(error))


def _describe_error(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return (
            f"the file ends the process, sys.exit({error.code!r}), before it has declared an application. Expected "
            'declarations alone: put what a script does below if __name__ == "__main__":'
        )
    error_text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {error_text}{_suggest_keyword(error)}"


def _suggest_keyword(error: BaseException) -> str:
    """Suggest the nearest name for a parameter that a function of lakehouse does not have."""
    if not isinstance(error, TypeError) or (match := KEYWORD.search(str(error))) is None:
        return ""
    owner, function, keyword = match.groups()
    functions = [getattr(holder, function, None) for holder in ([STEPS[owner]] if owner in STEPS else MODULES)]
    if not any(functions):
        return ""
    all_names = [
        name
        for name, parameter in inspect.signature(next(filter(None, functions))).parameters.items()
        if parameter.kind != parameter.VAR_KEYWORD
    ]
    parameter_names = [name for name in all_names if name != "self"]
    return f".{suggest_near(keyword, parameter_names)} There are: {', '.join(parameter_names)}."
