"""The least rights that Kafka's ACLs must grant for an application."""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse.kafka.covers import covers_topic
from lakehouse.kafka.rights import DRAIN_GROUP, HOLES_GROUP, INGEST_GROUP, PUBLISH_PREFIX, SNAPSHOTS_PREFIX, Right
from lakehouse.plan.app import App, has_state_topic
from lakehouse.plan.names.beside_topic import state_topic


def application_rights(app: App, further_topics: Iterable[str] = ()) -> list[Right]:
    """Return the rights to ingest an application's topics, to audit them, and to publish and restore its changelogs.

    further_topics: those of the settings. Create is not needed for a topic that is there; a right to read or to write
    is one to describe, too.
    """
    rights = [Right("Read", "topic", topic) for topic in sorted({*app.topics, *further_topics})]
    rights += [Right("Read", "group", group) for group in (INGEST_GROUP, HOLES_GROUP)]
    for sink in app.sinks:
        topics = [sink.topic, covers_topic(sink.topic), *([state_topic(sink.topic)] if has_state_topic(sink) else [])]
        rights += [
            Right(operation, "topic", topic)
            for topic in topics
            for operation in ("Create", "Write", "Read", "DescribeConfigs")
        ]
        rights.append(Right("Write", "transactional-id", f"{PUBLISH_PREFIX}{sink.topic}"))
    for source in app.snapshot_sources:
        rights += [Right(operation, "topic", source.topic) for operation in ("Create", "Write", "DescribeConfigs")]
        rights.append(Right("Write", "transactional-id", f"{SNAPSHOTS_PREFIX}{source.topic}"))
    if app.sinks or app.snapshot_sources:
        rights.append(Right("Read", "group", DRAIN_GROUP))
    return rights
