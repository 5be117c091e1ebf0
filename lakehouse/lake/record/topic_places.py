"""Where bronze has a topic's records: in the shared table, or in one of the topic's own. The first tick decides."""

from __future__ import annotations

from collections.abc import Collection

from lakehouse.errors import PlanError
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.store import is_table


def misplaced_topics(layout: Layout, topics: Collection[str], own_topics: Collection[str]) -> dict[str, str]:
    """Say which topics' rows lie elsewhere in bronze than `own_table` declares: tables would not find them.

    own_topics: those with a table of their own, as declared. Return the message by topic.
    """
    existing_topics = {topic for topic in topics if is_table(layout.own_records(topic))}
    other_topics = [topic for topic in sorted(topics) if (topic in own_topics) != (topic in existing_topics)]
    if not other_topics:
        return {}
    coverage = reader.read_bronze_coverage(layout)
    return {
        topic: _describe_place(topic, has_own_table=topic in existing_topics)
        for topic in other_topics
        if coverage.next_offsets(topic)
    }


def refuse_misplaced(layout: Layout, topics: Collection[str], own_topics: Collection[str]) -> None:
    """Raise PlanError for topics whose rows lie elsewhere in bronze than declared; see `misplaced_topics`."""
    if messages := misplaced_topics(layout, topics, own_topics):
        raise PlanError("\n".join(messages.values()))


def _describe_place(topic: str, *, has_own_table: bool) -> str:
    return (
        f"topic {topic!r}: its rows lie in {'a table of its own' if has_own_table else 'the shared table'} of bronze, "
        f"but own_table={not has_own_table} is declared. A topic keeps its place: declare own_table={has_own_table}, "
        "or start another lake."
    )
