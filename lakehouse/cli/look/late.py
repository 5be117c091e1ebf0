"""`lakehouse look late`: the records that came too late for a table, with their bytes from bronze."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, print_first_rows, stored_table_name
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of

if TYPE_CHECKING:
    from lakehouse.lake.layout import Layout

# Every column that distinguishes rows, so that the choice is the same each time.
ORDER = 'ORDER BY tick DESC, topic, "partition", "offset" DESC, ordinals DESC, window_start DESC'
NEWEST = """
    SELECT * FROM late."{table}" ANTI JOIN taken_in USING ({place})
    WHERE tick BETWEEN {first} AND {last} {order} {limit}
"""
COUNTS = 'SELECT tick, count(*) FROM late."{table}" GROUP BY tick ORDER BY tick DESC'
TICKS = "SELECT topic, min(tick), max(tick) FROM ({newest}) GROUP BY topic"
# How many records to read at once, with their bytes; more where one tick has more.
RECORDS_A_READ = 20_000
# The tick separates a topic's records from those of an earlier topic of its name; its bounds spare the rest of bronze.
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
    table = stored_table_name(table, layout)
    late_records = read_late_records(layout, table, limit or (None if json else ROWS_SHOWN + 1))
    if json:
        for record in late_records:
            show.print_json(record)
        return
    record_list = list(late_records)
    if not record_list:
        show.say(f"No record came too late for {table}.")
    else:
        column_names = (*(name for name in WINDOW if record_list[0][name] is not None), *PLACE)
        record_rows = [(show.pairs(record["key"]), *(record[name] for name in column_names)) for record in record_list]
        print_first_rows(
            record_rows,
            limit,
            lambda first_rows, caption: show.print_table(table, ("key", *column_names), first_rows, caption=caption),
        )


def read_late_records(layout: Layout, table: str, limit: int | None) -> Iterator[dict[str, Any]]:
    """Yield late records, the newest first, some ticks at a time. Raises NotFound for a table that does not exist.

    Each has the columns of the late table, `key` as an object, and the record's timestamp, record_key and value.
    """
    from lakehouse.lake import reader
    from lakehouse.lake.key_sql import drop_window_columns, key_columns_of
    from lakehouse.lake.record import late_records
    from lakehouse.plan.operator import VALID_FROM

    key_names = drop_window_columns(reader.read_table_facts(layout, "silver", table).key)
    if table not in reader.table_names(layout, "late"):
        return
    group_names = [name for name in key_names if name != VALID_FROM]  # a history's row has it beside its key
    key_columns = key_columns_of(reader.open_dataset(layout.silver(table)).schema, group_names)
    key_types = {column.name: column.type for column in key_columns}
    connection, records_left = reader.connect_lake(layout), limit
    connection.register("taken_in", late_records.late_places_taken_in(layout, table))
    place_columns = late_records.place_columns_sql()
    for first_tick, last_tick in _tick_ranges(connection.execute(COUNTS.format(table=table)).fetchall()):
        if records_left == 0:
            return
        newest_query = NEWEST.format(
            table=table, first=first_tick, last=last_tick, order=ORDER, place=place_columns,
            limit="" if records_left is None else f"LIMIT {records_left}",
        )  # fmt: skip
        tick_rows = connection.execute(TICKS.format(newest=newest_query)).fetchall()
        if not tick_rows:
            continue
        topic_queries = [
            RECORDS.format(newest=newest_query, topic=topic, first=first_of_topic, last=last_of_topic)
            for topic, first_of_topic, last_of_topic in tick_rows
        ]
        late_rows = (
            connection.sql(f"SELECT * FROM ({' UNION ALL '.join(topic_queries)}) {ORDER}").to_arrow_table().to_pylist()
        )
        yield from ({**row, "key": _read_key(row["key"], key_types, row.get("join_name"))} for row in late_rows)
        records_left = None if records_left is None else max(records_left - len(late_rows), 0)


def _read_key(text: str, key_types: Mapping[str, str], join_name: str | None) -> dict[str, Any]:
    """Return a key as its values: decimals with all digits, and nulls, which its text leaves out.

    key_types: of the table's key; that of a join, which a record was too late for, has other columns.
    """
    exact_values, values = json_text.loads(text, parse_float=Decimal), json_text.loads(text)
    types = key_types if join_name is None else {}
    return {
        name: (values if types.get(name) in ("double", "float") else exact_values).get(name)
        for name in dict.fromkeys([*types, *values])
    }


def _tick_ranges(counts_by_tick: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield ranges of ticks, the newest first, each with no more records than one read takes."""
    ticks_in_range: list[int] = []
    record_total = 0
    for tick, record_count in counts_by_tick:
        if ticks_in_range and record_total + record_count > RECORDS_A_READ:
            yield ticks_in_range[-1], ticks_in_range[0]
            ticks_in_range, record_total = [], 0
        ticks_in_range.append(tick)
        record_total += record_count
    if ticks_in_range:
        yield ticks_in_range[-1], ticks_in_range[0]
