"""Decides whether a lake may go on publishing to a topic, and from where, by the topic's newest cover.

| the newest cover is of           | a table's changelog                         | a stream                    |
|----------------------------------|---------------------------------------------|-----------------------------|
| none, and there are no records   | from the first tick, a restored table whole | from the first tick         |
| none, and there are records      | refused                                     | refused                     |
| this lake, this table            | after the cover's tick                      | after the cover's tick      |
| a copy of this lake, diverged    | refused                                     | after the cover's offsets   |
| what the table was restored from | from the first tick, as the next origin     |                             |
| another lake                     | refused                                     | after the cover's offsets   |
| another table, or the other kind | refused                                     | refused                     |

A copy of this lake is known by the commit that ends the cover's tick in its bronze. A table's changelog is refused as
well if its topic has other partitions than under the cover, or if its keys would be written in another format.

Two lakes never write one changelog in turns: the lake that wrote last has the topic, and the other one is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from lakehouse.errors import StorageError
from lakehouse.kafka.covers import Cover, NextOffsets, partitions_fault
from lakehouse.kafka.topics import Cluster
from lakehouse.plan.app import has_state_topic
from lakehouse.plan.evolution.change import DECLARATION, change_of, declaration_properties
from lakehouse.plan.names.beside_topic import state_topic
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Sink, Table
from lakehouse.semantics.commit_number import NO_TICK


@dataclass(frozen=True, slots=True)
class Restored:
    """The cover of the topic from which a table was restored. before: the cover's earlier origins, then its own."""

    topic: str
    before: tuple[tuple[str, int], ...]

    def text(self) -> str:
        """Return the text for the table's property."""
        return json.dumps({"topic": self.topic, "before": self.before})


def restored_of(text: str | None) -> Restored | None:
    """Return the value of a table's property; None for a table that was built from bronze."""
    if text is None:
        return None
    stored = json.loads(text)
    return Restored(stored["topic"], tuple((origin, tick) for origin, tick in stored["before"]))


@dataclass(frozen=True, slots=True)
class OwnPublication:
    """The publication that a lake can make. origin: of the ticks; table: its id; tick: the lake's last complete tick.

    next: the source's offsets after the cover's tick, by this lake's count; exact: they come from a commit, not from
    rows, which don't show offsets without records. commit: the nonce of this lake's commit of the cover's tick; None if
    its log no longer has that commit.
    """

    node: Stream | Table
    origin: str
    tick: int
    table: str | None = None
    restored: Restored | None = None
    next: NextOffsets = field(default_factory=dict)
    exact: bool = False
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The tick after which publishing goes on.

    sent_count: how many records of the ticks after it, up to `sent_to`, are in the topic already; sent_position: of the
    last of them. before: earlier origins, with their last ticks. covered: the offsets of a stream up to which the topic
    has its records. state: see `Cover`.
    """

    tick: int = NO_TICK
    sent_count: int = 0
    before: tuple[tuple[str, int], ...] = ()
    covered: NextOffsets = field(default_factory=dict)
    sent_position: str | None = None
    state: str | None = None
    sent_to: int = NO_TICK

    @property
    def whole(self) -> bool:
        """True if the topic has none of the rows with which a restored table began."""
        return self.tick == NO_TICK and not self.before

    def has_state_topic(self, topic_id: str) -> bool:
        """Say whether the state has a topic of its own; topic_id is the id of the changelog's topic."""
        return self.state not in (None, "", topic_id)


