"""Offsets as a moment: whether they can be read, the ticks at whose end bronze was at them, the last tick before them.

Offsets belong to the present topic: the records of an earlier topic of the same name came before all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from lakehouse.errors import ConfigError, NotFound
from lakehouse.lake.commit_log import CommitInfo, CommitLog, TickCoverage, find_tick_coverage, tick_coverage
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.moment.lake_facts import LakeFacts, TableLog, TopicEnds
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.moment import Offsets
from lakehouse.semantics.time.named_moment import partitions_left_out


def ends_at_tick(
    lake_facts: LakeFacts, bronze: TableLog | None, topics: Collection[str], tick: int
) -> dict[str, TopicEnds]:
    """Return how far bronze was with topics at a complete tick: from the tick's commit, or else from the rows."""
    if bronze is None or tick == NO_TICK:
        return {}
    coverage = find_tick_coverage(bronze.log, tick)
    if coverage is None:
        return lake_facts.topic_ends(topics, tick)
    return {topic: _ends_of(topic_state) for topic, topic_state in coverage.topics.items() if topic in topics}


def list_bronze_topics(bronze: TableLog | None) -> list[str]:
    """Return the topics in bronze's last commit."""
    coverage = None if bronze is None else find_tick_coverage(bronze.log)
    return sorted(coverage.topics) if coverage is not None else []


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """The facts for checking offsets. label: the table, for messages. topics: those that the table reads.

    tick, taken_ends: the last tick that the table has taken in, and how far bronze was with its topics then.
    bronze_ends: how far bronze is with all topics in question. bronze_topics: all topics of bronze.
    """

    label: str
    topics: Collection[str]
    tick: int
    taken_ends: Mapping[str, TopicEnds]
    bronze_ends: Mapping[str, TopicEnds]
    bronze_topics: Collection[str]


def check_offsets(offsets: Offsets, bounds: OffsetBounds) -> None:
    """Raise NotFound for offsets that can't be read from a table, ConfigError if a partition of a topic is left out.

    Offsets of a topic that the table does not read are ignored: a query may read several tables at one moment.
    """
    label, read_topics, taken_ends, bronze_ends, bronze_topics = (
        bounds.label,
        bounds.topics,
        bounds.taken_ends,
        bounds.bronze_ends,
        bounds.bronze_topics,
    )
    end_offsets = {
        (topic, p): n for topic in read_topics if topic in taken_ends for p, n in taken_ends[topic].next.items()
    }
    missing_partitions = partitions_left_out(offsets, end_offsets)
    missing_hint = (
        f" There are records of other partitions, too: add {missing_partitions} (or smaller ones)."
        if missing_partitions
        else ""
    )
    for topic, partition_offsets in offsets.items():
        is_read = topic in read_topics
        if topic not in bronze_ends and (not is_read or any(partition_offsets.values())):
            reads_hint = (
                "" if is_read else f"; and {label} does not read topic {topic!r}, but {', '.join(sorted(read_topics))}"
            )
            raise NotFound(
                f"offsets of {topic}: bronze has {', '.join(sorted(bronze_topics)) or 'no topics yet'}{reads_hint}."
            )
        for partition, offset in partition_offsets.items():
            partition_place, bronze_end = f"{topic}/{partition}", _next_offset(bronze_ends, topic, partition)
            if offset > bronze_end:
                raise NotFound(
                    f"offsets {partition_place}={offset}: bronze has {partition_place} up to {bronze_end}; expected at "
                    f"most that. Run the application first, or name an earlier offset.{missing_hint}"
                )
            if is_read and offset > (taken_end := end_offsets.get((topic, partition), 0)):
                raise NotFound(
                    f"offsets {partition_place}={offset}: {label} has taken in {partition_place} up to {taken_end} "
                    f"(tick {bounds.tick}), "
                    f"of {bronze_end} that bronze has; expected at most that. Run its application first, or name an "
                    f"earlier offset.{missing_hint}"
                )
    if missing_partitions:
        # A missing offset could only be guessed.
        raise ConfigError(
            f"offsets: expected one for every partition with records; add {missing_partitions} (or smaller ones)."
        )


def walk_ticks_at_offsets(
    bronze_log: CommitLog, offsets: Offsets, current_ends: Mapping[str, TopicEnds]
) -> Iterator[int]:
    """Yield the ticks after which bronze was exactly at these offsets, newest first; none if it never was.

    offsets: those of the topics that count. current_ends: how far bronze is with these topics now.
    """
    wanted_offsets = {
        topic: {p: n for p, n in partition_offsets.items() if n} for topic, partition_offsets in offsets.items()
    }

    def is_earlier(coverage: TickCoverage) -> bool:
        """Say whether a topic was then another topic of the same name."""
        return any(
            topic in current_ends and _is_of_earlier_topic(coverage, topic, current_ends[topic].id)
            for topic in wanted_offsets
        )

    def is_past(commit: CommitInfo) -> bool | None:
        if (coverage := tick_coverage(commit)) is None:
            return None
        return not is_earlier(coverage) and not all(
            _is_at_or_before(_reached_offsets(coverage, topic), wanted_offsets[topic]) for topic in wanted_offsets
        )

    past_version = bronze_log.find_first(is_past)
    for commit in bronze_log.walk_back(None if past_version is None else past_version - 1):
        if (coverage := tick_coverage(commit)) is None:
            continue
        if is_earlier(coverage) or any(
            _reached_offsets(coverage, topic) != wanted_offsets[topic] for topic in wanted_offsets
        ):
            return
        yield coverage.tick
    if not any(wanted_offsets.values()):
        yield NO_TICK


def last_tick_before(bronze_log: CommitLog, offsets: Offsets) -> int:
    """Return the last tick after which bronze had no record at or after these offsets."""
    present_ids: dict[str, str] = {}
    for commit in bronze_log.walk_back():
        coverage = tick_coverage(commit)
        if coverage is None:
            continue
        present_ids = {topic: state.id for topic, state in coverage.topics.items()} | present_ids
        # The records of an earlier topic of this name came before all offsets of the present one.
        if all(
            _is_of_earlier_topic(coverage, topic, present_ids.get(topic, ""))
            or _is_at_or_before(_reached_offsets(coverage, topic), partition_offsets)
            for topic, partition_offsets in offsets.items()
        ):
            return coverage.tick
    return NO_TICK


def _ends_of(topic_state: TopicState) -> TopicEnds:
    return TopicEnds(topic_state.id, {p: n for p, n in topic_state.next.items() if n})


def _next_offset(ends_by_topic: Mapping[str, TopicEnds], topic: str, partition: int) -> int:
    return ends_by_topic[topic].next.get(partition, 0) if topic in ends_by_topic else 0


def _is_of_earlier_topic(coverage: TickCoverage, topic: str, present_id: str) -> bool:
    """Say whether a topic was, at the end of a tick, another topic of the same name."""
    return topic in coverage.topics and coverage.topics[topic].id != present_id


def _reached_offsets(coverage: TickCoverage, topic: str) -> Mapping[int, int]:
    """Return the first offset not yet taken in, for each partition with records."""
    return {p: n for p, n in coverage.next_offsets(topic).items() if n}


def _is_at_or_before(reached_offsets: Mapping[int, int], wanted_offsets: Mapping[int, int]) -> bool:
    return all(n <= wanted_offsets.get(p, 0) for p, n in reached_offsets.items())
