"""Covers: how far a published changelog goes, as records of a topic beside it, `<topic>-covers`, with one partition.

Each transaction of the publisher writes one cover: who publishes, up to which tick, and which offsets of the source
topics that tick reaches. A cover is in the same transaction as the records that it covers, so it is either true or not
there. The topic is compacted under one key: the newest cover stays forever, whatever becomes of the changelog's own
records. Covers are ordered by offset.

An *origin* identifies who counted the ticks: a lake, by the id of its bronze table; or a table restored from a topic,
by its own id. A lake that continues the topic from which its table was restored lists the earlier origins, each with
its last tick, so that a restore can find the origin of every record.

Two lakes with one origin, a lake and a copy of it, may count the same ticks and put different records in them. So a
cover names the commit of its last tick in bronze.

A key's records have an order only while they are in one partition, and a key moves to another one if its topic is given
more partitions. So a cover says how many there were.

A key written in another format, or under another id of a registered schema, is another key to Kafka: compaction keeps
the last record of both. So a cover says in which format the keys are.

A changelog may leave out some of what its table keeps: open windows, groups that HAVING hides, markers of deletes.
Then a second topic, `<topic>-state`, has the changes of everything that the table keeps, in the same transactions and
under the same covers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lakehouse.errors import ConfigError, NotFound
from lakehouse.kafka.drain import read_topic, topic_offsets
from lakehouse.kafka.topics import Cluster, listed_topics
from lakehouse.plan.names import beside_topic

VERSION = 3
# How many offsets before the end to read first for the newest cover; a marker follows each transaction.
FIRST_OFFSETS = 100
CONFIG = {"cleanup.policy": "compact", "segment.ms": "3600000"}


NextOffsets = Mapping[str, Mapping[str, int]]  # {topic id: {partition: offset}}


@dataclass(frozen=True, slots=True)
class Cover:
    """The extent of a published changelog.

    topic: the id of the changelog's topic. of: the name of the table, or of the stream. table: the table's id; None for
    a stream. declared: the fingerprint of the table's declaration. tick: the last tick that is published completely.
    sent: how many records of later ticks, up to `to`, are already published. at: the position of the last of these.
    next: the source's offsets after the tick, {topic id: {partition: offset}}. clock: the table's, if it has one.
    before: the earlier origins in this topic with their last ticks, the oldest first. state: the id of the topic with
    everything that the table keeps, which may be the changelog's own; "" if there is none; None for a stream. needed:
    for a table behind joins of streams, the source's offsets from which records can still meet later ones, 0 where it
    says none. partitions: how many the changelog's topic has. state_partitions: how many the state's own topic has; 0
    without one. commit: the nonce of the commit that ends the tick in bronze; None before the first tick, and if the
    log no longer has that commit. key_formats: of the keys of a table's changelog, with the ids of registered schemas;
    for a windowed table also that of the key without its window, which chooses the partition. Empty for a stream.
    """

    topic: str
    of: str
    origin: str
    tick: int
    next: NextOffsets
    table: str | None = None
    declared: str | None = None
    clock: Mapping[str, Any] | None = None
    before: tuple[tuple[str, int], ...] = ()
    sent: int = 0
    at: str | None = None
    state: str | None = None
    needed: NextOffsets | None = None
    to: int = 0
    partitions: int = 1
    state_partitions: int = 0
    commit: str | None = None
    key_formats: tuple[str, ...] = ()
    version: int = field(default=VERSION)

    def data(self) -> bytes:
        """Return the cover as a record's value."""
        return json.dumps(asdict(self)).encode()

    def ends(self) -> dict[str, int]:
        """Return the last tick of each origin, in their order."""
        return {**dict(self.before), self.origin: self.tick}


def covers_topic(topic: str) -> str:
    """Return the name of a changelog's topic of covers. Raises ConfigError for a name that is too long."""
    if (fault := beside_topic.length_fault(topic)) is not None:
        raise ConfigError(fault)
    return beside_topic.covers_topic(topic)


def read_newest_cover(cluster: Cluster, options: Mapping[str, str], topic: str) -> Cover | None:
    """Return the newest cover of a changelog; None without one. Raises NotFound if the newest record is not a cover."""
    cover_topic = covers_topic(topic)
    if cover_topic not in cluster.names():
        return None
    first_offset, end_offset = cluster.offsets([(cover_topic, 0)])[cover_topic, 0]
    offset_count = FIRST_OFFSETS
    while True:
        last_message = None
        for message in read_topic(cluster, options, cover_topic, last_offsets=offset_count):
            last_message = message
        if last_message is not None:
            return parse_cover(
                last_message.value(), f"{cover_topic}/{last_message.partition()}@{last_message.offset()}"
            )
        if end_offset - offset_count <= first_offset:
            return None
        offset_count *= 32


def removed_fault(cluster: Cluster, topic: str) -> str | None:
    """Return a message if Kafka removed records of a compacted topic by their age, or by a request; else None.

    Compaction never moves the first offset of a partition: whatever does, removes the newest records of keys, too.
    """
    for partition, (first_offset, _) in topic_offsets(cluster, topic).items():
        if first_offset > 0:
            return (
                f"{topic}/{partition} begins at offset {first_offset:,}: Kafka removed the records before it. "
                "Compaction does not do that; rows of keys that have not changed since are missing"
            )
    return None


