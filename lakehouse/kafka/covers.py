"""What a published changelog covers: one record per transaction in a topic beside it, `<topic>-covers`, one partition.

A cover says who publishes, up to which tick, and to which offsets of the source topics that tick reaches. It is written
in the same transaction as the records that it covers, so it is either true or not there. The topic is compacted under
one key: the newest cover stays forever, whatever becomes of the changelog's own records, and covers are ordered by
offset.

An *origin* is the counter of the ticks: a lake, by the id of its bronze table; or a table restored from a topic, by its
own id. A lake that continues the topic from which its table was restored names the earlier origins, each with its last
tick, so that a restore can tell the origin of every record.

A changelog that leaves out some of what its table keeps (open windows, groups that HAVING hides, markers of deletes)
has a topic for that, too, `<topic>-state`: the changes of all that the table keeps, in the same transactions, under the
same covers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lakehouse.errors import ConfigError, NotFound
from lakehouse.kafka.drain import drain
from lakehouse.kafka.topics import Cluster

SUFFIX = "-covers"
LONGEST = 249  # the length of Kafka's longest topic name
VERSION = 1
GLANCE = 100  # how many offsets from the end are read first to get the newest cover: a marker follows each transaction
CONFIG = {"cleanup.policy": "compact", "segment.ms": "3600000"}


NextOffsets = Mapping[str, Mapping[str, int]]  # {topic id: {partition: offset}}


@dataclass(frozen=True, slots=True)
class Cover:
    """How far the records of a changelog go.

    topic: the id of the changelog's topic; of: the table's name, or the stream's. table: the table's id, None for a
    stream; declared: its declaration's fingerprint. tick: the last tick that is published whole; sent: how many records
    of the ticks after it are published already; at: the position of the last of these. next: the source's offsets after
    the tick, {topic id: {partition: offset}}. clock: the table's, if it has one. before: earlier origins in this topic
    with their last ticks, the oldest first. state: the id of the topic that has all that the table keeps, which may be
    the changelog's own; "" if none has. None: of a stream, or an earlier release began the topic and did not say.
    needed: of a table behind joins of streams, the source's offsets from which records can still meet later ones, 0
    where it says none.
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
    version: int = field(default=VERSION)

    def data(self) -> bytes:
        """Return the cover as a record's value."""
        return json.dumps(asdict(self)).encode()

    def ends(self) -> dict[str, int]:
        """Return the last tick of each origin, in their order."""
        return {**dict(self.before), self.origin: self.tick}


def name_of(topic: str) -> str:
    """Return the name of a changelog's topic of covers. Raises ConfigError for a name that is too long."""
    if len(topic) + len(SUFFIX) > LONGEST:
        raise ConfigError(
            f"topic {topic!r} has {len(topic)} characters; expected at most {LONGEST - len(SUFFIX)}, since "
            f"the topic beside it ends with {SUFFIX!r}. Give the sink a shorter name."
        )
    return topic + SUFFIX


def newest(cluster: Cluster, options: Mapping[str, str], topic: str) -> Cover | None:
    """Return the newest cover of a changelog; None without one. Raises NotFound if the newest record is not a cover."""
    beside = name_of(topic)
    if beside not in cluster.names():
        return None
    first, end = cluster.offsets([(beside, 0)])[beside, 0]
    back = GLANCE
    while True:
        last = None
        for message in drain(cluster, options, beside, back=back):
            last = message
        if last is not None:
            return cover_of(last.value(), f"{beside}/{last.partition()}@{last.offset()}")
        if end - back <= first:
            return None
        back *= 32


def still_there(cluster: Cluster, topics: Iterable[str], offsets: NextOffsets) -> NextOffsets:
    """Return those of a cover's offsets that are of one of these topics, as they are now."""
    names = set(cluster.names()).intersection(topics)
    ids = {fact.id for fact in cluster.topics(sorted(names)).values()}
    return {topic_id: of for topic_id, of in offsets.items() if topic_id in ids}


def cover_of(data: bytes | None, where: str) -> Cover:
    """Return the cover in a record's value. Raises NotFound for any other value; `where`: the record's place."""
    try:
        said = json.loads(data or b"")
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or said.get("version") != VERSION:
        raise _no_cover(where, f"a JSON object with version {VERSION}")
    return Cover(
        topic=_text(said, "topic", where), of=_text(said, "of", where), origin=_text(said, "origin", where),
        tick=_number(said.get("tick"), "tick", where), next=_next(said.get("next"), where),
        table=_text(said, "table", where, may_lack=True) or None,
        declared=_text(said, "declared", where, may_lack=True) or None,
        clock=_clock(said.get("clock"), where), before=tuple(_before(said.get("before"), where)),
        sent=_number(said.get("sent"), "sent", where), at=_text(said, "at", where, may_lack=True) or None,
        state=None if said.get("state") is None else _text(said, "state", where),
        needed=None if said.get("needed") is None else _next(said["needed"], where),
    )  # fmt: skip


def _no_cover(where: str, expected: str) -> NotFound:
    return NotFound(
        f"record {where} does not say what the changelog covers: expected {expected}. Only lakehouse may write to that "
        "topic: find out who else does. Delete both topics to publish the changelog again, or build the table from "
        "bronze."
    )


def _text(said: Mapping[str, Any], name: str, where: str, *, may_lack: bool = False) -> str:
    value = said.get(name)
    if value is None and may_lack:
        return ""
    if not isinstance(value, str):
        raise _no_cover(where, f"a text as {name}")
    return value


def _number(value: Any, what: str, where: str, *, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
        raise _no_cover(where, f"a number as {what}")
    return value


def _pairs(value: Any, what: str, where: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise _no_cover(where, f"an object as {what}")
    return value.items()


def _next(value: Any, where: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for topic_id, of in _pairs(value, "next", where):
        found[topic_id] = {}
        for partition, offset in _pairs(of, "next", where):
            if not (partition.isascii() and partition.isdecimal()):
                raise _no_cover(where, "partitions by number in next")
            found[topic_id][partition] = _number(offset, "an offset in next", where)
    return found


def _clock(value: Any, where: str) -> dict[str, Any] | None:
    if value is None:
        return None
    said = dict(_pairs(value, "clock", where))
    for name in ("stream_times", "order_times"):
        for part, time in _pairs(said.get(name), f"{name} of the clock", where):
            _number(time, f"the time of {part}", where, least=-(2**63))
    if said.get("watermark") is not None:
        _number(said["watermark"], "the watermark", where, least=-(2**63))
    return {name: said.get(name) for name in ("stream_times", "order_times", "watermark")}


def _before(value: Any, where: str) -> Iterable[tuple[str, int]]:
    if not isinstance(value, list):
        raise _no_cover(where, "a list as before")
    for item in value:
        if not (isinstance(item, list) and len(item) == 2 and isinstance(item[0], str)):
            raise _no_cover(where, "pairs of origin and tick in before")
        yield item[0], _number(item[1], "the last tick of an origin", where)
