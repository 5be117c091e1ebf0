"""`lakehouse past changes`: a table's changelog, net per commit without Spark, or per event with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, kept, shown
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

    settings = lake_of(config, lake)
    table = kept(table, Layout(settings.lake.path))
    if follow:
        if per_event or last is not None:
            raise ConfigError("changes --follow: found --per-event, or --to; it follows the net changes, without end.")
        _follow(settings, table, first, key, limit, as_json=json)
        return
    cut = limit or (None if json else ROWS_SHOWN + 1)
    found: Iterable[dict[str, Any]]
    if per_event:
        found = _per_event(settings, app_of(app, settings), table, first, last, key, cut)
    else:
        found = islice(_net(settings, table, first, last, key), cut)
    if json:
        for change in found:
            show.as_json(change)
        return
    columns = ("tick" if per_event else "version", "event time" if per_event else "time", "change", "key", "value")
    rows = [
        (
            c.get("tick", c.get("version")),
            show.moment(c["time"]),
            c["change"],
            show.pairs(c["key"]),
            show.pairs(c["value"]),
        )
        for c in found
    ]
    shown(rows, limit, lambda some, caption: show.table(table, columns, some, caption=caption))


def _net(
    settings: Settings, name: str, first: int | None, last: int | None, key: str | None
) -> Iterator[dict[str, Any]]:
    """The net changes, version by version: only those of a few versions are in memory at a time."""
    from lakehouse.lake import reader
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.row import net_changes

    layout = Layout(settings.lake.path)
    keys = reader.facts(layout, "silver", name).key
    for row in net_changes.rows(layout, name, keys, first, last, key):
        yield _change(row, keys)


def _coming(settings: Settings, name: str, first: int | None, key: str | None) -> Iterator[dict[str, Any]]:
    """The net changes as they come, without end; without `first`, of the versions after the newest one."""
    from lakehouse.cli.terminal import repeating
    from lakehouse.lake import reader
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.row import net_changes

    layout = Layout(settings.lake.path)
    facts = reader.facts(layout, "silver", name)
    if first is not None and first > facts.version + 1:
        raise NotFound(f"table {name!r} has versions 0 to {facts.version}; version {first} does not exist.")
    seen = facts.version if first is None else first - 1
    for row in net_changes.coming(layout, name, facts.key, seen, repeating.pause, key):
        yield _change(row, facts.key)


def _change(row: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    kind = KINDS[row["_change_type"]]
    values = {} if kind == "delete" else {n: v for n, v in row.items() if n[0] != "_" and n not in keys}
    return {
        "version": row["_commit_version"],
        "time": row["_commit_timestamp"],
        "change": kind,
        "key": {n: row[n] for n in keys},
        "value": values or None,
    }


def _follow(
    settings: Settings, name: str, first: int | None, key: str | None, limit: int | None, *, as_json: bool
) -> None:
    """Print the changes of each version that comes, a line each."""
    from lakehouse.cli.terminal.repeating import until_ctrl_c

    with until_ctrl_c():
        for change in islice(_coming(settings, name, first, key), limit):
            show.as_json(change) if as_json else show.say(_line(change))


def _line(change: dict[str, Any]) -> str:
    value = "" if change["value"] is None else f"  {show.pairs(change['value'])}"
    when = show.moment(change["time"], "milliseconds")
    return f"version {change['version']}  {when}  {change['change']:6}  {show.pairs(change['key'])}{value}"


def _per_event(
    settings: Settings, app: str, name: str, first: int | None, last: int | None, key: str | None, limit: int | None
) -> list[dict[str, Any]]:
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app
    from lakehouse.spark.changelog import published

    table = load_app(app).table(name)
    frame = Lake(settings=settings).changes(table, after=max((first or 0) - 1, 0), to=last, key=key)
    return [event(row, table.key) for row in published.rows(frame if limit is None else frame.limit(limit))]


def event(row: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a row of the per-event changelog in the form that is shown."""
    values = {n: v for n, v in row.items() if n[0] != "_" and n not in keys}
    return {
        "tick": row["_position"]["tick"],
        "time": row["_event_time_ms"],
        "change": "delete" if row["_tombstone"] else "upsert",
        "key": {n: row[n] for n in keys},
        "value": None if row["_tombstone"] else values,
    }
