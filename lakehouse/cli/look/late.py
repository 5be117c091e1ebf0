"""`lakehouse look late`: the records that came too late for a table, with their bytes from bronze."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, kept, shown
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of

if TYPE_CHECKING:
    from lakehouse.lake.layout import Layout

# Every column that tells rows apart, so that the same rows are chosen each time.
ORDER = 'ORDER BY tick DESC, topic, "partition", "offset" DESC, ordinals DESC, window_start DESC'
NEWEST = """
    SELECT * FROM late."{table}" ANTI JOIN taken_in USING ({place})
    WHERE tick BETWEEN {first} AND {last} {order} {limit}
"""
COUNTS = 'SELECT tick, count(*) FROM late."{table}" GROUP BY tick ORDER BY tick DESC'
TICKS = "SELECT topic, min(tick), max(tick) FROM ({newest}) GROUP BY topic"
# So many records are read at once, with their bytes; more where one tick has more.
RECORDS_A_READ = 20_000
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

    A record that was late for several windows is there once for each. Those that `repair correct` took in are not.

    Example: lakehouse look late hourly --limit 20
    """
    from lakehouse.lake.layout import Layout

    layout = Layout(lake_of(config, lake).lake.path)
    table = kept(table, layout)
    each = records(layout, table, limit or (None if json else ROWS_SHOWN + 1))
    if json:
        for record in each:
            show.as_json(record)
        return
    found = list(each)
    if not found:
        show.say(f"No record came too late for {table}.")
    else:
        names = (*(name for name in WINDOW if found[0][name] is not None), *PLACE)
        rows = [(show.pairs(record["key"]), *(record[name] for name in names)) for record in found]
        shown(rows, limit, lambda some, caption: show.table(table, ("key", *names), some, caption=caption))


def records(layout: Layout, table: str, limit: int | None) -> Iterator[dict[str, Any]]:
    """Yield late records, the newest first, some ticks at a time; NotFound for a table that does not exist.

    Each has the columns of the late table, `key` as an object, and the record's timestamp, record_key and value.
    """
    from lakehouse.lake import reader
    from lakehouse.lake.earlier import check_late
    from lakehouse.lake.record import late_records

    reader.facts(layout, "silver", table)
    if table not in reader.names(layout, "late"):
        return
    check_late(reader.dataset(layout.late(table)).schema.names, table)
    lake, left = reader.connect(layout), limit
    lake.register("taken_in", late_records.taken_in(layout, table))
    place = late_records.columns()
    for first, last in _ticks(lake.execute(COUNTS.format(table=table)).fetchall()):
        if left == 0:
            return
        newest = NEWEST.format(
            table=table, first=first, last=last, order=ORDER, place=place,
            limit="" if left is None else f"LIMIT {left}",
        )  # fmt: skip
        ticks = lake.execute(TICKS.format(newest=newest)).fetchall()
        if not ticks:
            continue
        parts = [RECORDS.format(newest=newest, topic=topic, first=begin, last=end) for topic, begin, end in ticks]
        rows = lake.sql(f"SELECT * FROM ({' UNION ALL '.join(parts)}) {ORDER}").to_arrow_table().to_pylist()
        yield from ({**row, "key": json_text.loads(row["key"])} for row in rows)
        left = None if left is None else max(left - len(rows), 0)


def _ticks(counts: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield ranges of ticks, the newest first, that have no more records than are read at once."""
    found: list[int] = []
    records = 0
    for tick, count in counts:
        if found and records + count > RECORDS_A_READ:
            yield found[-1], found[0]
            found, records = [], 0
        found.append(tick)
        records += count
    if found:
        yield found[-1], found[0]
