"""`lakehouse past checkout` and `rebuild`: a moment of a table as a new table; the proof that all ways agree."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.look.read import say_erased_since
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.moments import (
    AtOption,
    ClockOption,
    OffsetsOption,
    TickOption,
    VersionOption,
    moment_of_options,
    position_finder,
    required_moment,
)
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of
from lakehouse.errors import ConfigError
from lakehouse.markup.quantity import quantity

if TYPE_CHECKING:
    from lakehouse.plan.app import App
    from lakehouse.plan.table import Table
    from lakehouse.run.repair.rebuild import Proof
    from lakehouse.spark.content import Content


class RebuildOrigin(StrEnum):
    """The source from which to rebuild a table."""

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
    from lakehouse.lake.layout import Layout
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    app_path = app_of(app, settings)
    find_source = position_finder(settings, app_path)
    past_moment = required_moment(moment_of_options(at, clock, version, tick, offsets, find_source))
    application = load_app(app_path)
    declared_table, new_name = application.table(table), free_name(application, new)
    new_content = Lake(settings=settings).checkout(declared_table, new_name, past_moment, again=again)
    say_erased_since(Layout(settings.lake.path), past_moment, table)
    _say_new_table(new_name, f"{table} at {past_moment}", new_content, json)


def rebuild(
    table: TableArgument,
    new: Annotated[
        str | None, typer.Argument(metavar="[NEW]", help="The new table; none with --prove.", show_default=False)
    ] = None,
    app: AppOption = None,
    origin: Annotated[RebuildOrigin | None, typer.Option("--from", help="What the new table is made from.")] = None,
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
    from lakehouse.lake.layout import Layout
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    app_path = app_of(app, settings)
    past_moment = moment_of_options(at, clock, version, tick, offsets, position_finder(settings, app_path))
    application = load_app(app_path)
    declared_table = application.table(table)
    lake_api = Lake(settings=settings)
    layout = Layout(settings.lake.path)
    if prove:
        if new is not None or origin is not None:
            raise ConfigError("rebuild --prove: found NEW or --from; it makes its own tables, from every source.")
        proofs = lake_api.prove(declared_table, past_moment, topic=changelog_topic(application, declared_table, topic))
        say_erased_since(layout, past_moment, table)
        print_proofs(proofs, table, json)
        return
    if new is None or origin is None:
        raise ConfigError("rebuild: expected NEW and --from version, bronze or changelog; or --prove.")
    if topic is not None and origin is not RebuildOrigin.changelog:
        raise ConfigError(f"rebuild --from {origin.value}: found --topic; only --from changelog and --prove read one.")
    new_name = free_name(application, new)
    source_topic = changelog_topic(application, declared_table, topic) if origin is RebuildOrigin.changelog else None
    new_content = lake_api.rebuild(declared_table, new_name, origin.value, past_moment, topic=source_topic)
    say_erased_since(layout, past_moment, table)
    _say_new_table(new_name, f"{table} at {past_moment or 'its last tick'}, from {origin.value}", new_content, json)


def free_name(app: App, name: str) -> str:
    """Return a new table's name. Raises ConfigError for a name that the application keeps, PlanError for a bad one."""
    from lakehouse.plan.expression.schema import check_name

    if name.lower() in [table.name.lower() for table in app.tables]:  # SQL does not tell names apart by case
        raise ConfigError(f"table {name!r} belongs to the application; expected the name of a new one.")
    return check_name(name, "table")


def changelog_topic(app: App, table: Table, topic_option: str | None) -> str | None:
    """Return the topic of a table's changelog: the given one, or that of the table's one sink in the application."""
    from lakehouse.plan.expression.schema import check_topic

    if topic_option is not None:
        return check_topic(topic_option)
    topics = [sink.topic for sink in app.sinks if sink.source == table]
    return topics[0] if len(topics) == 1 else None


def print_proofs(proofs: list[Proof], table: str, json: bool) -> None:
    """Print the result of every way; end with exit code 1 if they do not prove that all are the same."""
    contents = [proof.content for proof in proofs if proof.content is not None]
    is_equal = len(contents) > 1 and len(set(contents)) == 1
    if json:
        json_ways = [
            {
                "from": proof.origin, "rows": proof.content.rows if proof.content else None,
                "hash": str(proof.content.hash) if proof.content else None, "seconds": round(proof.seconds, 3),
                "refused": proof.refused,
            }
            for proof in proofs
        ]  # fmt: skip
        show.print_json({"table": table, "equal": is_equal, "ways": json_ways})
    else:
        way_rows = [
            (p.origin, p.content and p.content.rows, p.content and str(p.content.hash), round(p.seconds, 1))
            for p in proofs
        ]
        show.print_table(table, ("from", "rows", "hash", "seconds"), way_rows)
        for proof in proofs:
            if proof.refused is not None:
                show.say(f"{proof.origin}: {proof.refused}")
        show.say(
            "They are equal." if is_equal else "They differ." if len(set(contents)) > 1 else "Nothing to compare with."
        )
    if not is_equal:
        raise typer.Exit(FAILED)


def _say_new_table(name: str, origin_text: str, new_content: Content, json: bool) -> None:
    if json:
        show.print_json({"table": name, "of": origin_text, "rows": new_content.rows, "hash": str(new_content.hash)})
    else:
        show.say(f"Table {name} is {origin_text}: {quantity(new_content.rows, 'row')}, hash {new_content.hash}.")
