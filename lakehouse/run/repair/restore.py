"""Restores a table from its published changelog alone. The application then goes on from there.

The topic's last record of each key is the row; its headers carry the accumulators and the position. If the changelog
leaves out a part of the table's state, a topic beside it, `<topic>-state`, has the whole state under the same covers:
the state is restored from it, and the visible rows from the state, or, for final results, from the changelog. The
newest cover, in the topic of covers, says which source offsets the changelog covers: the restored table takes in the
records after them, whatever the new lake's bronze has.

Each lake has its own ticks, so positions of two lakes can't be compared. Restored rows lie before all that the new lake
brings: their ticks are counted back from 0, the last one, through all lakes that published to the topic.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from lakehouse.errors import KafkaUnavailable, NotFound, PlanError, StorageError
from lakehouse.kafka import covers
from lakehouse.kafka.covers import Cover
from lakehouse.kafka.drain import read_offsets, read_topic, topic_offsets
from lakehouse.kafka.headers import RecordHeaders, parse_headers
from lakehouse.kafka.ranges import message_bytes
from lakehouse.kafka.topics import Cluster
from lakehouse.kafka.transactional import TIMEOUT_SECONDS
from lakehouse.lake.control.writer_leases import table_lease
from lakehouse.lake.properties import CLOCK, NEEDED, RESTORED, SKIP
from lakehouse.plan.names.beside_topic import state_topic
from lakehouse.plan.table import Table
from lakehouse.run.repair import restorable, restored_rows
from lakehouse.run.repair.newest_records import INSTEAD, Newest, newest_records, rows_as_frame
from lakehouse.run.start.resume_point import Restored, restored_of
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark.bronze import interventions
from lakehouse.spark.changelog import changefeed
from lakehouse.spark.changelog.published import origin_of
from lakehouse.spark.fold.visibility import is_final
from lakehouse.spark.jvm import folders
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.silver import restored_table
from lakehouse.spark.table import tables
from lakehouse.spark.transaction import read_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRIES = 5


@dataclass(frozen=True, slots=True)
class Published:
    """The place of a published changelog: the topic, and Kafka's servers and options."""

    topic: str
    servers: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _ReadChangelog:
    """A changelog: its cover, and the newest records of each key, to be read once.

    state_records: of the whole state. visible_records: of final results.
    """

    cover: Cover
    state_records: Iterator[Newest]
    visible_records: Iterator[Newest]


def restore(open_table: OpenTable, published: Published, on_data_loss: str = "fail") -> int:
    """Make a table from its published changelog; return the number of rows.

    on_data_loss: "fail" or "record", for records after the changelog that Kafka no longer has. Raises DataLoss for
    them; PlanError for a table that needs more than its topics have, that another declaration published, or whose
    tables above were not restored before; StorageError if the lake has a part of the table already, if the topic lacks
    something that the table needs, or ends elsewhere than the topics of the tables above; NotFound if the topic does
    not exist, or has a record that does not belong to the changelog.
    """
    table = open_table.table
    restorable.refuse_kind(table)
    with table_lease(open_table.layout, table.name):
        tables.remove_unfinished(open_table)
        if open_table.table_exists():
            raise StorageError(
                f"table {table.name!r} exists in {open_table.layout.root}. Restore into another lake, or remove the "
                "table first."
            )
        _refuse_remains(open_table)
        restorable.refuse_alone(open_table)
        cluster = Cluster(published.servers, published.options)
        read_changelog = _read_whole(open_table.lake, cluster, published.options, table, published.topic)
        changelog_cover = read_changelog.cover
        restorable.check_fits(open_table, changelog_cover)
        lost_ranges = restorable.find_lost(open_table, cluster, changelog_cover)
        restored_origin = Restored(
            changelog_cover.topic, (*changelog_cover.before, (changelog_cover.origin, changelog_cover.tick))
        )
        initial_properties = {RESTORED: restored_origin.text()}
        if restorable.needs_covered(table):
            changelog_cover = replace(changelog_cover, next=restorable.check_waiting(cluster, changelog_cover, table))
            initial_properties[NEEDED] = json.dumps(changelog_cover.needed or {})
        restorable.accept_lost(open_table, lost_ranges, on_data_loss)
        initial_properties[SKIP] = json.dumps(changelog_cover.next)
        if changelog_cover.clock is not None:
            initial_properties[CLOCK] = json.dumps(changelog_cover.clock)
        lake = open_table.lake
        state_schema = tables.state_schema(open_table.spark, table)
        visible_schema = tables.visible_schema(open_table.spark, table)
        state_rows = restored_rows.decode_rows(
            lake, table, changelog_cover, read_changelog.state_records, state_schema, going_on=True, is_state=True
        )
        visible_rows = restored_rows.decode_rows(
            lake, table, changelog_cover, read_changelog.visible_records, visible_schema
        )
        with (
            rows_as_frame(open_table.lake, state_schema, state_rows) as state_frame,
            rows_as_frame(open_table.lake, visible_schema, visible_rows) as visible_frame,
        ):
            return restored_table.create_restored(open_table, state_frame, visible_frame, initial_properties)


