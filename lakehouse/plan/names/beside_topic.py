"""The topics beside a sink's: of its covers, which say how far its records go, and of a table's whole state."""

from __future__ import annotations

NAME_MAX = 249  # characters of a topic's name in Kafka


def covers_topic(topic: str) -> str:
    """Return the name of the topic with the covers of a sink's topic: see `lakehouse.kafka.covers`."""
    return f"{topic}-covers"


def state_topic(topic: str) -> str:
    """Return the name of the topic for a table's whole state, beside the topic of a changelog that is incomplete."""
    return f"{topic}-state"


def length_fault(topic: str) -> str | None:
    """Return a message if a topic's name is so long that the topic beside it can have none; else None."""
    ending = covers_topic("")
    if len(covers_topic(topic)) <= NAME_MAX:
        return None
    return (
        f"topic {topic!r} has {len(topic)} characters; expected at most {NAME_MAX - len(ending)}, since the topic "
        f"beside it ends with {ending!r}. Give the sink a shorter name."
    )
