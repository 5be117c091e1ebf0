"""`lakehouse repair rehydrate`: bronze back into a Kafka topic."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of
from lakehouse.errors import ConfigError
from lakehouse.markup.quantity import quantity
from lakehouse.phases import phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehouse.run.repair.rehydrate import Rehydrated

SAME = "same"
PARTITIONS_MAX = 10_000


def rehydrate(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic that bronze has.")],
    to: Annotated[str, typer.Option("--to", metavar="TOPIC2", help="The topic to write; created if need be.")],
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="Records up to this time, by --clock.")] = None,
    clock: Annotated[
        str, typer.Option("--clock", metavar="event|commit", help="The records' time, or the commits'.")
    ] = "event",
    tick: Annotated[int | None, typer.Option("--tick", min=0, help="Records up to this tick.")] = None,
    offsets: Annotated[
        str | None, typer.Option("--offsets", metavar="TOPIC/P=N,...", help="Records before these offsets.")
    ] = None,
    from_tick: Annotated[int | None, typer.Option("--from-tick", min=1, help="Records from this tick on.")] = None,
    partitions: Annotated[
        str, typer.Option("--partitions", metavar="same|N", help="The number of partitions, if the topic is created.")
    ] = SAME,
    append: Annotated[bool, typer.Option("--append", help="Append to the records that TOPIC2 has.")] = False,
    positions: Annotated[
        bool, typer.Option("--positions", help="Add headers: lakehouse.topic_id, lakehouse.offset, lakehouse.tick.")
    ] = False,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Write a topic's records in bronze to a Kafka topic: same bytes, headers, times and partitions, in order.

    TOPIC2 must be new or empty, or be the one that an interrupted run began: run the same again, and it continues where
    it ended. TOPIC itself may be named if Kafka has lost it. Without Spark.

    Example: lakehouse repair rehydrate flights --to flights-2013-06 --at 2013-07-01
    """
    from lakehouse.run.lake import Lake

    with _show_written_records(to) as show_written:
        outcome = Lake(settings=lake_of(config, lake)).rehydrate(
            topic, to, at=at, clock=clock, tick=tick, offsets=offsets, from_tick=from_tick,  # type: ignore[arg-type]
            partitions=_parse_partitions(partitions), append=append, positions=positions, listen=show_written,
        )  # fmt: skip
    if json:
        show.print_json(_outcome_facts(outcome))
    else:
        _print_outcome(outcome)


def _parse_partitions(text: str) -> int | None:
    if text == SAME:
        return None
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:9]) <= PARTITIONS_MAX:
        raise ConfigError(f"--partitions {text!r}: expected {SAME}, or a number from 1 to {PARTITIONS_MAX:,}.")
    return int(text)


@contextmanager
def _show_written_records(target_topic: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a listener: called with the number of records in the topic, it shows it in the phase."""
    with phase("writing", f"reading bronze, writing {target_topic}", unit="records") as writing:

        def show_written(record_count: int, record_total: int) -> None:
            writing.done, writing.total = record_count, record_total

        yield show_written


def _outcome_facts(outcome: Rehydrated) -> dict[str, Any]:
    return {
        "topic": outcome.topic,
        "to": outcome.to,
        "records": outcome.records,
        "written": outcome.written,
        "created": outcome.created,
        "partitions": outcome.partitions,
        "before_1970": outcome.untimed,
        "moved": [
            {
                "topic_id": moved_part.part.topic_id,
                "partition": moved_part.part.partition,
                "records": moved_part.part.records,
                "from_offset": moved_part.part.first_offset,
                "last_offset": moved_part.part.last_offset,
                "to_offset": moved_part.offset,
                "holes": moved_part.holes,
            }
            for moved_part in outcome.moved
        ],
    }


def _print_outcome(outcome: Rehydrated) -> None:
    topic_state = f"{'created, with ' if outcome.created else ''}{quantity(outcome.partitions, 'partition')}"
    run_text = "by this run" if outcome.written == outcome.records else f"{outcome.written:,} of them by this run"
    show.say(
        f"{quantity(outcome.records, 'record')} of {outcome.topic} written to topic {outcome.to} ({topic_state}), "
        f"{run_text}."
    )
    shifted_parts = [moved_part for moved_part in outcome.moved if not moved_part.keeps_offsets]
    if shifted_parts:
        part_rows = [
            (
                moved_part.part.partition,
                moved_part.part.records,
                _format_offset_range(moved_part.part.first_offset, moved_part.part.last_offset),
                moved_part.holes,
                _format_offset_range(moved_part.offset, moved_part.offset + moved_part.part.records - 1),
            )
            for moved_part in outcome.moved
        ]
        column_titles = (
            "partition",
            "records",
            f"offsets of {outcome.topic}",
            "without a record",
            f"offsets in {outcome.to}",
        )
        show.print_table("Offsets differ", column_titles, part_rows)
    elif outcome.moved:
        show.say("Every record has the offset that it had.")
    if outcome.untimed:
        show.say(
            f"{outcome.untimed:,} records have a time before 1970-01-01T00:00:00.001Z, which Kafka's client can't "
            "write: they were given that one."
        )


def _format_offset_range(first_offset: int, last_offset: int) -> str:
    return f"{first_offset}-{last_offset}"
