"""`lakehouse past show` and `diff`: the rows that a version changed, and the differences between two moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.look.read import (
    ROWS_SHOWN,
    LimitOption,
    layer_and_name,
    layout_of,
    print_first_rows,
    say_erased_since,
)
from lakehouse.cli.terminal import show as output
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.moments import FoldOption, fold_of, position_finder
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of
from lakehouse.cli.terminal.row_differences import print_differing_rows
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from lakehouse.lake.layout import Layout
    from lakehouse.semantics.difference import Difference

KeyedArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="A keyed table (visits), or what it keeps (state.visits).")
]
KeyOption = Annotated[str | None, typer.Option(help="Only this key; several values joined by commas, as in CSV.")]
A_MOMENT = (
    "A version (3), tick:7, an event time (2013-06-01T00:00Z), commit:TIME, offsets:TOPIC/0=9, source:POSITION, or now."
)


def show(
    table: KeyedArgument,
    version: Annotated[
        int, typer.Argument(metavar="VERSION", min=0, help="The version; `lakehouse past log` lists them.")
    ],
    key: KeyOption = None,
    limit: LimitOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Show the rows that a version of a table changed, as they were and as they became.

    Rows in which nothing that people see changed are left out.

    Example: lakehouse past show visits 12
    """
    from lakehouse.lake import reader
    from lakehouse.lake.row.difference import changes_of_version

    layout = layout_of(config, lake)
    table_name = keyed_table_name(table, layout)
    row_difference = changes_of_version(layout, table_name, version, key=key, limit=_row_limit(limit, json=json))
    commit = next(row for row in reader.walk_log_rows(layout, table_name) if row["version"] == version)
    if json:
        output.print_json(commit)
    else:
        ticks = "" if commit["tick"] is None else f", tick {commit['tick']}"
        commit_time = output.moment(commit["time_ms"], "milliseconds")
        output.say(f"{table}, version {version}: {commit['operation']}{ticks}, committed {commit_time}")
    _print_difference(row_difference, limit, json=json)


def diff(
    table: KeyedArgument,
    a: Annotated[str, typer.Argument(metavar="A", help=A_MOMENT)],
    b: Annotated[str, typer.Argument(metavar="B", help="Another moment, in the same words.")],
    key: KeyOption = None,
    limit: LimitOption = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if anything differs.")] = False,
    app: FoldOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Show what differs between two moments of a table: keys added, removed and changed, before and after.

    Example: lakehouse past diff visits tick:7 now
    """
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.moment.rows_at import snapshot
    from lakehouse.lake.row.difference import difference
    from lakehouse.semantics.time.named_moment import moment_from_text

    settings = lake_of(config, lake)
    find_source = position_finder(settings, app)
    moments = (moment_from_text(a, find_source), moment_from_text(b, find_source))
    layout, fold_rows = Layout(settings.lake.path), fold_of(settings, app)
    name = keyed_table_name(table, layout)
    old_snapshot, new_snapshot = (snapshot(layout, name, moment, fold_rows) for moment in moments)
    for moment in moments:
        say_erased_since(layout, moment, name)
    row_difference = difference(old_snapshot, new_snapshot, key=key, limit=_row_limit(limit, json=json))
    if json:
        json_sides = [
            {"moment": str(moment or "now"), "version": version}
            for moment, version in zip(moments, row_difference.versions, strict=True)
        ]
        output.print_json({"from": json_sides[0], "to": json_sides[1]})
    else:
        side_texts = [
            _describe_side(str(moment or "now"), version)
            for moment, version in zip(moments, row_difference.versions, strict=True)
        ]
        output.say(f"{table}, from {side_texts[0]} to {side_texts[1]}")
    _print_difference(row_difference, limit, json=json)
    if exit_code and not row_difference.equal:
        raise typer.Exit(FAILED)


def keyed_table_name(table: str, layout: Layout) -> str:
    """Return a keyed table's name: visits, state.visits. Raises ConfigError for the tables of other layers."""
    layer, table_name = layer_and_name(table, layout)
    if layer not in ("silver", "state"):
        raise ConfigError(f"{table}: expected a keyed table, such as visits; rows of {layer} never change.")
    return table_name if layer == "silver" else f"{layer}.{table_name}"


def _row_limit(limit: int | None, *, json: bool) -> int | None:
    return limit or (None if json else ROWS_SHOWN + 1)


def _describe_side(moment: str, version: int | None) -> str:
    return moment if version is None or moment == f"version {version}" else f"{moment} (version {version})"


def _print_difference(row_difference: Difference, limit: int | None, *, json: bool) -> None:
    if json:
        for change in row_difference.changes:
            output.print_json(change)
        output.print_json(row_difference.counts())
        return
    if row_difference.changes:
        print_first_rows(row_difference.changes, limit, print_differing_rows)
    count_text = ", ".join(f"{count:,} {change_kind}" for change_kind, count in row_difference.counts().items()) + "."
    output.say("No row differs." if row_difference.equal else count_text)
