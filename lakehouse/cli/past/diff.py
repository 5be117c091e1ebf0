"""`lakehouse past show` and `diff`: the rows that a version changed, and what differs between two moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.look.read import ROWS_SHOWN, LimitOption, layout_of, named, shown
from lakehouse.cli.terminal import show as output
from lakehouse.cli.terminal.differing import differing_rows
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.moments import FoldOption, fold_of
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from lakehouse.lake.layout import Layout
    from lakehouse.semantics.difference import Difference

KeyedArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="A keyed table (visits), or what it keeps (state.visits).")
]
KeyOption = Annotated[str | None, typer.Option(help="Only this key; several values joined by commas, as in CSV.")]
A_MOMENT = "A version (3), tick:7, an event time (2013-06-01T00:00Z), commit:TIME, offsets:TOPIC/0=120, or now."


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
    from lakehouse.lake.row.difference import changed

    layout = layout_of(config, lake)
    name = keyed(table, layout)
    found = changed(layout, name, version, key=key, limit=_cut(limit, json=json))
    commit = next(row for row in reader.versions(layout, name) if row["version"] == version)
    if json:
        output.as_json(commit)
    else:
        ticks = "" if commit["tick"] is None else f", tick {commit['tick']}"
        when = output.moment(commit["time_ms"], "milliseconds")
        output.say(f"{table}, version {version}: {commit['operation']}{ticks}, committed {when}")
    _print(found, limit, json=json)


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
    from lakehouse.semantics.moment import parsed

    settings, moments = lake_of(config, lake), (parsed(a), parsed(b))
    layout, fold = Layout(settings.lake.path), fold_of(settings, app)
    name = keyed(table, layout)
    before, after = (snapshot(layout, name, at, fold) for at in moments)
    found = difference(before, after, key=key, limit=_cut(limit, json=json))
    if json:
        said = [{"moment": str(at or "now"), "version": n} for at, n in zip(moments, found.versions, strict=True)]
        output.as_json({"from": said[0], "to": said[1]})
    else:
        sides = [_side(str(at or "now"), n) for at, n in zip(moments, found.versions, strict=True)]
        output.say(f"{table}, from {sides[0]} to {sides[1]}")
    _print(found, limit, json=json)
    if exit_code and not found.equal:
        raise typer.Exit(FAILED)


def keyed(table: str, layout: Layout) -> str:
    """Return a keyed table's name: visits, state.visits. Raises ConfigError for the tables of other layers."""
    layer, name = named(table, layout)
    if layer not in ("silver", "state"):
        raise ConfigError(f"{table}: expected a keyed table, such as visits; rows of {layer} never change.")
    return name if layer == "silver" else f"{layer}.{name}"


def _cut(limit: int | None, *, json: bool) -> int | None:
    return limit or (None if json else ROWS_SHOWN + 1)


def _side(moment: str, version: int | None) -> str:
    return moment if version is None or moment == f"version {version}" else f"{moment} (version {version})"


def _print(found: Difference, limit: int | None, *, json: bool) -> None:
    if json:
        for change in found.changes:
            output.as_json(change)
        output.as_json(found.counts())
        return
    if found.changes:
        shown(found.changes, limit, differing_rows)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in found.counts().items()) + "."
    output.say("No row differs." if found.equal else counts)
