"""`lakehouse past changes`: a table's changelog, net per commit without Spark, or per event with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, print_first_rows, say_erased_since, stored_table_name
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of
from lakehouse.errors import ConfigError, NotFound
from lakehouse.settings.config import Settings

KINDS = {"insert": "insert", "update_postimage": "update", "delete": "delete"}


def changes(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A keyed table, such as visits.")],
    first: Annotated[
        int | None, typer.Option("--from", min=0, help="The first version, or tick with --per-event.")
    ] = None,
    last: Annotated[int | None, typer.Option("--to", min=0, help="The last version, or tick with --per-event.")] = None,
    key: Annotated[str | None, typer.Option(help="Only this key; several values joined by commas, as in CSV.")] = None,
    per_event: Annotated[
        bool, typer.Option("--per-event", help="One change for each record, derived from bronze by Spark.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what changes from now on (or --from on), until Ctrl-C.")
    ] = False,
    app: AppOption = None,
    limit: LimitOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Show how a table's rows changed: net per commit, or per event.

    Net is what Delta's change data feed has: several changes of a key in one commit are one. With --follow each change
    is a line, as soon as it is committed; --limit ends it after so many.

    Example: lakehouse past changes visits --key N14228 --from 2
    """
    from lakehouse.lake.layout import Layout
    from lakehouse.semantics.moment import AtTick

    settings = lake_of(config, lake)
    layout = Layout(settings.lake.path)
    table = stored_table_name(table, layout)
    if follow:
        if per_event or last is not None:
            raise ConfigError("changes --follow: found --per-event, or --to; it follows the net changes, without end.")
        _follow_changes(settings, table, first, key, limit, as_json=json)
        return
    row_limit = limit or (None if json else ROWS_SHOWN + 1)
    found_changes: Iterable[dict[str, Any]]
    if per_event:
        found_changes = _changes_per_event(settings, app_of(app, settings), table, first, last, key, row_limit)
        say_erased_since(layout, AtTick(first or 0), table)
    else:
        found_changes = islice(_net_changes(settings, table, first, last, key), row_limit)
    if json:
        for change in found_changes:
            show.print_json(change)
        return
    column_titles = (
        "tick" if per_event else "version",
        "event time" if per_event else "time",
        "change",
        "key",
        "value",
    )
    table_rows = [
        (
            change_row.get("tick", change_row.get("version")),
            show.moment(change_row["time"]),
            change_row["change"],
            show.pairs(change_row["key"]),
            show.pairs(change_row["value"]),
        )
        for change_row in found_changes
    ]
    print_first_rows(
        table_rows,
        limit,
        lambda first_rows, caption: show.print_table(table, column_titles, first_rows, caption=caption),
    )


def _net_changes(
    settings: Settings, name: str, first_version: int | None, last_version: int | None, key: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the net changes, version by version, with those of only a few versions in memory at a time."""
    from lakehouse.lake import reader
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.row import net_changes

    layout = Layout(settings.lake.path)
    key_columns = reader.read_table_facts(layout, "silver", name).key
    for row in net_changes.walk_net_changes(layout, name, key_columns, first_version, last_version, key):
        yield _net_change(row, key_columns)


def _coming_changes(
    settings: Settings, name: str, first_version: int | None, key: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the net changes as they come, without end; without `first_version`, of versions after the newest."""
    from lakehouse.cli.terminal import repeating
    from lakehouse.lake import reader
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.row import net_changes

    layout = Layout(settings.lake.path)
    table_facts = reader.read_table_facts(layout, "silver", name)
    if first_version is not None and first_version > table_facts.version + 1:
        raise NotFound(
            f"table {name!r} has versions 0 to {table_facts.version}; version {first_version} does not exist."
        )
    seen_version = table_facts.version if first_version is None else first_version - 1
    for row in net_changes.follow_net_changes(
        layout, name, table_facts.key, seen_version, repeating.pause_between_looks, key
    ):
        yield _net_change(row, table_facts.key)


def _net_change(row: dict[str, Any], key_columns: tuple[str, ...]) -> dict[str, Any]:
    change_kind = KINDS[row["_change_type"]]
    value_columns = (
        {} if change_kind == "delete" else {n: v for n, v in row.items() if n[0] != "_" and n not in key_columns}
    )
    return {
        "version": row["_commit_version"],
        "time": row["_commit_timestamp"],
        "change": change_kind,
        "key": {n: row[n] for n in key_columns},
        "value": value_columns or None,
    }


def _follow_changes(
    settings: Settings, name: str, first_version: int | None, key: str | None, limit: int | None, *, as_json: bool
) -> None:
    """Print the changes of each version that comes, a line for each."""
    from lakehouse.cli.terminal.repeating import until_ctrl_c

    with until_ctrl_c():
        for change in islice(_coming_changes(settings, name, first_version, key), limit):
            show.print_json(change) if as_json else show.say(_change_line(change))


def _change_line(change: dict[str, Any]) -> str:
    value_text = "" if change["value"] is None else f"  {show.pairs(change['value'])}"
    commit_time = show.moment(change["time"], "milliseconds")
    return f"version {change['version']}  {commit_time}  {change['change']:6}  {show.pairs(change['key'])}{value_text}"


def _changes_per_event(
    settings: Settings,
    app: str,
    name: str,
    first_tick: int | None,
    last_tick: int | None,
    key: str | None,
    limit: int | None,
) -> list[dict[str, Any]]:
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app
    from lakehouse.spark.changelog import published

    declared_table = load_app(app).table(name)
    change_frame = Lake(settings=settings).changes(
        declared_table, after=max((first_tick or 0) - 1, 0), to=last_tick, key=key
    )
    return [
        change_event(row, declared_table.key)
        for row in published.rows_of_frame(change_frame if limit is None else change_frame.limit(limit))
    ]


def change_event(row: dict[str, Any], key_columns: tuple[str, ...]) -> dict[str, Any]:
    """Return a row of the per-event changelog in the form that the command shows."""
    value_columns = {n: v for n, v in row.items() if n[0] != "_" and n not in key_columns}
    return {
        "tick": row["_position"]["tick"],
        "time": row["_event_time_ms"],
        "change": "delete" if row["_tombstone"] else "upsert",
        "key": {n: row[n] for n in key_columns},
        "value": None if row["_tombstone"] else value_columns,
    }