def partitions_fault(cluster: Cluster, topic: str, cover: Cover) -> str | None:
    """Return a message if a table's changelog, or its state, has other partitions than under a cover; else None.

    A topic that is gone has no fault here.
    """
    counts_by_topic = {topic: cover.partitions}
    if cover.state_partitions:
        counts_by_topic[beside_topic.state_topic(topic)] = cover.state_partitions
    for name, facts in listed_topics(cluster, counts_by_topic).items():
        if facts.partitions != (covered_count := counts_by_topic[name]):
            return (
                f"topic {name!r} has {facts.partitions:,} partitions, and its changelog was published to "
                f"{covered_count:,}: later changes of a key may be in another partition than earlier ones, and nothing "
                "says which of them is the newest"
            )
    return None


def offsets_of_existing(cluster: Cluster, topics: Iterable[str], offsets: NextOffsets) -> NextOffsets:
    """Return those offsets of a cover that belong to one of these topics, if the topic still has the same id."""
    existing_ids = {topic_facts.id for topic_facts in listed_topics(cluster, sorted(set(topics))).values()}
    return {topic_id: partition_offsets for topic_id, partition_offsets in offsets.items() if topic_id in existing_ids}


def parse_cover(data: bytes | None, record_place: str) -> Cover:
    """Return the cover in a record's value. Raises NotFound, which names `record_place`, for any other value."""
    try:
        cover_json = json.loads(data or b"")
    except (ValueError, RecursionError):
        cover_json = None
    if not isinstance(cover_json, dict) or cover_json.get("version") != VERSION:
        raise _no_cover_error(record_place, f"a JSON object with version {VERSION}")
    return Cover(
        topic=_cover_text(cover_json, "topic", record_place),
        of=_cover_text(cover_json, "of", record_place),
        origin=_cover_text(cover_json, "origin", record_place),
        tick=_cover_number(cover_json.get("tick"), "tick", record_place),
        next=_cover_next_offsets(cover_json.get("next"), record_place),
        table=_cover_text(cover_json, "table", record_place, may_lack=True) or None,
        declared=_cover_text(cover_json, "declared", record_place, may_lack=True) or None,
        clock=_cover_clock(cover_json.get("clock"), record_place),
        before=tuple(_cover_earlier_origins(cover_json.get("before"), record_place)),
        sent=_cover_number(cover_json.get("sent"), "sent", record_place),
        at=_cover_text(cover_json, "at", record_place, may_lack=True) or None,
        state=None if cover_json.get("state") is None else _cover_text(cover_json, "state", record_place),
        needed=None if cover_json.get("needed") is None else _cover_next_offsets(cover_json["needed"], record_place),
        to=_cover_number(cover_json.get("to", 0), "to", record_place),
        partitions=_cover_number(cover_json.get("partitions"), "partitions", record_place, least=1),
        state_partitions=_cover_number(cover_json.get("state_partitions"), "state_partitions", record_place),
        commit=_cover_text(cover_json, "commit", record_place, may_lack=True) or None,
        key_formats=_cover_texts(cover_json.get("key_formats"), "key_formats", record_place),
    )


def _no_cover_error(record_place: str, expected: str) -> NotFound:
    return NotFound(
        f"record {record_place} does not say what the changelog covers: expected {expected}. Only lakehouse may write "
        "to that "
        "topic: find out who else does. Delete both topics to publish the changelog again, or build the table from "
        "bronze."
    )


def _cover_text(cover_json: Mapping[str, Any], name: str, record_place: str, *, may_lack: bool = False) -> str:
    value = cover_json.get(name)
    if value is None and may_lack:
        return ""
    if not isinstance(value, str):
        raise _no_cover_error(record_place, f"a text as {name}")
    return value


def _cover_texts(value: Any, field_label: str, record_place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _no_cover_error(record_place, f"a list of texts as {field_label}")
    return tuple(value)


def _cover_number(value: Any, field_label: str, record_place: str, *, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
        raise _no_cover_error(record_place, f"a number as {field_label}")
    return value


def _cover_pairs(value: Any, field_label: str, record_place: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise _no_cover_error(record_place, f"an object as {field_label}")
    return value.items()


def _cover_next_offsets(value: Any, record_place: str) -> dict[str, dict[str, int]]:
    offsets_by_topic: dict[str, dict[str, int]] = {}
    for topic_id, partition_offsets in _cover_pairs(value, "next", record_place):
        offsets_by_topic[topic_id] = {}
        for partition, offset in _cover_pairs(partition_offsets, "next", record_place):
            if not (partition.isascii() and partition.isdecimal()):
                raise _no_cover_error(record_place, "partitions by number in next")
            offsets_by_topic[topic_id][partition] = _cover_number(offset, "an offset in next", record_place)
    return offsets_by_topic


def _cover_clock(value: Any, record_place: str) -> dict[str, Any] | None:
    if value is None:
        return None
    clock_json = dict(_cover_pairs(value, "clock", record_place))
    for name in ("stream_times", "order_times"):
        for partition, time_ms in _cover_pairs(clock_json.get(name), f"{name} of the clock", record_place):
            _cover_number(time_ms, f"the time of {partition}", record_place, least=-(2**63))
    if clock_json.get("watermark") is not None:
        _cover_number(clock_json["watermark"], "the watermark", record_place, least=-(2**63))
    return {name: clock_json.get(name) for name in ("stream_times", "order_times", "watermark")}


def _cover_earlier_origins(value: Any, record_place: str) -> Iterable[tuple[str, int]]:
    if not isinstance(value, list):
        raise _no_cover_error(record_place, "a list as before")
    for item in value:
        if not (isinstance(item, list) and len(item) == 2 and isinstance(item[0], str)):
            raise _no_cover_error(record_place, "pairs of origin and tick in before")
        yield item[0], _cover_number(item[1], "the last tick of an origin", record_place)
