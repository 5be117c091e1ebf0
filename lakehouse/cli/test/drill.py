"""`lakehouse test drill`: is a damaged table found, and restored? Tried on a copy."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of
from lakehouse.errors import ConfigError, KafkaUnavailable
from lakehouse.markup.quantity import quantity

if TYPE_CHECKING:
    from lakehouse.run.drill.logbook import DrillCase
    from lakehouse.run.repair.restore import Published
    from lakehouse.settings.config import Settings


def drill(
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="The table.")] = None,
    app: AppOption = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="Where its changelog is published; needed if the application does not say."),
    ] = None,
    damage: Annotated[list[str] | None, typer.Option("--damage", help="Only this damage; can be repeated.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Show the drills that were run; run none.")] = False,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Damage a copy of a table, find the damage, restore it from a version, its changelog and bronze; compare.

    The live table is only read. Exit code 1 where a damage was not found, or a restored table is not equal.

    Example: lakehouse test drill totals
    """
    from lakehouse.lake import store
    from lakehouse.lake.layout import Layout
    from lakehouse.plan.expression.schema import check_name, check_topic
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    layout = Layout(settings.lake.path)
    if history:
        if damage or topic is not None:
            raise ConfigError("drill --history: found --damage or --topic; expected neither: it runs no drill.")
        _show_history(layout.root, check_name(table, "table") if table is not None else None, json=json)
        return
    if table is None:
        raise ConfigError("drill: expected a table, such as lakehouse test drill totals; or --history.")
    application = load_app(app_of(app, settings))
    declared_table = application.table(table)
    changelog_topics = (
        [check_topic(topic)]
        if topic is not None
        else [sink.topic for sink in application.sinks if sink.source == declared_table]
    )
    with ExitStack() as exit_stack:
        published_changelog = (
            _published_changelog(exit_stack, settings, changelog_topics[0], is_needed=topic is not None)
            if changelog_topics
            else None
        )
        from lakehouse.run.drill.drill import DAMAGES, drill
        from lakehouse.run.start.registry import SchemaLookUp
        from lakehouse.spark.changelog.upstream import open_lake

        if store.is_remote(layout.root):  # executors on other machines do not see the folder of the copies
            settings = replace(settings, spark=replace(settings.spark, master="local[*]"))
        spark = Lake(settings=settings).spark
        # The damages made on purpose would fill the screen with stack traces; the result says what was detected.
        spark.sparkContext.setLogLevel("OFF")
        lake_opened = open_lake(spark, layout, look_up_schema=SchemaLookUp(settings))
        drill_result = drill(
            lake_opened.open(declared_table), published_changelog, tuple(damage or DAMAGES),
            _say_case_as_json if json else _show_case,
        )  # fmt: skip
    if json:
        show.print_json(asdict(drill_result))
    else:
        show.say(
            f"Table {drill_result.table} at tick {drill_result.tick:,}: {quantity(drill_result.rows, 'row')}, hash "
            f"{drill_result.hash}. "
            f"{'Every damage was found, and nothing is lost' if drill_result.ok else 'SOMETHING IS WRONG'}; "
            f"{drill_result.seconds} s."
        )
    if not drill_result.ok:
        raise typer.Exit(FAILED)


def _published_changelog(exit_stack: ExitStack, settings: Settings, topic: str, *, is_needed: bool) -> Published | None:
    """Return the place of the changelog; None if only the application names the topic, and Kafka does not answer."""
    from lakehouse.run.repair.restore import Published
    from lakehouse.run.start.kafka import open_kafka

    try:
        return Published(topic, exit_stack.enter_context(open_kafka(settings)), settings.kafka.options)
    except KafkaUnavailable:
        if is_needed:
            raise
        return None


def _say_case_as_json(drill_case: DrillCase) -> None:
    """Print a line for each damage, for a program that waits; stdout has only the result."""
    seconds_by_way = {restored_way.way: restored_way.seconds for restored_way in drill_case.restored}
    show.print_json(
        {
            "event": "progress",
            "damage": drill_case.damage,
            "found_by": drill_case.found_by,
            "restored_seconds": seconds_by_way,
        },
        stderr=True,
    )


def _show_case(drill_case: DrillCase) -> None:
    show.print_table(
        f"{drill_case.damage}: {drill_case.done}",
        ("way", "seconds", "rows", "equal", "lost", "reason"),
        [
            (
                restored_way.way,
                restored_way.seconds,
                restored_way.rows,
                restored_way.equal,
                restored_way.lost,
                restored_way.reason,
            )
            for restored_way in drill_case.restored
        ],
    )
    finding_text = (
        f"found in {drill_case.found_seconds} s by {drill_case.found_by}"
        if drill_case.found_by is not None
        else "NOT FOUND"
    )
    show.say(finding_text)


def _show_history(root: str, table: str | None, *, json: bool) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.drill.logbook import read_history

    past_drills = list(read_history(Layout(root), table))
    if json:
        for past_drill in past_drills:
            show.print_json(past_drill)
    elif not past_drills:
        show.say("No drill was run yet.")
    else:
        drill_rows = [
            (
                past_drill["at"],
                past_drill["table"],
                past_drill["tick"],
                past_drill["rows"],
                len(past_drill["cases"]),
                past_drill["ok"],
                past_drill["seconds"],
            )
            for past_drill in past_drills
        ]
        show.print_table("Drills", ("at", "table", "tick", "rows", "damages", "ok", "seconds"), drill_rows)
