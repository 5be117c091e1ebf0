"""docs/sql-functions.md, made of the tables of functions: `python -m lakehouse.ksql.function.page > FILE`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from lakehouse.ksql.function.aggregate import AGGREGATES
from lakehouse.ksql.function.record import Function
from lakehouse.ksql.function.table import FUNCTIONS, NOT_HERE, TABLE_FUNCTIONS

HEAD = """# Functions in SQL

ksqlDB's functions that exist here, by their names and meanings, and those that do not. This page is made from the table
of functions (`ksql/function/`); a test keeps it true. How to write statements: [sql.md](sql.md).

Each example is a test: on Spark, and on the model where that has a form of the function. A `?` marks an argument that
may be left out, a `*` one that may be repeated. A call that fails (a bad pattern, a bad format) is null.
"""


def page() -> str:
    """Return the page's text."""
    families: dict[str, list[Function]] = {}
    for record in FUNCTIONS.values():
        families.setdefault(record.family, []).append(record)
    parts = [HEAD]
    for family, records in families.items():
        rows = [_row(record) for record in records]
        parts.append(_table(family, ("function", "nulls", "example", "otherwise than in ksqlDB"), rows))
    rows = [
        (f"`{one.name}({one.shown or one.takes})`", one.nulls, f"`lh.{one.here}`", one.differs)
        for one in AGGREGATES.values()
    ]
    parts.append(_table("Aggregates", ("function", "nulls", "in Python", "otherwise than in ksqlDB"), rows))
    several = [(f"`{name}`", what) for name, what in TABLE_FUNCTIONS.items()]
    parts.append(_table("Several rows of one", ("function", "what it gives"), several))
    absent = [(f"`{name}`", why) for name, why in NOT_HERE.items()]
    parts.append(_table("Not here", ("function", "instead"), absent))
    return "\n".join(parts)


def _row(record: Function) -> tuple[str, ...]:
    calls = "<br>".join(f"`{record.name}({', '.join(form.takes)})`" for form in record.forms)
    text, value = record.cases[0]
    return calls, record.nulls, f"`{text}` is `{json.dumps(value, ensure_ascii=False)}`", record.differs


def _table(title: str, names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [names, tuple("---" for _ in names), *rows]
    shown = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([f"## {title}", "", *shown, ""])


if __name__ == "__main__":
    sys.stdout.write(page())
