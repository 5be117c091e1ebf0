"""The one line of Spark's trace that gives the cause: the whole is 150 lines of Java and Python."""

from __future__ import annotations

import re


def root_cause(text: str) -> str:
    """Return the line of a trace that gives the cause.

    Of Python on an executor, that is the last line of its last traceback; of Java the last "Caused by"; else the first
    line.
    """
    if (python_cause := _last_error_of_python(text)) is not None:
        return python_cause[:2000]
    causes = re.findall(r"Caused by: (?:[\w.$]+: )?(.+)", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return str(causes[-1] if causes else lines[0] if lines else "no reason was given")[:2000]


def _last_error_of_python(text: str) -> str | None:
    """Return the error below the frames of a text's last traceback; None if there is no traceback."""
    _, heading, trace = text.rpartition("Traceback (most recent call last):")
    if not heading:
        return None
    # Frames are indented; Java's own trace follows after a blank line, or begins with a tab.
    error_lines = (line for line in trace.splitlines() if line.strip() and not line[0].isspace())
    return next(error_lines, None)
