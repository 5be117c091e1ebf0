"""Whether a lake may go on publishing to a topic, and from where: the topic's newest cover is compared with the lake.

| the newest cover is of           | a table's changelog                         | a stream                    |
|----------------------------------|---------------------------------------------|-----------------------------|
| none, and there are no records   | from the first tick, a restored table whole | from the first tick         |
| none, and there are records      | refused                                     | from the first tick         |
| this lake, this table            | after the cover's tick                      | after the cover's tick      |
| a copy of this lake, diverged    | refused                                     | after the cover's offsets   |
| what the table was restored from | from the first tick, as the next origin     |                             |
| another lake                     | refused                                     | after the cover's offsets   |
| another table, or the other kind | refused                                     | refused                     |

Two lakes never write one changelog in turns: the one that wrote last has the topic, and the other one is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from lakehouse.errors import StorageError
from lakehouse.kafka.covers import Cover, NextOffsets
from lakehouse.plan.app import has_state_topic
from lakehouse.plan.evolution.change import DECLARATION, change_of, declared
from lakehouse.plan.schema import state_topic
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Sink, Table
from lakehouse.semantics.epoch import NO_TICK


@dataclass(frozen=True, slots=True)
class Restored:
    """The cover of the topic that a table was restored from. `before`: the cover's earlier origins, then its own."""

    topic: str
    before: tuple[tuple[str, int], ...]

    def text(self) -> str:
        """Return it as the table's property."""
        return json.dumps({"topic": self.topic, "before": self.before})


def restored_of(text: str | None) -> Restored | None:
    """Return the value of a table's property; None for a table that was built from bronze."""
    if text is None:
        return None
    said = json.loads(text)
    return Restored(said["topic"], tuple((origin, tick) for origin, tick in said["before"]))


@dataclass(frozen=True, slots=True)
class Mine:
    """What a lake would publish. origin: whose ticks; table: the table's id; tick: the lake's last complete one.

    next: the source's offsets after the cover's tick, as this lake counts it; exact: whether they come from a commit,
    not from rows, which don't show offsets without records.
    """

    of: Stream | Table
    origin: str
    tick: int
    table: str | None = None
    restored: Restored | None = None
    next: NextOffsets = field(default_factory=dict)
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """The tick after which publishing goes on.

    sent: how many records of the ticks after it are in the topic already; at: the position of the last one. before:
    earlier origins, with their last ticks. covered: the offsets of a stream up to which the topic has its records.
    state: see `Cover`.
    """

    tick: int = NO_TICK
    sent: int = 0
    before: tuple[tuple[str, int], ...] = ()
    covered: NextOffsets = field(default_factory=dict)
    at: str | None = None
    state: str | None = None

    @property
    def whole(self) -> bool:
        """Whether the topic has none of the rows that a restored table began with."""
        return self.tick == NO_TICK and not self.before

    def has_state_topic(self, topic_id: str) -> bool:
        """Whether the state has a topic beside the changelog's, which has this id."""
        return self.state not in (None, "", topic_id)


def standing(topic: str, topic_id: str, cover: Cover | None, mine: Mine, *, has_records: bool) -> Standing:
    """Return where publishing goes on. Raises StorageError if it must not. has_records: only used without a cover."""
    if cover is None or begins(topic_id, cover):
        if has_records and isinstance(mine.of, Table):
            raise unknown_records(topic)
        return Standing()
    if cover.of != name_of(mine.of):
        raise _refused(topic, f"has the changelog of {_shown(cover.of)}, not of {_shown(name_of(mine.of))}")
    if isinstance(mine.of, Stream):
        same = cover.origin == mine.origin and cover.tick <= mine.tick and not _beyond(mine.next, cover.next)
        if cover.sent and not same:
            raise _refused(topic, f"has part of what follows tick {cover.tick}, from a lake that must finish it first")
        return Standing(cover.tick, cover.sent, (), cover.next, cover.at) if same else Standing(covered=cover.next)
    if cover.origin == mine.origin:
        _check_same(topic, cover, mine)
        return Standing(cover.tick, cover.sent, cover.before, cover.next, cover.at)
    ours = mine.restored
    if ours is not None and ours.topic == topic_id and ours.before == (*cover.before, (cover.origin, cover.tick)):
        return Standing(before=ours.before)
    if any(origin == mine.origin for origin, _ in cover.before):
        raise _refused(topic, "was taken over by a lake that was restored from it, which has published since")
    if ours is not None and ours.topic == topic_id:
        raise _refused(
            topic,
            f"went on after table {mine.of.name!r} was restored from it: {cover.origin} has published up to tick "
            f"{cover.tick} since. Stop that lake's job and restore again",
        )
    raise _refused(topic, f"has the changelog of another lake (or this one's bronze was recreated): {cover.origin}")


