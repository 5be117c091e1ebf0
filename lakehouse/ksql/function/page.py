"""Write docs/sql-functions.md from the table of functions: `python -m lakehouse.ksql.function.page > FILE`."""

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


def functions_page() -> str:
    """Return the page's text."""
    families: dict[str, list[Function]] = {}
    for record in FUNCTIONS.values():
        families.setdefault(record.family, []).append(record)
    page_parts = [HEAD]
    for family, records in families.items():
        table_rows = [_page_row(record) for record in records]
        page_parts.append(_page_table(family, ("function", "nulls", "example", "otherwise than in ksqlDB"), table_rows))
    table_rows = [
        (
            f"`{aggregate.name}({aggregate.usage or aggregate.takes})`",
            aggregate.nulls,
            f"`lh.{aggregate.here}`",
            aggregate.differs,
        )
        for aggregate in AGGREGATES.values()
    ]
    page_parts.append(
        _page_table("Aggregates", ("function", "nulls", "in Python", "otherwise than in ksqlDB"), table_rows)
    )
    several_rows = [(f"`{name}`", meaning) for name, meaning in TABLE_FUNCTIONS.items()]
    page_parts.append(_page_table("Several rows of one", ("function", "what it gives"), several_rows))
    absent_rows = [(f"`{name}`", reason) for name, reason in NOT_HERE.items()]
    page_parts.append(_page_table("Not here", ("function", "instead"), absent_rows))
    return "\n".join(page_parts)


def _page_row(record: Function) -> tuple[str, ...]:
    call_forms = "<br>".join(f"`{record.name}({', '.join(form.takes)})`" for form in record.forms)
    example_text, example_value = record.cases[0]
    return (
        call_forms,
        record.nulls,
        f"`{example_text}` is `{json.dumps(example_value, ensure_ascii=False)}`",
        record.differs,
    )


def _page_table(title: str, column_titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [column_titles, tuple("---" for _ in column_titles), *rows]
    table_lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([f"## {title}", "", *table_lines, ""])


if __name__ == "__main__":
    sys.stdout.write(functions_page())
