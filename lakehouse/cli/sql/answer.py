"""Answers on the terminal: a table, lines while rows come, or JSON."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING

from lakehouse.cli.look.read import ROWS_SHOWN
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.repeating import until_ctrl_c
from lakehouse.ksql.describe import Answer, DeletedRow

if TYPE_CHECKING:
    from lakehouse.run.sql.session import SqlSession


MARK = "tombstone"  # as ksqlDB marks the row of a delete


def run_statements(session: SqlSession, text: str, *, as_json: bool = False) -> None:
    """Run statements, and print each answer. Raises the error of a statement."""
    for answer in session.run(text):
        print_answer(answer, as_json=as_json)


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print an answer: rows as a table, or as lines while they come; Ctrl-C ends the lines."""
    if as_json:
        _print_answer_as_json(answer)
    elif not answer.ends:
        _print_answer_lines(answer)
    elif answer.names:
        answer_rows = list(islice(answer.rows, ROWS_SHOWN + 1 if answer.is_long else None))
        is_cut = answer.is_long and len(answer_rows) > ROWS_SHOWN
        more_caption = f"the first {ROWS_SHOWN} rows; LIMIT, or --json, shows others" if is_cut else None
        show.print_table(
            "", answer.names, answer_rows[: ROWS_SHOWN if is_cut else None], caption=more_caption, text=show.value
        )
    if answer.message and not as_json:
        show.say(answer.message)


def _print_answer_as_json(answer: Answer) -> None:
    with nullcontext() if answer.ends else until_ctrl_c():
        for row in answer.rows:
            tombstone_mark = {MARK: True} if isinstance(row, DeletedRow) else {}
            show.print_json(dict(zip(answer.names, row, strict=True)) | tombstone_mark)
    if answer.message:
        show.print_json({"message": answer.message})


def _print_answer_lines(answer: Answer) -> None:
    with until_ctrl_c():
        for row in answer.rows:
            values_by_name = dict(zip(answer.names, row, strict=True))
            if isinstance(row, DeletedRow):
                values_by_name = {name: value for name, value in values_by_name.items() if value is not None}
            show.say(f"{show.pairs(values_by_name) or ''}{f'  <{MARK.upper()}>' * isinstance(row, DeletedRow)}")
