"""`lakehouse test drill`: is a damaged table found, and restored? Tried on a copy."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of
from lakehouse.errors import ConfigError, KafkaUnavailable

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
    from lakehouse.lake.layout import Layout
    from lakehouse.plan.schema import check_name, check_topic
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    layout = Layout(settings.lake.path)
    if history:
        _history(layout.root, check_name(table, "table") if table is not None else None, json=json)
        return
    if table is None:
        raise ConfigError("drill: expected a table, such as lakehouse test drill totals; or --history.")
    application = load_app(app_of(app, settings))
    wanted = application.table(table)
    topics = [check_topic(topic)] if topic is not None else [s.topic for s in application.sinks if s.of == wanted]
    with ExitStack() as stack:
        published = _published(stack, settings, topics[0], needed=topic is not None) if topics else None
        from lakehouse.run.drill.drill import DAMAGES, drill
        from lakehouse.spark.open_lake import OpenLake

        spark = Lake(settings=settings).spark
        # What is damaged here on purpose would fill the screen with stack traces; what was found stands in the result.
        spark.sparkContext.setLogLevel("OFF")
        done = drill(
            OpenLake(spark, layout).open(wanted), published, tuple(damage or DAMAGES),
            _told if json else _shown,
        )  # fmt: skip
    if json:
        show.as_json(asdict(done))
    else:
        show.say(
            f"Table {done.table} at tick {done.tick:,}: {done.rows:,} rows, hash {done.hash}. "
            f"{'Every damage was found, and nothing is lost' if done.ok else 'SOMETHING IS WRONG'}; {done.seconds} s."
        )
    if not done.ok:
        raise typer.Exit(FAILED)


def _published(stack: ExitStack, settings: Settings, topic: str, *, needed: bool) -> Published | None:
    """Where the changelog can be read; None where the application alone names the topic, and Kafka can't be reached."""
    from lakehouse.run.repair.restore import Published
    from lakehouse.run.start.kafka import kafka

    try:
        return Published(topic, stack.enter_context(kafka(settings)), settings.kafka.options)
    except KafkaUnavailable:
        if needed:
            raise
        return None


def _told(case: DrillCase) -> None:
    """A line for each damage, for a program that waits; stdout has the result alone."""
    way = {one.way: one.seconds for one in case.restored}
    show.as_json(
        {"event": "progress", "damage": case.damage, "found_by": case.found_by, "restored_seconds": way}, stderr=True
    )


def _shown(case: DrillCase) -> None:
    show.table(
        f"{case.damage}: {case.done}",
        ("way", "seconds", "rows", "equal", "lost", "reason"),
        [(one.way, one.seconds, one.rows, one.equal, one.lost, one.reason) for one in case.restored],
    )
    found = f"found in {case.found_seconds} s by {case.found_by}" if case.found_by is not None else "NOT FOUND"
    show.say(found)


def _history(root: str, table: str | None, *, json: bool) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.drill.logbook import history

    found = history(Layout(root), table)
    if json:
        for one in found:
            show.as_json(one)
    elif not found:
        show.say("No drill was run yet.")
    else:
        rows = [
            (one["at"], one["table"], one["tick"], one["rows"], len(one["cases"]), one["ok"], one["seconds"])
            for one in found
        ]
        show.table("Drills", ("at", "table", "tick", "rows", "damages", "ok", "seconds"), rows)