@contextmanager
def changelog_rows(open_table: OpenTable, published: Published, tick: int) -> Iterator[DataFrame]:
    """Give the rows of a table by its published changelog up to a tick: a frame, while the context lasts.

    Records that compaction has removed are lost: at a tick long past, the row of a key that has changed since may be
    missing. Raises NotFound if the topic does not exist, has another table's changelog, or ends before the tick.
    """
    table = open_table.table
    topic, options = published.topic, published.options
    cluster = Cluster(published.servers, options)
    changelog_cover = _newest_cover(cluster, options, topic)
    restored = restored_of(read_properties(open_table.spark, open_table.visible.path).get(RESTORED))
    ends_by_origin = dict(changelog_cover.before) | {changelog_cover.origin: changelog_cover.tick}
    own_origin = origin_of(open_table.lake, table)
    if restored is not None and restored.before == tuple(ends_by_origin.items()):
        ends_by_origin[own_origin] = NO_TICK  # nothing has been published since the restore
    if changelog_cover.of != table.name or own_origin not in ends_by_origin:
        raise NotFound(f"topic {topic!r} has no changelog of table {table.name!r} by this lake. Name the table's own.")
    published_tick = ends_by_origin[own_origin]
    if published_tick < tick and not changefeed.per_event(open_table, published_tick, tick).isEmpty():
        raise NotFound(
            f"topic {topic!r} covers ticks up to {published_tick}; later changes were not published. Run its job."
        )
    ends_by_origin = {
        origin: tick if origin == own_origin else end for origin, end in _ends_up_to(ends_by_origin, own_origin).items()
    }
    if (fault := covers.partitions_fault(cluster, topic, changelog_cover)) is not None:
        raise NotFound(f"{fault}. {INSTEAD}")
    _await_visible(cluster, options, topic, changelog_cover)
    schema = tables.visible_schema(open_table.spark, table)
    last_records = newest_records(
        _changelog_records(cluster, options, topic, changelog_cover, ends_by_origin),
        restored_rows.plain_key_finder(open_table.lake, table),
    )
    with rows_as_frame(
        open_table.lake,
        schema,
        restored_rows.decode_rows(open_table.lake, table, changelog_cover, last_records, schema),
    ) as changelog_frame:
        yield changelog_frame


def _ends_up_to(ends_by_origin: Mapping[str, int], own_origin: str) -> dict[str, int]:
    origin_names = list(ends_by_origin)
    return {origin: ends_by_origin[origin] for origin in origin_names[: origin_names.index(own_origin) + 1]}


def _refuse_remains(open_table: OpenTable) -> None:
    """Refuse the remains of an earlier table of this name: they would count as parts of this table."""
    table = open_table.table
    old_places = (open_table.layout.state(table.name), open_table.late, open_table.layout.anchors(table.name))
    if remains := [place for place in old_places if folders.folder_exists(open_table.spark, place)]:
        raise StorageError(
            f"table {table.name!r}: {', '.join(remains)} is left from an earlier one. Restore into another lake, or "
            "move it away first."
        )
    if interventions.read_interventions(open_table.lake, table.name):
        raise StorageError(
            f"table {table.name!r}: this lake has interventions in a table of that name, which would be made a second "
            "time. Restore into another lake."
        )


