"""Restores a table from its published changelog alone. The application then goes on from there.

The topic's last record of each key is the row; its headers carry the accumulators and the position. Where the changelog
leaves out some of what the table keeps, that is in a topic beside it, `<topic>-state`, under the same covers: the state
is made from it, and the visible rows from the state, or, of final results, from the changelog. The newest cover,
in the topic beside it, says which source offsets the changelog covers: the restored table takes in the records after
them, whatever the new lake's bronze holds.

Each lake has its own ticks, so positions of two lakes can't be compared. Restored rows lie before all that the new lake
brings: their ticks are counted back from 0, the last one, through all lakes that published to the topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from lakehouse.errors import KafkaUnavailable, NotFound, PlanError, StorageError
from lakehouse.kafka import covers
from lakehouse.kafka.covers import Cover
from lakehouse.kafka.drain import drain
from lakehouse.kafka.headers import RecordHeaders, said_by
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.lease import Lease
from lakehouse.lake.properties import CLOCK, NEEDED, RESTORED, SKIP
from lakehouse.plan.app import leaves_out
from lakehouse.plan.evolution.change import DECLARATION, change_of
from lakehouse.plan.schema import state_topic
from lakehouse.plan.table import Table
from lakehouse.run.repair import restorable, restored_rows
from lakehouse.run.repair.newest import Newest, handed, newest
from lakehouse.run.repair.restored_rows import INSTEAD
from lakehouse.run.start.standing import Restored, restored_of
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.spark import folders
from lakehouse.spark.bronze import interventions
from lakehouse.spark.changelog import changefeed
from lakehouse.spark.changelog.published import origin_of
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.shown import is_final
from lakehouse.spark.silver import filled
from lakehouse.spark.table import tables
from lakehouse.spark.transaction import properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRIES = 5


@dataclass(frozen=True, slots=True)
class Published:
    """Where a table's changelog was published: the topic, and Kafka's servers and options."""

    topic: str
    servers: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Read:
    """A changelog: its cover, and the newest records of each key, to be read once.

    kept: of all that the table keeps. final: of final results.
    """

    cover: Cover
    kept: Iterator[Newest]
    final: Iterator[Newest]


def restore(opened: OpenTable, published: Published) -> int:
    """Make a table from its published changelog; return the number of rows.

    Raises PlanError for a table that needs more than its topics have, that another declaration published, or whose
    tables above were not restored before; StorageError if the lake has a part of the table already, the topic lacks
    something that it needs, or ended elsewhere than those of the tables above; NotFound if the topic does not exist, or
    has a record that does not belong to the changelog.
    """
    table = opened.table
    restorable.refuse_kind(table)
    with Lease(opened.layout.lease(f"silver-{table.name}"), f"table {table.name!r}"):
        tables.remove_begun(opened)
        if opened.exists:
            raise StorageError(
                f"table {table.name!r} exists in {opened.layout.root}. Restore into another lake, or remove the table "
                "first."
            )
        _refuse_remains(opened)
        restorable.refuse_alone(opened)
        cluster = Cluster(published.servers, published.options)
        found = _whole(cluster, published.options, table, published.topic)
        cover = found.cover
        restorable.check_fits(opened, cover)
        restored = Restored(cover.topic, (*cover.before, (cover.origin, cover.tick)))
        begins = {RESTORED: restored.text()}
        if restorable.needs_covered(table):
            cover = replace(cover, next=restorable.check_waiting(cluster, cover, table))
            begins[NEEDED] = json.dumps(cover.needed or {})
        begins[SKIP] = json.dumps(cover.next)
        if cover.clock is not None:
            begins[CLOCK] = json.dumps(cover.clock)
        spark, state, seen = opened.spark, tables.state_schema(opened.spark, table), tables.schema(opened.spark, table)
        kept = restored_rows.rows(spark, table, cover, found.kept, state, going_on=True, kept=True)
        final = restored_rows.rows(spark, table, cover, found.final, seen)
        with handed(opened.lake, state, kept) as kept_rows, handed(opened.lake, seen, final) as final_rows:
            return filled.create(opened, kept_rows, final_rows, begins)


@contextmanager
def changelog(opened: OpenTable, published: Published, tick: int) -> Iterator[DataFrame]:
    """Give the rows of a table by its published changelog up to a tick: a frame, while the context lasts.

    What compaction has removed is lost: at a tick long past, the row of a key that changed since may be missing. Raises
    NotFound if the topic does not exist, has another table's changelog, or ends before the tick.
    """
    table = opened.table
    topic, options = published.topic, published.options
    cluster = Cluster(published.servers, options)
    cover = _newest(cluster, options, topic)
    restored = restored_of(properties(opened.spark, opened.visible.path).get(RESTORED))
    ends, mine = dict(cover.before) | {cover.origin: cover.tick}, origin_of(opened.lake, table)
    if restored is not None and restored.before == tuple(ends.items()):
        ends[mine] = NO_TICK  # nothing was published since the restore
    if cover.of != table.name or mine not in ends:
        raise NotFound(f"topic {topic!r} has no changelog of table {table.name!r} by this lake. Name the table's own.")
    until = ends[mine]
    if until < tick and not changefeed.per_event(opened, until, tick).isEmpty():
        raise NotFound(f"topic {topic!r} covers ticks up to {until}; later changes were not published. Run its job.")
    ends = {origin: tick if origin == mine else end for origin, end in _up_to(ends, mine).items()}
    schema = tables.schema(opened.spark, table)
    last = newest(_records(cluster, options, topic, cover, ends))
    with handed(opened.lake, schema, restored_rows.rows(opened.spark, table, cover, last, schema)) as rows:
        yield rows


def _up_to(ends: Mapping[str, int], mine: str) -> dict[str, int]:
    names = list(ends)
    return {origin: ends[origin] for origin in names[: names.index(mine) + 1]}


def _refuse_remains(opened: OpenTable) -> None:
    """Refuse the remains of an earlier table of this name: they would count as this one's."""
    table = opened.table
    places = (opened.layout.state(table.name), opened.late, opened.layout.anchors(table.name))
    if left := [place for place in places if folders.exists(opened.spark, place)]:
        raise StorageError(
            f"table {table.name!r}: {', '.join(left)} is left from an earlier one. Restore into another lake, or move "
            "it away first."
        )
    if interventions.of(opened.lake, table.name):
        raise StorageError(
            f"table {table.name!r}: this lake has interventions in a table of that name, which would be made a second "
            "time. Restore into another lake."
        )


