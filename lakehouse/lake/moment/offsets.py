"""Offsets as a moment: which can be read, the ticks after which bronze was at them, and the last tick before them.

Offsets belong to the topic as it is now: the records of an earlier topic of its name came before all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import ConfigError, NotFound
from lakehouse.lake.commit_log import CommitInfo, CommitLog, covers
from lakehouse.lake.moment.source import Ends, LakeFacts, TableLog
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.moment import Offsets, left_out


def ends_at(source: LakeFacts, bronze: TableLog | None, topics: Collection[str], tick: int) -> dict[str, Ends]:
    """Return how far bronze was with topics at a complete tick: by the tick's commit, or else by the rows."""
    if bronze is None or tick == NO_TICK:
        return {}
    said = covers(bronze.log, tick)
    if said is None:
        return source.ends(topics, tick)
    return {topic: _ends(of) for topic, of in said["topics"].items() if topic in topics}


def topics_of(bronze: TableLog | None) -> list[str]:
    """Return the topics that bronze's last commit names."""
    said = None if bronze is None else covers(bronze.log)
    return sorted(said["topics"]) if said is not None else []


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """The facts that offsets are checked against. what: the table, for people; topics: those that it reads.

    tick, taken: the last tick that the table has taken in, and how far bronze was with its topics then. now: how far
    bronze is with all topics that are asked for. known: all topics of bronze.
    """

    what: str
    topics: Collection[str]
    tick: int
    taken: Mapping[str, Ends]
    now: Mapping[str, Ends]
    known: Collection[str]


def check(offsets: Offsets, bounds: OffsetBounds) -> None:
    """Raise NotFound for offsets that can't be read of a table, ConfigError if a partition of a topic is left out.

    Offsets of a topic that the table does not read mean nothing for it: several tables may be asked for one moment.
    """
    what, topics, taken, now, known = bounds.what, bounds.topics, bounds.taken, bounds.now, bounds.known
    ends = {(topic, p): n for topic in topics if topic in taken for p, n in taken[topic].next.items()}
    add = left_out(offsets, ends)
    also = f" There are records of other partitions, too: add {add} (or smaller ones)." if add else ""
    for topic, of in offsets.items():
        is_read = topic in topics
        if topic not in now and (not is_read or any(of.values())):
            reads = "" if is_read else f"; and {what} does not read topic {topic!r}, but {', '.join(sorted(topics))}"
            raise NotFound(f"offsets of {topic}: bronze has {', '.join(sorted(known)) or 'no topics yet'}{reads}.")
        for partition, offset in of.items():
            place, there = f"{topic}/{partition}", _next(now, topic, partition)
            if offset > there:
                raise NotFound(
                    f"offsets {place}={offset}: bronze has {place} up to {there}; expected at most that. Run the "
                    f"application first, or name an earlier offset.{also}"
                )
            if is_read and offset > (end := ends.get((topic, partition), 0)):
                raise NotFound(
                    f"offsets {place}={offset}: {what} has taken in {place} up to {end} (tick {bounds.tick}), "
                    f"of {there} that bronze has; expected at most that. Run its application first, or name an "
                    f"earlier offset.{also}"
                )
    if add:
        # To fill in an offset that is left out would be to guess.
        raise ConfigError(f"offsets: expected one for every partition with records; add {add} (or smaller ones).")


def ticks_at(log: CommitLog, offsets: Offsets, now: Mapping[str, Ends]) -> Iterator[int]:
    """Yield the ticks after which bronze was at just these offsets, newest first; none if it never was.

    log: bronze's. offsets: of the topics that count. now: how far bronze is with them.
    """
    wanted = {topic: {p: n for p, n in of.items() if n} for topic, of in offsets.items()}

    def is_earlier(said: CommitInfo) -> bool:
        """Whether a topic was then another one of the same name."""
        known = said.metadata["topics"]
        return any(topic in now and topic in known and known[topic]["id"] != now[topic].id for topic in wanted)

    def is_past(said: CommitInfo) -> bool | None:
        if "topics" not in said.metadata:
            return None
        return not is_earlier(said) and not all(_is_before(_moved(said, topic), wanted[topic]) for topic in wanted)

    past = log.first(is_past)
    for said in log.back(None if past is None else past - 1):
        if "topics" not in said.metadata:
            continue
        if is_earlier(said) or any(_moved(said, topic) != wanted[topic] for topic in wanted):
            return
        yield int(said.metadata["tick"])
    if not any(wanted.values()):
        yield NO_TICK


def last_tick_before(log: CommitLog, offsets: Offsets) -> int:
    """Return the last tick after which bronze had no record at or after these offsets. log: bronze's."""
    for said in log.back():
        if "topics" in said.metadata and all(_is_before(_moved(said, topic), of) for topic, of in offsets.items()):
            return int(said.metadata["tick"])
    return NO_TICK


def _ends(of: Mapping[str, Any]) -> Ends:
    return Ends(of["id"], {int(p): n for p, n in of["next"].items() if n})


def _next(ends: Mapping[str, Ends], topic: str, partition: int) -> int:
    return ends[topic].next.get(partition, 0) if topic in ends else 0


def _moved(said: CommitInfo, topic: str) -> Mapping[int, int]:
    """The first offset not yet taken in, of each partition that has records."""
    of = said.metadata["topics"].get(topic)
    return {} if of is None else _ends(of).next


def _is_before(stood: Mapping[int, int], wanted: Mapping[int, int]) -> bool:
    return all(n <= wanted.get(p, 0) for p, n in stood.items())
