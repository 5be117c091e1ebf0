"""Decides which tables can be restored from their changelog, and whether one fits the tables above it in the lake.

A table that reads tables goes on from two things: its own rows, and the rows that the tables above it had then. So the
tables above are restored first, each from its own changelog, and all changelogs must end at the same tick.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from lakehouse.errors import DataLoss, PlanError, StorageError
from lakehouse.kafka.covers import Cover, NextOffsets, offsets_of_existing
from lakehouse.kafka.drain import topic_offsets
from lakehouse.kafka.topics import Cluster, listed_topics
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.properties import RESTORED, SKIP
from lakehouse.plan.evolution.change import compare_fingerprints
from lakehouse.plan.evolution.fingerprint import table_fingerprint
from lakehouse.plan.origin import TableJoin
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import meeting_streams, tables_looked_up_by_time
from lakehouse.plan.table import Table
from lakehouse.run.repair.newest_records import INSTEAD
from lakehouse.run.start.resume_point import restored_of
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.gaps import Gap, KafkaTopic, find_gaps, record_gaps
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.silver import restored_table
from lakehouse.spark.transaction import read_properties

_INSTEAD = "Build it from bronze: run its application on a lake that has the topics' records."


def refuse_kind(table: Table) -> None:
    """Raise PlanError for a table that needs more than its topics have to go on."""
    if table.is_history:
        raise PlanError(f"table {table.name!r} is a history, and its topic does not have all that it keeps. {_INSTEAD}")
    if looking_up := [part.reads[0].name for part in meeting_streams(table.stream) if part.reads]:
        raise PlanError(
            f"table {table.name!r} is made from a join of streams after {looking_up[0]} was looked up: what a record "
            f"that waits for others found there is in no changelog. {_INSTEAD}"
        )
    if truncated := [source.topic for source in table.stream.sources if source.applies_truncates]:
        raise PlanError(
            f"table {table.name!r} applies the truncates of topic {truncated[0]!r}: the next one deletes the keys of "
            f"the topic's records, and this lake's bronze may not have those of all restored rows. {_INSTEAD}"
        )
    by_arrival = [join.table for join in _table_joins(table.stream) if join.as_of != "event time"]
    for joined_table in tables_looked_up_by_time(table.stream):
        if joined_table.stream.reads or meeting_streams(joined_table.stream) or joined_table in by_arrival:
            raise PlanError(
                f"table {table.name!r} looks up what {joined_table.name} was at earlier times: no changelog has all "
                f"of that, and not all that makes {joined_table.name} is in its own topic. {_INSTEAD}"
            )


def refuse_alone(open_table: OpenTable) -> None:
    """Raise PlanError for a table that reads tables which were not restored in this lake."""
    missing = [
        upstream.name for upstream in _restored_upstream(open_table) if _restored_state(open_table, upstream) is None
    ]
    if missing:
        raise PlanError(
            f"table {open_table.name!r} is made from {', '.join(missing)}: it goes on from the rows that are there "
            f"when its own changelog ends. Restore {missing[0]} first, from its own topic, in a lake that does not "
            f"have it; {open_table.name} afterwards. Or build all of it from bronze, in a lake that has the topics' "
            "records."
        )


def check_declaration(cover: Cover, table: Table, topic: str) -> None:
    """Raise PlanError if a table can't go on from the rows of a changelog: another declaration computed them."""
    if cover.declared is None:
        raise PlanError(
            f"topic {topic!r} does not say under which declaration its rows were computed; expected that of table "
            f"{table.name!r}. {INSTEAD}"
        )
    old_plan, new_plan = json.loads(cover.declared), table_fingerprint(table)
    if "order_unit" in new_plan and "order_unit" not in old_plan and old_plan.get("order_by") == new_plan["order_by"]:
        raise PlanError(
            f"topic {topic!r}: the order_by of its rows, of table {table.name!r}, is in milliseconds; expected "
            f"microseconds. An earlier release published it. {INSTEAD}"
        )
    if not (change := compare_fingerprints(old_plan, new_plan)).can_go_on:
        reason_lines = "\n".join(f"  {reason}" for reason in change.reasons)
        raise PlanError(
            f"topic {topic!r} was published by table {table.name!r} under another declaration:\n{reason_lines}\n"
            "Restore it under that one, then change it; or build the new one from bronze."
        )