def _newest(cluster: Cluster, options: Mapping[str, str], topic: str) -> Cover:
    topic_id = cluster.topics([topic])[topic].id
    cover = covers.newest(cluster, options, topic)
    if cover is None or cover.topic != topic_id:
        raise NotFound(
            f"topic {topic!r}: {covers.name_of(topic)!r} does not say what it covers; expected a changelog that "
            "lakehouse published. Check the name; if nothing was published yet, run the application."
        )
    return cover


def _whole(cluster: Cluster, options: Mapping[str, str], table: Table, topic: str) -> _Read:
    """Read a changelog with its cover. Nobody may publish meanwhile."""
    cover = _newest(cluster, options, topic)
    for _ in range(TRIES):
        _check(cluster, cover, table, topic)
        refused = None
        state = _state(cluster, cover, table, topic)
        try:
            kept = _begun(newest(_records(cluster, options, topic, cover, state=state)))
            final = _begun(newest(_records(cluster, options, topic, cover))) if is_final(table) else iter(())
        except NotFound as error:
            refused = error
        if (now := _newest(cluster, options, topic)) == cover:
            if refused is not None:
                raise refused
            return _Read(cover, kept, final)
        cover = now
    raise KafkaUnavailable(f"topic {topic!r} is being published to. Stop the job that does, then restore.")


def _begun(last: Iterator[Newest]) -> Iterator[Newest]:
    """The same, with all records read."""
    return chain(list(islice(last, 1)), last)


