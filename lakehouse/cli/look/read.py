"""`lakehouse query`, `tables`, `describe` and `log`: the lake's content, read without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.moments import (
    AtOption,
    ClockOption,
    FoldOption,
    OffsetsOption,
    TickOption,
    VersionOption,
    fold_of,
    moment_of_options,
    position_finder,
)
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.moment.rows_at import FoldRows
    from lakehouse.semantics.moment import At

ROWS_SHOWN = 100

LimitOption = Annotated[
    int | None,
    typer.Option("--limit", min=1, metavar="N", help=f"At most N rows; a table shows {ROWS_SHOWN} if left out."),
]
TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="A table (visits), or bronze.TOPIC, quarantine.STREAM, late.TABLE or state.TABLE."
    ),
]


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT, in DuckDB's SQL.")],
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Answer again when the lake changes, until Ctrl-C.")] = False,
    limit: LimitOption = None,
    at: AtOption = None,
    clock: ClockOption = None,
    version: VersionOption = None,
    tick: TickOption = None,
    offsets: OffsetsOption = None,
    app: FoldOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Query the lake in SQL: visits, silver.visits (hidden columns too), bronze.flights, quarantine.flights.

    late.visits has what came too late, state.visits what the table keeps and does not show, where there is any. With a
    moment of the past all tables that the SELECT names are read at it; docs/time-travel.md says what each way means.

    The tables of the examples are those of `lakehouse demo`.

    With --watch the answer is shown again whenever it has changed.

    Example: lakehouse query "SELECT * FROM visits ORDER BY flights DESC" --limit 10
    """
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.sql import check_distinct_names

    if json and csv:
        raise ConfigError("query: found --json and --csv; expected one of them.")
    settings = lake_of(config, lake)
    past_moment = moment_of_options(at, clock, version, tick, offsets, position_finder(settings, app))
    row_limit, layout = limit or (None if json or csv else ROWS_SHOWN + 1), Layout(settings.lake.path)
    if watch:
        if json or csv or past_moment is not None:
            raise ConfigError("query --watch: found --json, --csv, or a moment; it shows what is now, on a terminal.")
        _watch_answers(layout, sql, row_limit, limit)
        return
    column_names, rows = _ask_lake(layout, sql, row_limit, past_moment, fold_of(settings, app))
    if json:
        check_distinct_names(column_names)
    say_erased_since(layout, past_moment)
    if json:
        for row in rows:
            show.print_json(dict(zip(column_names, row, strict=True)))
    elif csv:
        show.print_csv(column_names, rows)
    else:
        _print_answer(column_names, rows, limit)


def say_erased_since(layout: Layout, past_moment: At | None, table: str | None = None) -> None:
    """Say on stderr which records that a past moment had were erased since."""
    from lakehouse.lake.erasure.erased_past import erased_since

    if sentence := erased_since(layout, past_moment, table):
        show.say(sentence, stderr=True)


