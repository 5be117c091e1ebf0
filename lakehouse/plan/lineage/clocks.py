"""The clocks of a stream's records: topics whose records meet in a join share a clock.

A record of either side can emit a row of a join, and all rows may come from one side: if a table never changes, or the
records of one stream come first. With a clock for each topic, the watermark would wait for the other topic for ever.
Behind a join, as in a task of Kafka Streams, all of its topics share one stream time for each partition number. Merged
streams do not meet: each keeps its own time.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse.plan.origin import Source, TableJoin
from lakehouse.plan.rows import JoinOfRows
from lakehouse.plan.stream import Stream, streams_behind
from lakehouse.plan.stream_join import StreamJoin


def placing_topics(stream: Stream) -> frozenset[str]:
    """Return the topics whose records give a stream's records their positions; a table that is looked up gives none."""
    streams = streams_behind(
        stream, lambda node: node.source.parts if isinstance(node.source, TableJoin) else node.inputs
    )
    return frozenset(node.source.topic for node in streams if isinstance(node.source, Source))


def shared_clocks(stream: Stream) -> dict[str, tuple[str, ...]]:
    """Return, for each topic that shares a clock, all topics of that clock, in order."""
    topic_groups: list[frozenset[str]] = []
    for joined_topics in _meeting_topics(stream):
        touched_groups = [topic_group for topic_group in topic_groups if topic_group & joined_topics]
        topic_groups = [topic_group for topic_group in topic_groups if topic_group not in touched_groups]
        topic_groups.append(joined_topics.union(*touched_groups))
    return {
        topic: tuple(sorted(topic_group))
        for topic_group in topic_groups
        if len(topic_group) > 1
        for topic in topic_group
    }


def _meeting_topics(stream: Stream) -> Iterator[frozenset[str]]:
    """Yield the topics of each join behind a stream, also through tables."""
    for node in streams_behind(stream, lambda node: node.inputs):
        if isinstance(node.source, StreamJoin | JoinOfRows):
            yield placing_topics(node)