def find_resume_point(
    topic: str, topic_id: str, cover: Cover | None, own_publication: OwnPublication, *, has_records: bool
) -> ResumePoint:
    """Return where publishing goes on. Raises StorageError if it must not. has_records: only used without a cover."""
    if cover is None or is_new_topic(topic_id, cover):
        if has_records:
            raise unknown_records_error(topic, own_publication.node)
        return ResumePoint()
    if cover.of != covered_name(own_publication.node):
        raise _resume_refusal(
            topic,
            f"has the changelog of {_describe_covered(cover.of)}, not of "
            f"{_describe_covered(covered_name(own_publication.node))}",
        )
    if isinstance(own_publication.node, Stream):
        is_same = (
            cover.origin == own_publication.origin
            and cover.tick <= own_publication.tick
            and not _goes_beyond(own_publication.next, cover.next)
            and not _has_other_commit(cover, own_publication)
        )
        if cover.sent and not is_same:
            raise _resume_refusal(
                topic, f"has part of what follows tick {cover.tick}, from a lake that must finish it first"
            )
        return (
            ResumePoint(cover.tick, cover.sent, (), cover.next, cover.at, sent_to=cover.to)
            if is_same
            else ResumePoint(covered=cover.next)
        )
    if cover.origin == own_publication.origin:
        _check_same(topic, cover, own_publication)
        return ResumePoint(cover.tick, cover.sent, cover.before, cover.next, cover.at, sent_to=cover.to)
    own_restore = own_publication.restored
    if (
        own_restore is not None
        and own_restore.topic == topic_id
        and own_restore.before == (*cover.before, (cover.origin, cover.tick))
    ):
        return ResumePoint(before=own_restore.before)
    if any(origin == own_publication.origin for origin, _ in cover.before):
        raise _resume_refusal(topic, "was taken over by a lake that was restored from it, which has published since")
    if own_restore is not None and own_restore.topic == topic_id:
        raise _resume_refusal(
            topic,
            f"went on after table {own_publication.node.name!r} was restored from it: {cover.origin} has published up "
            f"to tick {cover.tick} since. Stop that lake's job and restore again",
        )
    raise _resume_refusal(
        topic, f"has the changelog of another lake (or this one's bronze was recreated): {cover.origin}"
    )


def unknown_records_error(topic: str, node: Stream | Table) -> StorageError:
    """Return the error for a topic that has records but should be empty."""
    if isinstance(node, Table):
        return _resume_refusal(topic, "has records, and nothing says which table they are of and up to which tick")
    return StorageError(
        f"topic {topic!r} has records, or had some, and no cover says which of the stream's they are: another program "
        "wrote them, or the topic of covers was deleted. All of the stream could be in it a second time, so nothing "
        f"was published. Publish to another topic; or delete {topic!r}, and the stream is published again in full; or "
        "leave the sink out."
    )


def check_partitions(cluster: Cluster, sink: Sink, topic_id: str, cover: Cover | None) -> None:
    """Raise StorageError if a table's changelog can't go on, because its topic has other partitions than before."""
    if cover is None or is_new_topic(topic_id, cover) or isinstance(sink.source, Stream):
        return
    if (fault := partitions_fault(cluster, sink.topic, cover)) is not None:
        raise StorageError(
            f"{fault}. No lake could be restored from it. Nothing was published. Delete {_own_topics(sink, cover)}, "
            "and it is published again in full; or publish to another topic; or leave the sink out."
        )


def check_key_formats(sink: Sink, topic_id: str, cover: Cover | None, key_formats: tuple[str, ...]) -> None:
    """Raise StorageError if a table's changelog can't go on, because its keys would be written in another format.

    key_formats: of the keys that this lake would write, as `Cover.key_formats` has them.
    """
    if cover is None or is_new_topic(topic_id, cover) or isinstance(sink.source, Stream):
        return
    if cover.key_formats != key_formats:
        raise StorageError(
            f"topic {sink.topic!r} has keys in the format {_describe_formats(cover.key_formats)}, and they would go on "
            f"in {_describe_formats(key_formats)}: other bytes are another key to Kafka, which keeps the last record "
            "of both. A table restored from the topic would have rows twice, or again after their delete. Nothing was "
            "published. Give to_topic the earlier format and key_format back (the id of a registered key is that of "
            f"its schema in the registry: let it be the earlier one); or delete {_own_topics(sink, cover)}, and it is "
            "published again in full; or publish to another topic; or leave the sink out."
        )


def _describe_formats(key_formats: tuple[str, ...]) -> str:
    return repr(", its partition by ".join(key_formats))


