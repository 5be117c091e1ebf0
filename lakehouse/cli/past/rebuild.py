"""`lakehouse past checkout` and `rebuild`: a moment of a table as a new table; the proof that all ways agree."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.moments import (
    AtOption,
    ClockOption,
    OffsetsOption,
    TickOption,
    VersionOption,
    asked_moment,
    required,
)
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from lakehouse.plan.app import App
    from lakehouse.plan.table import Table
    from lakehouse.run.repair.rebuild import Proof
    from lakehouse.spark.operators.content import Content


class From(StrEnum):
    """What a table is rebuilt from."""

    version = "version"
    bronze = "bronze"
    changelog = "changelog"


TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="A table of the application.")]
TopicOption = Annotated[
    str | None, typer.Option("--topic", help="Of the changelog; the application's own sink of the table if left out.")
]


def checkout(
    table: TableArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new table; it must not exist yet.")],
    app: AppOption = None,
    version: VersionOption = None,
    tick: TickOption = None,
    at: AtOption = None,
    clock: ClockOption = None,
    offsets: OffsetsOption = None,
    again: Annotated[
        bool, typer.Option("--again", help="Keep NEW if it was made from this moment of this table.")
    ] = False,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Copy what a table was at a moment into a new table. Nothing updates the copy, and the table is not touched.

    Example: lakehouse past checkout totals totals_in_june --at 2013-06-30T23:59Z
    """
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings, moment = lake_of(config, lake), required(asked_moment(at, clock, version, tick, offsets))
    application = load_app(app_of(app, settings))
    wanted, name = application.table(table), free_name(application, new)
    made = Lake(settings=settings).checkout(wanted, name, moment, again=again)
    _say_made(name, f"{table} at {moment}", made, json)


def rebuild(
    table: TableArgument,
    new: Annotated[
        str | None, typer.Argument(metavar="[NEW]", help="The new table; none with --prove.", show_default=False)
    ] = None,
    app: AppOption = None,
    origin: Annotated[From | None, typer.Option("--from", help="What the new table is made from.")] = None,
    prove: Annotated[bool, typer.Option("--prove", help="Rebuild it in every possible way, and compare.")] = False,
    topic: TopicOption = None,
    version: VersionOption = None,
    tick: TickOption = None,
    at: AtOption = None,
    clock: ClockOption = None,
    offsets: OffsetsOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Rebuild a table at a moment as a new one: from Delta's version, from bronze alone, or from its changelog alone.

    --prove does all that apply, into tables that are removed, and compares row counts and hashes: exit code 1 where
    they are not equal, or where there is only one way.

    Example: lakehouse past rebuild totals --prove
    """
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings, moment = lake_of(config, lake), asked_moment(at, clock, version, tick, offsets)
    application = load_app(app_of(app, settings))
    wanted = application.table(table)
    one = Lake(settings=settings)
    if prove:
        if new is not None or origin is not None:
            raise ConfigError("rebuild --prove: found NEW or --from; it makes its own tables, from every source.")
        proved(one.prove(wanted, moment, topic=changelog_topic(application, wanted, topic)), table, json)
        return
    if new is None or origin is None:
        raise ConfigError("rebuild: expected NEW and --from version, bronze or changelog; or --prove.")
    name = free_name(application, new)
    source = changelog_topic(application, wanted, topic) if origin is From.changelog else None
    made = one.rebuild(wanted, name, origin.value, moment, topic=source)
    _say_made(name, f"{table} at {moment or 'its last tick'}, from {origin.value}", made, json)


def free_name(app: App, name: str) -> str:
    """Return a new table's name; ConfigError for one that the application keeps, PlanError for an invalid one."""
    from lakehouse.plan.schema import check_name

    if name in [table.name for table in app.tables]:
        raise ConfigError(f"table {name!r} belongs to the application; expected the name of a new one.")
    return check_name(name, "table")


def changelog_topic(app: App, table: Table, given: str | None) -> str | None:
    """Return the topic of a table's changelog: the given one, or that of the application's one sink of it."""
    from lakehouse.plan.schema import check_topic

    if given is not None:
        return check_topic(given)
    topics = [sink.topic for sink in app.sinks if sink.of == table]
    return topics[0] if len(topics) == 1 else None


def proved(proofs: list[Proof], table: str, json: bool) -> None:
    """Print what every way gave; end with exit code 1 where they do not prove that it is the same."""
    told = [proof.content for proof in proofs if proof.content is not None]
    equal = len(told) > 1 and len(set(told)) == 1
    if json:
        ways = [
            {
                "from": proof.origin, "rows": proof.content.rows if proof.content else None,
                "hash": str(proof.content.hash) if proof.content else None, "seconds": round(proof.seconds, 3),
                "refused": proof.refused,
            }
            for proof in proofs
        ]  # fmt: skip
        show.as_json({"table": table, "equal": equal, "ways": ways})
    else:
        rows = [
            (p.origin, p.content and p.content.rows, p.content and str(p.content.hash), round(p.seconds, 1))
            for p in proofs
        ]
        show.table(table, ("from", "rows", "hash", "seconds"), rows)
        for proof in proofs:
            if proof.refused is not None:
                show.say(f"{proof.origin}: {proof.refused}")
        show.say("They are equal." if equal else "They differ." if len(set(told)) > 1 else "Nothing to compare with.")
    if not equal:
        raise typer.Exit(FAILED)


def _say_made(name: str, what: str, made: Content, json: bool) -> None:
    if json:
        show.as_json({"table": name, "of": what, "rows": made.rows, "hash": str(made.hash)})
    else:
        show.say(f"Table {name} is {what}: {made.rows:,} rows, hash {made.hash}.")