def _state(cluster: Cluster, cover: Cover, table: Table, topic: str) -> str | None:
    """The topic beside the changelog that has all that the table keeps; None if the changelog has that."""
    if cover.state == cover.topic or (cover.state is None and not leaves_out(table)):
        return None
    state = state_topic(topic)
    if not cover.state:
        raise PlanError(
            f"topic {topic!r} leaves out some of what table {table.name!r} keeps (final results, HAVING, order_by, "
            f"suppress), and no topic {state!r} has it: an earlier release of lakehouse began the topic, or it has the "
            f"net changes. {_PUBLISH}"
        )
    if state not in cluster.names() or cluster.topics([state])[state].id != cover.state:
        raise StorageError(
            f"topic {state!r}, which has what table {table.name!r} keeps beside {topic!r}, was deleted, or made anew. "
            f"{_PUBLISH}"
        )
    return state


_PUBLISH = (
    "Build the table from bronze: run its application on a lake that has the topic's records. Or delete the topic (and "
    "the one beside it, if it is there), and let its lake publish it again, per event; then restore."
)


def _records(
    cluster: Cluster,
    options: Mapping[str, str],
    topic: str,
    cover: Cover,
    until: Mapping[str, int] | None = None,
    state: str | None = None,
) -> Iterator[tuple[RecordHeaders, bytes, bytes | None]]:
    """Yield the records of a changelog: headers, key and value. Raises NotFound for one that the cover does not know.

    until: the last tick of each origin; records of others, and later ones, are left out. state: the topic beside the
    changelog's that is read instead.
    """
    ends = cover.ends()
    for message in drain(cluster, options, state or topic):
        said = said_by(message)
        if said.of != cover.of or said.origin not in ends:
            raise NotFound(
                f"record {said.where} is of {said.origin}/{said.of}, expected {cover.of!r} of {', '.join(ends)}: "
                f"another lake, or another program, writes to the topic. Find out who. {INSTEAD}"
            )
        if until is None and said.position.tick > ends[said.origin]:
            raise NotFound(
                f"record {said.where} is of tick {said.position.tick}, and the topic is covered up to "
                f"{ends[said.origin]}: somebody else wrote it, or {covers.name_of(topic)!r} was cut. {INSTEAD}"
            )
        within = until is None or said.position.tick <= until.get(said.origin, said.position.tick - 1)
        if (key := message.key()) is not None and within:
            yield said, _bytes(key), None if (value := message.value()) is None else _bytes(value)


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _check(cluster: Cluster, cover: Cover, table: Table, topic: str) -> None:
    """Refuse a cover of another table, or one that can't be true."""
    if cover.of != table.name:
        raise NotFound(f"topic {topic!r} has the changelog of {cover.of!r}, not of {table.name!r}. Check the names.")
    if cover.declared is not None and not (change := change_of({DECLARATION: cover.declared}, table)).can_go_on:
        reasons = "\n".join(f"  {reason}" for reason in change.reasons)
        raise PlanError(
            f"topic {topic!r} was published by table {table.name!r} under another declaration:\n{reasons}\n"
            "Restore it under that one, then change it; or build the new one from bronze."
        )
    if cover.sent:
        raise StorageError(
            f"topic {topic!r}: the changes after tick {cover.tick} are published in part ({cover.sent:,} records). Let "
            "the job that publishes them finish, then restore; if its lake is lost, build from bronze."
        )
    there = set(cluster.names())
    facts = cluster.topics([name for name in table.stream.topics if name in there])
    for name, fact in facts.items():
        known = cover.next.get(fact.id, {})
        ends = cluster.offsets((name, partition) for partition in range(fact.partitions))
        for partition, offset in known.items():
            if int(partition) >= fact.partitions or offset > ends[name, int(partition)][1]:
                raise StorageError(
                    f"topic {covers.name_of(topic)!r} says that {name}/{partition} is covered up to offset {offset:,}, "
                    f"which the topic does not have. Records would be left out silently. {INSTEAD}"
                )