def _newest_cover(cluster: Cluster, options: Mapping[str, str], topic: str) -> Cover:
    topic_id = cluster.topics([topic])[topic].id
    cover = covers.read_newest_cover(cluster, options, topic)
    if cover is None or cover.topic != topic_id:
        raise NotFound(
            f"topic {topic!r}: {covers.covers_topic(topic)!r} does not say what it covers; expected a changelog that "
            "lakehouse published. Check the name; if nothing was published yet, run the application."
        )
    return cover


def _read_whole(
    lake: OpenLake, cluster: Cluster, options: Mapping[str, str], table: Table, topic: str
) -> _ReadChangelog:
    """Read a changelog with its cover. Nobody may publish meanwhile."""
    find_plain_key = restored_rows.plain_key_finder(lake, table)
    cover_before = _newest_cover(cluster, options, topic)
    for _ in range(TRIES):
        _check_cover(cluster, cover_before, table, topic)
        refusal = None
        state_name = _find_state_topic(cluster, cover_before, table, topic)
        try:
            if (fault := covers.partitions_fault(cluster, topic, cover_before)) is not None:
                raise NotFound(f"{fault}. {INSTEAD}")
            read_topics = {state_name or topic, *([topic] if is_final(table) else [])}
            for name in read_topics:
                _await_visible(cluster, options, name, cover_before)
            state_records = _start_reading(
                newest_records(
                    _changelog_records(cluster, options, topic, cover_before, state=state_name), find_plain_key
                )
            )
            visible_records = (
                _start_reading(
                    newest_records(_changelog_records(cluster, options, topic, cover_before), find_plain_key)
                )
                if is_final(table)
                else iter(())
            )
            # After the reading: Kafka may have removed records meanwhile.
            for name in read_topics:
                if (fault := covers.removed_fault(cluster, name)) is not None:
                    raise NotFound(f"{fault}. {INSTEAD}")
        except NotFound as error:
            refusal = error
        if (cover_now := _newest_cover(cluster, options, topic)) == cover_before:
            if refusal is not None:
                raise refusal
            return _ReadChangelog(cover_before, state_records, visible_records)
        cover_before = cover_now
    raise KafkaUnavailable(f"topic {topic!r} is being published to. Stop the job that does, then restore.")


def _await_visible(cluster: Cluster, options: Mapping[str, str], topic: str, cover: Cover) -> None:
    """Wait until readers see all that a cover covers: Kafka marks a transaction in each partition by itself.

    The mark may be in the topic of covers first. A transaction of later ticks that was left open does not matter.
    Raises KafkaUnavailable if Kafka does not mark it in time; NotFound for a record that lakehouse did not publish.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while pending_place := _pending_record(cluster, options, topic, cover):
        if time.monotonic() > deadline:
            raise KafkaUnavailable(
                f"record {pending_place} is covered, and after {TIMEOUT_SECONDS:.0f} s its transaction is still open: "
                "readers don't see it. If a job that published was killed, Kafka gives its transaction up after five "
                "minutes: restore then. If it goes on, start its job, which ends the transaction."
            )
        time.sleep(0.05)


def _pending_record(cluster: Cluster, options: Mapping[str, str], topic: str, cover: Cover) -> str | None:
    """Return the place of a covered record in a transaction that is open; None without any."""
    visible_offsets, all_offsets = topic_offsets(cluster, topic), topic_offsets(cluster, topic, committed=False)
    first_open = {
        partition: (visible_end, visible_end + 1)
        for partition, (_, visible_end) in visible_offsets.items()
        if all_offsets[partition][1] > visible_end
    }
    ends_by_origin = cover.ends()
    for message in read_offsets(cluster, options, topic, first_open, committed=False):
        headers = parse_headers(message)
        if headers.position.tick <= ends_by_origin.get(headers.origin, headers.position.tick - 1):
            return headers.where
    return None


def _start_reading(records: Iterator[Newest]) -> Iterator[Newest]:
    """Return the same iterator, begun: it reads and sorts all its records before it gives the first."""
    return chain(list(islice(records, 1)), records)


def _find_state_topic(cluster: Cluster, cover: Cover, table: Table, topic: str) -> str | None:
    """Return the topic beside the changelog that has the table's whole state; None if the changelog has it."""
    if cover.state == cover.topic:
        return None
    state_name = state_topic(topic)
    if not cover.state:
        raise PlanError(
            f"topic {topic!r} leaves out some of what table {table.name!r} keeps (final results, HAVING, order_by, "
            f"suppress), and no topic {state_name!r} has it: the topic has the net changes, or left more out for a "
            f"while. {_PUBLISH_AGAIN}"
        )
    if state_name not in cluster.names() or cluster.topics([state_name])[state_name].id != cover.state:
        raise StorageError(
            f"topic {state_name!r}, which has what table {table.name!r} keeps beside {topic!r}, was deleted, or made "
            f"anew. {_PUBLISH_AGAIN}"
        )
    return state_name


