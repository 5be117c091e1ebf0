"""`lakehouse query`, `tables`, `describe` and `log`: what the lake holds, read without Spark."""

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
    asked_moment,
    fold_of,
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

    if json and csv:
        raise ConfigError("query: found --json and --csv; expected one of them.")
    moment, settings = asked_moment(at, clock, version, tick, offsets), lake_of(config, lake)
    cut, layout = limit or (None if json or csv else ROWS_SHOWN + 1), Layout(settings.lake.path)
    if watch:
        if json or csv or moment is not None:
            raise ConfigError("query --watch: found --json, --csv, or a moment; it shows what is now, on a terminal.")
        _watch(layout, sql, cut, limit)
        return
    names, rows = _answer(layout, sql, cut, moment, fold_of(settings, app))
    if json:
        for row in rows:
            show.as_json(dict(zip(names, row, strict=True)))
    elif csv:
        show.as_csv(names, rows)
    else:
        _print(names, rows, limit)


def _answer(
    layout: Layout, sql: str, cut: int | None, moment: At | None = None, fold: FoldRows | None = None
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names of an answer's columns, and its rows."""
    from lakehouse.lake.moment.answer import ask

    found = ask(layout, sql, moment, fold, cut)
    return found.columns, found.rows


def _print(names: list[str], rows: list[tuple[Any, ...]], limit: int | None) -> None:
    shown(rows, limit, lambda some, caption: show.table("", names, some, caption=caption, text=show.value))


def _watch(layout: Layout, sql: str, cut: int | None, limit: int | None) -> None:
    """Show an answer, and each other answer that a commit brings; on a terminal in place of the one before."""
    from lakehouse.cli.terminal.repeating import each_time, until_ctrl_c
    from lakehouse.lake import reader

    before: tuple[list[str], list[tuple[Any, ...]]] | None = None
    with until_ctrl_c():
        for _ in each_time(lambda: reader.state(layout)):
            if (found := _answer(layout, sql, cut)) == before:
                continue
            before = found
            show.clear()
            show.say(f"{show.moment(datetime.now(UTC))}  {sql}")
            _print(*found, limit)


def shown(rows: list[Any], limit: int | None, print_table: Any) -> None:
    """Print a table of the first rows, and say when there are more."""
    wanted = limit or ROWS_SHOWN
    more = len(rows) > wanted
    print_table(rows[:wanted], f"the first {wanted:,} rows; --limit shows more" if more else None)


def tables(config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """List the lake's tables: topics in bronze, keyed tables, quarantines, late records, states.

    Example: lakehouse look tables
    """
    from dataclasses import asdict

    from lakehouse.lake import reader

    layout = layout_of(config, lake)
    found = [reader.facts(layout, layer, name) for layer in reader.LAYERS for name in reader.names(layout, layer)]
    if json:
        show.as_json([asdict(facts) for facts in found])
    elif not found:
        show.say(f"{layout.root} has no tables yet; `lakehouse run` makes them.")
    else:
        rows = [
            (
                f.name if f.layer == "silver" else f"{f.layer}.{f.name}",
                f.rows,
                f.version,
                f.tick,
                show.moment(f.last_commit_ms),
            )
            for f in found
        ]
        show.table("", ("table", "rows", "version", "tick", "last commit"), rows)


def describe(
    table: TableArgument, config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False
) -> None:
    """Show a table's columns, key, declaration and properties.

    Example: lakehouse look describe visits
    """
    from lakehouse.lake import reader
    from lakehouse.lake.delta_type import spark_type

    layout = layout_of(config, lake)
    layer, name = named(table, layout)
    facts = reader.facts(layout, layer, name)
    opened = reader.open_table(reader.path_of(layout, layer, name), table)
    columns = [{"name": field.name, "type": spark_type(field.type)} for field in opened.schema().fields]
    properties = {
        k: v
        for k, v in sorted(opened.metadata().configuration.items())
        if k not in ("lakehouse.plan", "lakehouse.declaration")
    }
    if json:
        show.as_json(
            {"table": table, "key": list(facts.key), "columns": columns, "plan": facts.plan, "properties": properties}
        )
        return
    rows = [
        (c["name"], c["type"], "key" if c["name"] in facts.key else "hidden" if c["name"][0] == "_" else "")
        for c in columns
    ]
    show.table(table, ("column", "type", ""), rows)
    show.say(f"{facts.plan}\n" if facts.plan else "", nl=False)
    show.table("Properties", ("property", "value"), list(properties.items()))


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
    from lakehouse.semantics.epoch import OPEN_EPOCH

    layout = layout_of(config, lake)
    layer, name = named(table, layout)
    each = reader.versions(layout, name if layer == "silver" else f"{layer}.{name}")
    versions = list(islice((v for v in each if every or json or v["operation"] != OPEN_EPOCH), limit))
    if json:
        for version in versions:
            show.as_json(version)
        return
    columns = (
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
    rows = [
        (
            v["version"], show.moment(v["time_ms"], "milliseconds"), v["operation"], _ticks(v), v["records"],
            v["null_keys"] or None, v["inserted"], v["updated"], v["deleted"], _offsets(v["offsets"]),
        )
        for v in versions
    ]  # fmt: skip
    keep = [n for n, _ in enumerate(columns) if n < 4 or any(row[n] is not None for row in rows)]
    show.table(table, [columns[n] for n in keep], [[row[n] for n in keep] for row in rows])


def _ticks(version: dict[str, Any]) -> str | None:
    """The ticks that a version took in: 7, or 5-7."""
    first, last = version["from_tick"], version["tick"]
    return None if last is None else str(last) if first is None or first + 1 >= last else f"{first + 1}-{last}"


def _offsets(offsets: dict[str, dict[str, int]] | None) -> str | None:
    """How far each topic is after a version: the next offset of each of its partitions."""
    if offsets is None:
        return None
    return "\n".join(f"{topic}: {', '.join(f'{p}:{n}' for p, n in of.items())}" for topic, of in offsets.items())


def layout_of(config: Path | None, lake: str | None) -> Layout:
    """Return the layout of the lake that a command line means."""
    from lakehouse.lake.layout import Layout

    return Layout(lake_of(config, lake).lake.path)


def named(table: str, layout: Layout) -> tuple[str, str]:
    """Return the layer and the name, as the lake has it, in visits, bronze.flights or late.visits.

    PlanError for what can be no name.
    """
    from lakehouse.lake.reader import LAYERS
    from lakehouse.plan.schema import check_topic

    layer, dot, name = table.partition(".")
    if dot and layer == "bronze":
        return layer, check_topic(name)
    if dot and layer in LAYERS:
        return layer, kept(name, layout, layer)
    return "silver", kept(table, layout)


def kept(table: str, layout: Layout, layer: str = "silver") -> str:
    """Return a table's name as the lake has it, whatever the case that people write; PlanError for what is no name."""
    from lakehouse.lake.reader import as_kept
    from lakehouse.plan.schema import check_name

    return as_kept(layout, layer, check_name(table, "table"))
