"""The topic beside a sink's, which says how far the sink's records go."""

from __future__ import annotations

TOPIC_NAME_MAX = 249  # characters of a topic's name in Kafka


def covers_topic(topic: str) -> str:
    """Return the name of the topic with the covers of a sink's topic: see `lakehouse.kafka.covers`."""
    return f"{topic}-covers"
