"""Answers on the terminal: a table, lines while rows come, or JSON."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING

from lakehouse.cli.look.read import ROWS_SHOWN
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.repeating import until_ctrl_c
from lakehouse.ksql.facts import Answer, Deleted

if TYPE_CHECKING:
    from lakehouse.run.sql.session import SqlSession


MARK = "tombstone"  # as ksqlDB marks the row of a delete


def run(session: SqlSession, text: str, *, as_json: bool = False) -> None:
    """Run statements, and print each answer. Raises what a statement raises."""
    for answer in session.run(text):
        print_answer(answer, as_json=as_json)


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print an answer: rows as a table, or as lines while they come; Ctrl-C ends those."""
    if as_json:
        _as_json(answer)
    elif not answer.ends:
        _lines(answer)
    elif answer.names:
        rows = list(islice(answer.rows, ROWS_SHOWN + 1 if answer.is_long else None))
        is_cut = answer.is_long and len(rows) > ROWS_SHOWN
        more = f"the first {ROWS_SHOWN} rows; LIMIT, or --json, shows others" if is_cut else None
        show.table("", answer.names, rows[: ROWS_SHOWN if is_cut else None], caption=more, text=show.value)
    if answer.message and not as_json:
        show.say(answer.message)


def _as_json(answer: Answer) -> None:
    with nullcontext() if answer.ends else until_ctrl_c():
        for row in answer.rows:
            mark = {MARK: True} if isinstance(row, Deleted) else {}
            show.as_json(dict(zip(answer.names, row, strict=True)) | mark)
    if answer.message:
        show.as_json({"message": answer.message})


def _lines(answer: Answer) -> None:
    with until_ctrl_c():
        for row in answer.rows:
            shown = dict(zip(answer.names, row, strict=True))
            if isinstance(row, Deleted):
                shown = {name: value for name, value in shown.items() if value is not None}
            show.say(f"{show.pairs(shown) or ''}{f'  <{MARK.upper()}>' * isinstance(row, Deleted)}")