_PUBLISH_AGAIN = (
    "Build the table from bronze: run its application on a lake that has the topic's records. Or delete the topic (and "
    "the one beside it, if it is there), and let its lake publish it again, per event; then restore."
)


def _changelog_records(
    cluster: Cluster,
    options: Mapping[str, str],
    topic: str,
    cover: Cover,
    until: Mapping[str, int] | None = None,
    state: str | None = None,
) -> Iterator[tuple[RecordHeaders, bytes, bytes | None]]:
    """Yield a changelog's records: headers, key and value. Raises NotFound for a record that the cover does not know.

    until: the last tick of each origin; later records, and records of other origins, are left out. state: the topic of
    the whole state, to read instead of the changelog's.
    """
    ends_by_origin = cover.ends()
    for message in read_topic(cluster, options, state or topic):
        headers = parse_headers(message)
        if headers.of != cover.of or headers.origin not in ends_by_origin:
            raise NotFound(
                f"record {headers.where} is of {headers.origin}/{headers.of}, expected {cover.of!r} of "
                f"{', '.join(ends_by_origin)}: another lake, or another program, writes to the topic. Find out who. "
                f"{INSTEAD}"
            )
        if until is None and headers.position.tick > ends_by_origin[headers.origin]:
            raise NotFound(
                f"record {headers.where} is of tick {headers.position.tick}, and the topic is covered up to "
                f"{ends_by_origin[headers.origin]}: somebody else wrote it, or {covers.covers_topic(topic)!r} was "
                f"cut. {INSTEAD}"
            )
        is_within = until is None or headers.position.tick <= until.get(headers.origin, headers.position.tick - 1)
        if (key_bytes := message_bytes(message.key())) is not None and is_within:
            yield headers, key_bytes, message_bytes(message.value())


def _check_cover(cluster: Cluster, cover: Cover, table: Table, topic: str) -> None:
    """Refuse a cover of another table, or a cover that can't be true."""
    if cover.of != table.name:
        raise NotFound(f"topic {topic!r} has the changelog of {cover.of!r}, not of {table.name!r}. Check the names.")
    restorable.check_declaration(cover, table, topic)
    if cover.sent:
        raise StorageError(
            f"topic {topic!r}: the changes after tick {cover.tick} are published in part ({cover.sent:,} records). Let "
            "the job that publishes them finish, then restore; if its lake is lost, build from bronze."
        )
    existing_topics = set(cluster.names())
    topic_facts = cluster.topics([name for name in table.stream.topics if name in existing_topics])
    for name, fact in topic_facts.items():
        covered_offsets = cover.next.get(fact.id, {})
        end_offsets = cluster.offsets((name, partition) for partition in range(fact.partitions))
        for partition, offset in covered_offsets.items():
            if int(partition) >= fact.partitions or offset > end_offsets[name, int(partition)][1]:
                raise StorageError(
                    f"topic {covers.covers_topic(topic)!r} says that {name}/{partition} is covered up to offset "
                    f"{offset:,}, which the topic does not have. Records would be left out silently. {INSTEAD}"
                )