def check_fits(open_table: OpenTable, cover: Cover) -> None:
    """Raise StorageError if a table above was restored as of another moment than a cover's."""
    for upstream in _restored_upstream(open_table):
        restored_state = _restored_state(open_table, upstream)
        assert restored_state is not None
        tick, covered_offsets = restored_state
        if tick != cover.tick or any(
            cover.next.get(topic) != next_offsets for topic, next_offsets in covered_offsets.items()
        ):
            ends_text = (
                "after other records than" if tick == cover.tick else f"at tick {cover.tick}, not at tick {tick} as"
            )
            raise StorageError(
                f"table {open_table.name!r}: its changelog ends {ends_text} that from which {upstream.name!r} was "
                "restored: rows of two moments don't fit each other. Let the job that publishes them catch up, and "
                "stop it; then restore both into another lake."
            )


def _restored_upstream(open_table: OpenTable) -> list[Table]:
    """Return the tables above that are restored, too, without those that are looked up by time."""
    by_time = tables_looked_up_by_time(open_table.table.stream)
    return [upstream for upstream in open_table.table.stream.reads if upstream not in by_time]


def needs_covered(table: Table) -> bool:
    """Say whether records that a table's changelog covers still count for later ones."""
    return bool(meeting_streams(table.stream) or tables_looked_up_by_time(table.stream))


def check_waiting(cluster: Cluster, cover: Cover, table: Table) -> NextOffsets:
    """Return the covered offsets of the topics that there are, of a table that needs covered records.

    Raises StorageError if Kafka no longer has a record that counts: one that could meet a later one in a join of
    streams, or that was a table's row at an earlier time.
    """
    needed_by_topic = {topic: cover.needed or {} for part in meeting_streams(table.stream) for topic in part.topics}
    needed_by_topic |= {
        topic: {} for joined_table in tables_looked_up_by_time(table.stream) for topic in joined_table.stream.topics
    }
    existing_topics = set(cluster.names())
    topic_facts = cluster.topics([name for name in needed_by_topic if name in existing_topics])
    if missing_topics := [name for name in needed_by_topic if name not in topic_facts]:
        raise _lost_error(table, f"there is no topic {missing_topics[0]!r}")
    for name, fact in topic_facts.items():
        needed_offsets = needed_by_topic[name]
        if "compact" in (cluster.config(name).get("cleanup.policy") or ""):
            raise _lost_error(table, f"topic {name!r} is compacted")
        covered_ends = cover.next.get(fact.id, {})
        kept_offsets = cluster.offsets((name, int(partition)) for partition in covered_ends)
        for partition, end_offset in covered_ends.items():
            first_offset = kept_offsets[name, int(partition)][0]
            begin = needed_offsets.get(fact.id, {}).get(partition, 0)
            if begin < min(first_offset, end_offset):
                raise _lost_error(
                    table, f"{name}/{partition} begins at offset {first_offset:,}, and those from {begin:,} on count"
                )
    remaining_offsets = offsets_of_existing(cluster, table.stream.topics, cover.next)
    needed_offsets = cover.needed or {}
    gone_ids = {*cover.next} - {*remaining_offsets}
    if any(
        end_offset > needed_offsets.get(topic_id, {}).get(part, 0)
        for topic_id in gone_ids
        for part, end_offset in cover.next[topic_id].items()
    ):
        raise _lost_error(table, "a topic was deleted, or recreated, with such records")
    return remaining_offsets


