"""`lakehouse repair rehydrate`: bronze back into a Kafka topic."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of
from lakehouse.errors import ConfigError

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

    with _progress(to) as listen:
        done = Lake(settings=lake_of(config, lake)).rehydrate(
            topic, to, at=at, clock=clock, tick=tick, offsets=offsets, from_tick=from_tick,  # type: ignore[arg-type]
            partitions=_partitions(partitions), append=append, positions=positions, listen=listen,
        )  # fmt: skip
    if json:
        show.as_json(_facts(done))
    else:
        _print(done)


def _partitions(text: str) -> int | None:
    if text == SAME:
        return None
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:9]) <= PARTITIONS_MAX:
        raise ConfigError(f"--partitions {text!r}: expected {SAME}, or a number from 1 to {PARTITIONS_MAX:,}.")
    return int(text)


@contextmanager
def _progress(to: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many records are in the topic, of how many, while it is written; on stderr, for a person only."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = show.console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"reading bronze, writing {to}", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _facts(done: Rehydrated) -> dict[str, Any]:
    return {
        "topic": done.topic, "to": done.to, "records": done.records, "written": done.written, "created": done.created,
        "partitions": done.partitions, "before_1970": done.untimed,
        "moved": [
            {
                "topic_id": of.part.topic_id, "partition": of.part.partition, "records": of.part.records,
                "from_offset": of.part.first_offset, "last_offset": of.part.last_offset, "to_offset": of.offset,
                "holes": of.holes,
            }
            for of in done.moved
        ],
    }  # fmt: skip


def _print(done: Rehydrated) -> None:
    made = f"created, with {done.partitions} partitions" if done.created else f"{done.partitions} partitions"
    here = "by this run" if done.written == done.records else f"{done.written:,} of them by this run"
    show.say(f"{done.records:,} records of {done.topic} were written to topic {done.to} ({made}), {here}.")
    moved = [of for of in done.moved if not of.keeps_offsets]
    if moved:
        rows = [
            (of.part.partition, of.part.records, _range(of.part.first_offset, of.part.last_offset), of.holes,
             _range(of.offset, of.offset + of.part.records - 1))
            for of in done.moved
        ]  # fmt: skip
        columns = ("partition", "records", f"offsets of {done.topic}", "without a record", f"offsets in {done.to}")
        show.table("Offsets differ", columns, rows)
    elif done.moved:
        show.say("Every record has the offset that it had.")
    if done.untimed:
        show.say(
            f"{done.untimed:,} records have a time before 1970-01-01T00:00:00.001Z, which Kafka's client can't write: "
            "they were given that one."
        )


def _range(first: int, last: int) -> str:
    return f"{first}-{last}"
