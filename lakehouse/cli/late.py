"""`lakehouse late`: the records that came too late for a table, with their bytes from bronze."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import show
from lakehouse.cli.options import ConfigOption, JsonOption, LakeOption, settings_of
from lakehouse.cli.read import ROWS_SHOWN, LimitOption, shown

if TYPE_CHECKING:
    from lakehouse.delta.layout import Layout

# Every column that tells rows apart, so that the same rows are chosen each time.
ORDER = 'ORDER BY tick DESC, topic, "partition", "offset" DESC, ordinal DESC, window_start DESC'
NEWEST = 'SELECT * FROM late."{table}" {order} {limit}'
TICKS = "SELECT topic, min(tick), max(tick) FROM ({newest}) GROUP BY topic"
# The tick tells a topic's records from those of an earlier topic of its name; its bounds spare the rest of bronze.
RECORDS = """
    SELECT l.*, b."timestamp", b.key AS record_key, b."value"
    FROM ({newest}) AS l JOIN (SELECT * FROM bronze."{topic}" WHERE tick BETWEEN {first} AND {last}) AS b
        USING (topic, tick, "partition", "offset")
"""
WINDOW = ("window_start", "window_end")
PLACE = ("topic", "partition", "offset", "timestamp", "value")


def late(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A windowed table, or one with order_by.")],
    limit: LimitOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Show the records that came too late for a table, the newest first: key, window, place, value.

    A record that was late for several windows is there once for each.

    Example: lakehouse late hourly --limit 20
    """
    from lakehouse.delta.layout import Layout
    from lakehouse.plan.schema import check_name

    check_name(table, "table")
    layout = Layout(settings_of(config, lake).lake.path)
    found = records(layout, table, limit or (None if json else ROWS_SHOWN + 1))
    if json:
        for record in found:
            show.as_json(record)
    elif not found:
        typer.echo(f"No record came too late for {table}.")
    else:
        names = (*(name for name in WINDOW if found[0][name] is not None), *PLACE)
        rows = [(_text(record["key"]), *(record[name] for name in names)) for record in found]
        shown(rows, limit, lambda some, caption: show.table(table, ("key", *names), some, caption=caption))


def records(layout: Layout, table: str, limit: int | None) -> list[dict[str, Any]]:
    """Return late records, the newest first; NotFound for a table that does not exist.

    Each has the columns of the late table, `key` as an object, and the record's timestamp, record_key and value.
    """
    from lakehouse.delta import reader

    reader.facts(layout, "silver", table)
    if table not in reader.names(layout, "late"):
        return []
    newest = NEWEST.format(table=table, order=ORDER, limit=f"LIMIT {limit}" if limit else "")
    lake = reader.connect(layout)
    ticks = lake.execute(TICKS.format(newest=newest)).fetchall()
    parts = [RECORDS.format(newest=newest, topic=topic, first=first, last=last) for topic, first, last in ticks]
    if not parts:
        return []
    rows = lake.sql(f"SELECT * FROM ({' UNION ALL '.join(parts)}) {ORDER}").to_arrow_table().to_pylist()
    return [{**row, "key": json_text.loads(row["key"])} for row in rows]


def _text(key: dict[str, Any]) -> str:
    return ", ".join(f"{name}={show.cell(value)}" for name, value in key.items())