def find_lost(open_table: OpenTable, cluster: Cluster, cover: Cover) -> list[Gap]:
    """Return the offsets after a changelog that neither Kafka nor this lake's bronze has, of its source topics."""
    topic_names = open_table.table.stream.topics
    kafka_topics = {
        name: KafkaTopic(fact.id, topic_offsets(cluster, name))
        for name, fact in listed_topics(cluster, topic_names).items()
    }
    return restored_table.lost_to_bronze(open_table, lost_after(cover.next, topic_names, kafka_topics))


def lost_after(covered: NextOffsets, topic_names: Iterable[str], kafka_topics: Mapping[str, KafkaTopic]) -> list[Gap]:
    """Return the offsets after those that a changelog covers, {topic id: {partition: offset}}, which Kafka lost."""
    covered_topics = {
        name: TopicState(kafka_topics[name].id, next_offsets, dict.fromkeys(next_offsets, NO_TICK + 1))
        for name in topic_names
        if name in kafka_topics and kafka_topics[name].id in covered
        for next_offsets in [{int(part): offset for part, offset in covered[kafka_topics[name].id].items()}]
    }
    lost_ranges = find_gaps(covered_topics, kafka_topics, covered_topics)
    # A cover has no names. A topic that it does not know has taken the place of one that is gone, or is new.
    unknown_names = [name for name in topic_names if name not in covered_topics]
    gone_ids = covered.keys() - {state.id for state in covered_topics.values()}
    if unknown_names:
        lost_ranges += [
            Gap(" or ".join(unknown_names), topic_id, int(part), offset, None, "the topic was deleted, or recreated")
            for topic_id in sorted(gone_ids)
            for part, offset in sorted(covered[topic_id].items())
        ]
    return lost_ranges


def accept_lost(open_table: OpenTable, lost_ranges: list[Gap], on_data_loss: str) -> None:
    """Write lost offsets to bronze/gaps, if that is how the loss of records is treated. Raises DataLoss if not."""
    if not lost_ranges:
        return
    if on_data_loss == "fail":
        range_lines = "\n".join(f"  {gap}" for gap in lost_ranges)
        raise DataLoss(
            f"table {open_table.name!r}: Kafka no longer has records that came after those that its changelog covers, "
            f"and this lake's bronze does not have them:\n{range_lines}\nThe table would lack them. Nothing was "
            "restored. Restore into a lake whose bronze has them: the one that published, or a copy of it. To accept "
            'the loss, record it in bronze/gaps and restore, set [run] on_data_loss = "record".'
        )
    lake = open_table.lake
    bronze.create_tables(lake)
    bronze_progress = lake.progress(lake.bronze)
    record_gaps(lake, lost_ranges, bronze.BronzeState(bronze_progress.epoch, bronze_progress.tick))


def _lost_error(table: Table, why: str) -> StorageError:
    return StorageError(
        f"table {table.name!r}: records that its changelog covers still count, in a join of streams or for what a "
        f"table was at earlier times, and Kafka does not have all of them any more: {why}. Build the table from "
        "bronze, in a lake that has them. Or, for a join of streams, let the lake that publishes go on until their "
        "windows have closed, with the grace, and restore then."
    )


def _restored_state(open_table: OpenTable, upstream: Table) -> tuple[int, NextOffsets] | None:
    """Return the tick at which a restored table's changelog ended, and the offsets it covered; None for others."""
    upstream_table = open_table.lake.open(upstream)
    table_properties = (
        read_properties(open_table.spark, upstream_table.visible.path) if upstream_table.table_exists() else {}
    )
    restored, skip = restored_of(table_properties.get(RESTORED)), table_properties.get(SKIP)
    return None if restored is None or skip is None else (restored.before[-1][1], json.loads(skip))


def _table_joins(stream: Stream) -> Iterator[TableJoin]:
    if isinstance(stream.source, TableJoin):
        yield stream.source
    for part in stream.source.parts:
        yield from _table_joins(part)