def unknown_records(topic: str) -> StorageError:
    """Return the error for a topic that has records and should be empty."""
    return _refused(topic, "has records, and nothing says which table they are of and up to which tick")


def begins(topic_id: str, cover: Cover | None) -> bool:
    """Say whether a topic has nothing yet: its cover is of a topic that was deleted and recreated, or there is none."""
    return cover is None or cover.topic != topic_id


def state_in(topic_id: str, cover: Cover | None, sink: Sink, there: str | None) -> str | None:
    """Return the id of the topic that will have all that a sink's table keeps, see `Cover.state`.

    there: the id of the state's topic, if there is one. Raises StorageError if that is not the one that was begun.
    """
    if isinstance(sink.of, Stream):
        return None
    apart = has_state_topic(sink)
    tells_all = not (apart or (sink.mode == "net" and sink.of.has_state))
    if cover is None or begins(topic_id, cover):
        return topic_id if tells_all else there or ""
    if cover.state in (None, "", topic_id):
        return cover.state if tells_all else ""
    if not apart:
        return ""  # the state's topic ends here, and the changelog lacks what was left out until now
    if cover.state != there:
        raise StorageError(
            f"topic {state_topic(sink.topic)!r}, which has what table {sink.of.name!r} keeps and {sink.topic!r} leaves "
            "out, was deleted, or made anew: no lake could be restored from the two. Nothing was published. Delete "
            "both, and they are published again in full; or leave the sink out."
        )
    return there


def _check_same(topic: str, cover: Cover, mine: Mine) -> None:
    if cover.tick > mine.tick:
        raise _refused(
            topic,
            f"is published up to tick {cover.tick}, and this lake ends at tick {mine.tick}: it is an older copy",
        )
    if _beyond(mine.next, cover.next) or (mine.exact and _beyond(cover.next, mine.next)):
        raise _refused(
            topic, f"was published by a lake whose tick {cover.tick} had other records: this is a copy of it"
        )
    if isinstance(mine.of, Table) and cover.table != mine.table and cover.declared is not None:
        change = change_of({DECLARATION: cover.declared}, mine.of)
        if not change.can_go_on:
            raise _refused(topic, f"was published when table {mine.of.name!r} had another declaration; it was removed")


def _beyond(one: NextOffsets, other: NextOffsets) -> bool:
    """Whether one goes further than the other in a partition that both know."""
    both = one.keys() & other.keys()
    return any(offset > other[i][p] for i in both for p, offset in one[i].items() if p in other[i])


def name_of(of: Stream | Table) -> str:
    """Return the table's name; a stream has none."""
    return of.name if isinstance(of, Table) else ""


def _shown(name: str) -> str:
    return f"table {name!r}" if name else "a stream"


def declaration_of(of: Stream | Table) -> str | None:
    """Return a table's declaration as a cover has it; None for a stream."""
    return declared(of)[DECLARATION] if isinstance(of, Table) else None


def _refused(topic: str, why: str) -> StorageError:
    return StorageError(
        f"topic {topic!r} {why}. Two changelogs in one topic make a table that never existed, so nothing was "
        f"published. Publish to another topic; or delete {topic!r}, and it is published again in full; or leave the "
        "sink out."
    )