def _ask_lake(
    layout: Layout, sql: str, row_limit: int | None, past_moment: At | None = None, fold_rows: FoldRows | None = None
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of an answer's columns, and its rows."""
    from lakehouse.lake.moment.answer import answer_query

    answer = answer_query(layout, sql, past_moment, fold_rows, row_limit)
    return answer.columns, answer.rows


def _print_answer(column_names: list[str], rows: list[tuple[Any, ...]], limit: int | None) -> None:
    print_first_rows(
        rows,
        limit,
        lambda first_rows, caption: show.print_table("", column_names, first_rows, caption=caption, text=show.value),
    )


def _watch_answers(layout: Layout, sql: str, row_limit: int | None, limit: int | None) -> None:
    """Show an answer, and each new answer that a commit brings; on a terminal in place of the one before."""
    from lakehouse.cli.terminal.repeating import each_change, until_ctrl_c
    from lakehouse.lake import reader

    previous_answer: tuple[list[str], list[tuple[Any, ...]]] | None = None
    with until_ctrl_c():
        for _ in each_change(lambda: reader.newest_commits(layout)):
            if (answer := _ask_lake(layout, sql, row_limit)) == previous_answer:
                continue
            previous_answer = answer
            show.clear_terminal()
            show.say(f"{show.moment(datetime.now(UTC))}  {sql}")
            _print_answer(*answer, limit)


def print_first_rows(rows: list[Any], limit: int | None, print_table: Any) -> None:
    """Print a table of the first rows, and say whether there are more."""
    shown_limit = limit or ROWS_SHOWN
    has_more = len(rows) > shown_limit
    print_table(rows[:shown_limit], f"the first {shown_limit:,} rows; --limit shows more" if has_more else None)


def tables(config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """List the lake's tables: topics in bronze, keyed tables, quarantines, late records, states.

    Example: lakehouse look tables
    """
    from dataclasses import asdict

    from lakehouse.lake import reader

    layout = layout_of(config, lake)
    table_facts = [
        reader.read_table_facts(layout, layer, name)
        for layer in reader.LAYERS
        for name in reader.table_names(layout, layer)
    ]
    if json:
        show.print_json([asdict(facts) for facts in table_facts])
    elif not table_facts:
        show.say(f"{layout.root} has no tables yet; `lakehouse run` makes them.")
    else:
        table_rows = [
            (
                f.name if f.layer == "silver" else f"{f.layer}.{f.name}",
                f.rows,
                f.version,
                f.tick,
                show.moment(f.last_commit_ms),
            )
            for f in table_facts
        ]
        show.print_table("", ("table", "rows", "version", "tick", "last commit"), table_rows)


def describe(
    table: TableArgument, config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False
) -> None:
    """Show a table's columns, key, declaration and properties.

    Example: lakehouse look describe visits
    """
    from lakehouse.lake import reader
    from lakehouse.lake.delta_type import spark_type

    layout = layout_of(config, lake)
    layer, name = layer_and_name(table, layout)
    facts = reader.read_table_facts(layout, layer, name)
    open_table = reader.open_table(reader.find_table_path(layout, layer, name), table)
    column_types = [{"name": field.name, "type": spark_type(field.type)} for field in open_table.schema().fields]
    table_properties = {
        k: v
        for k, v in sorted(open_table.metadata().configuration.items())
        if k not in ("lakehouse.plan", "lakehouse.declaration")
    }
    if json:
        show.print_json(
            {
                "table": table,
                "key": list(facts.key),
                "columns": column_types,
                "plan": facts.plan,
                "properties": table_properties,
            }
        )
        return
    column_rows = [
        (c["name"], c["type"], "key" if c["name"] in facts.key else "hidden" if c["name"][0] == "_" else "")
        for c in column_types
    ]
    show.print_table(table, ("column", "type", ""), column_rows)
    show.say(f"{facts.plan}\n" if facts.plan else "", nl=False)
    show.print_table("Properties", ("property", "value"), list(table_properties.items()))


def log(
    table: TableArgument,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="At most N versions, the newest first.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Also the empty versions that a writer's start makes.")] = False,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """List a table's versions: when, what, which ticks, how many records, how many of them without a key, and rows.

    A start of a writer is an empty version, `open epoch`: --all shows these, too, and so does --json.

    Example: lakehouse past log visits --limit 5
    """
    from lakehouse.lake import reader
    from lakehouse.semantics.commit_number import OPEN_EPOCH

    layout = layout_of(config, lake)
    layer, name = layer_and_name(table, layout)
    all_versions = reader.walk_log_rows(layout, name if layer == "silver" else f"{layer}.{name}")
    versions = list(islice((v for v in all_versions if every or json or v["operation"] != OPEN_EPOCH), limit))
    if json:
        for version in versions:
            show.print_json(version)
        return
    column_titles = (
        "version",
        "time",
        "operation",
        "ticks",
        "records",
        "null keys",
        "inserted",
        "updated",
        "deleted",
        "offsets",
    )
    version_rows = [
        (
            v["version"],
            show.moment(v["time_ms"], "milliseconds"),
            v["operation"],
            _format_tick_range(v),
            v["records"],
            v["null_keys"] or None,
            v["inserted"],
            v["updated"],
            v["deleted"],
            _format_next_offsets(v["offsets"]),
        )
        for v in versions
    ]
    kept_columns = [n for n, _ in enumerate(column_titles) if n < 4 or any(row[n] is not None for row in version_rows)]
    show.print_table(
        table, [column_titles[n] for n in kept_columns], [[row[n] for n in kept_columns] for row in version_rows]
    )


def _format_tick_range(version: dict[str, Any]) -> str | None:
    """Return the ticks that a version took in: 7, or 5-7."""
    first_tick, last_tick = version["from_tick"], version["tick"]
    return (
        None
        if last_tick is None
        else str(last_tick)
        if first_tick is None or first_tick + 1 >= last_tick
        else f"{first_tick + 1}-{last_tick}"
    )


def _format_next_offsets(offsets: dict[str, dict[str, int]] | None) -> str | None:
    """Return the progress of each topic after a version: the next offset of each of its partitions."""
    if offsets is None:
        return None
    return "\n".join(
        f"{topic}: {', '.join(f'{p}:{n}' for p, n in next_offsets.items())}" for topic, next_offsets in offsets.items()
    )


def layout_of(config: Path | None, lake: str | None) -> Layout:
    """Return the layout of the lake that a command line means."""
    from lakehouse.lake.layout import Layout

    return Layout(lake_of(config, lake).lake.path)


def layer_and_name(table: str, layout: Layout) -> tuple[str, str]:
    """Return the layer and the name, as the lake spells it, of visits, bronze.flights or late.visits.

    Raises PlanError for a text that can be no name.
    """
    from lakehouse.lake.reader import LAYERS
    from lakehouse.plan.expression.schema import check_topic

    layer, dot, name = table.partition(".")
    if dot and layer == "bronze":
        return layer, check_topic(name)
    if dot and layer in LAYERS:
        return layer, stored_table_name(name, layout, layer)
    return "silver", stored_table_name(table, layout)


def stored_table_name(table: str, layout: Layout, layer: str = "silver") -> str:
    """Return a table's name as the lake spells it, from any case. Raises PlanError for a text that can be no name."""
    from lakehouse.lake.reader import find_stored_name
    from lakehouse.plan.expression.schema import check_name

    return find_stored_name(layout, layer, check_name(table, "table"))