def _own_topics(sink: Sink, cover: Cover) -> str:
    """Name the topics that a sink's changelog is in."""
    return repr(sink.topic) + (f" and {state_topic(sink.topic)!r}" if cover.state_partitions else "")


def is_new_topic(topic_id: str, cover: Cover | None) -> bool:
    """Say whether a topic is new: it has no cover, or one of an earlier topic of its name that was deleted."""
    return cover is None or cover.topic != topic_id


def state_topic_id(topic_id: str, cover: Cover | None, sink: Sink, existing_id: str | None) -> str | None:
    """Return the id of the topic that will have the whole state of a sink's table, see `Cover.state`.

    existing_id: of the state's topic, if there is one. Raises StorageError if it is not the topic that was begun.
    """
    if isinstance(sink.source, Stream):
        return None
    has_own_topic = has_state_topic(sink)
    tells_all = not (has_own_topic or (sink.mode == "net" and sink.source.has_state))
    if cover is None or is_new_topic(topic_id, cover):
        return topic_id if tells_all else existing_id or ""
    if cover.state in (None, "", topic_id):
        return topic_id if tells_all and cover.state else ""
    if not has_own_topic:
        return ""  # the state's topic ends here, and the changelog lacks the rows that were left out until now
    if cover.state != existing_id:
        raise StorageError(
            f"topic {state_topic(sink.topic)!r}, which has what table {sink.source.name!r} keeps and {sink.topic!r} "
            "leaves out, was deleted, or made anew: no lake could be restored from the two. Nothing was published. "
            "Delete both, and they are published again in full; or leave the sink out."
        )
    return existing_id


def _has_other_commit(cover: Cover, own_publication: OwnPublication) -> bool:
    """Say whether this lake's commit of a cover's tick is known not to be the one that was published."""
    return None not in (cover.commit, own_publication.commit) and cover.commit != own_publication.commit


def _check_same(topic: str, cover: Cover, own_publication: OwnPublication) -> None:
    if cover.tick > own_publication.tick:
        raise _resume_refusal(
            topic,
            f"is published up to tick {cover.tick}, and this lake ends at tick {own_publication.tick}: it is an older "
            "copy",
        )
    if _goes_beyond(own_publication.next, cover.next) or (
        own_publication.exact and _goes_beyond(cover.next, own_publication.next)
    ):
        raise _resume_refusal(
            topic, f"was published by a lake whose tick {cover.tick} had other records: this is a copy of it"
        )
    if _has_other_commit(cover, own_publication):
        raise _resume_refusal(
            topic,
            f"was published by a lake whose tick {cover.tick} was another commit (records of another topic, or a "
            "correction): this is an older copy of it that has gone on by itself",
        )
    if isinstance(own_publication.node, Table) and cover.table != own_publication.table and cover.declared is not None:
        change = change_of({DECLARATION: cover.declared}, own_publication.node)
        if not change.can_go_on:
            raise _resume_refusal(
                topic, f"was published when table {own_publication.node.name!r} had another declaration; it was removed"
            )


def _goes_beyond(first_offsets: NextOffsets, second_offsets: NextOffsets) -> bool:
    """Say whether the first offsets go further than the second in a partition that both know."""
    topic_ids = first_offsets.keys() & second_offsets.keys()
    return any(
        offset > second_offsets[i][p]
        for i in topic_ids
        for p, offset in first_offsets[i].items()
        if p in second_offsets[i]
    )


def covered_name(node: Stream | Table) -> str:
    """Return the table's name; a stream has none."""
    return node.name if isinstance(node, Table) else ""


def _describe_covered(name: str) -> str:
    return f"table {name!r}" if name else "a stream"


def declaration_of(node: Stream | Table) -> str | None:
    """Return a table's declaration in the form of a cover; None for a stream."""
    return declaration_properties(node)[DECLARATION] if isinstance(node, Table) else None


def _resume_refusal(topic: str, why: str) -> StorageError:
    return StorageError(
        f"topic {topic!r} {why}. Two changelogs in one topic make a table that never existed, so nothing was "
        f"published. Publish to another topic; or delete {topic!r}, and it is published again in full; or leave the "
        "sink out."
    )
