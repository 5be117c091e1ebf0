"""ASSERT TOPIC: whether Kafka has a topic, and has it so, at the latest when a time is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from lakehouse.errors import SqlError
from lakehouse.ksql.property import number_property
from lakehouse.ksql.syntax.statement import AssertTopic

if TYPE_CHECKING:
    from lakehouse.kafka.topics import TopicFacts

PAUSE_SECONDS = 0.2


def check_topic(statement: AssertTopic, read_facts: Callable[[], TopicFacts | None]) -> None:
    """Look at a topic until it is as the statement says. Raises SqlError if it is not when TIMEOUT is over.

    read_facts: called without arguments; gives the topic's facts, None while it does not exist.
    """
    expected_numbers = {name: number_property(statement.properties, name) for name in ("PARTITIONS", "REPLICAS")}
    for name, value in statement.properties.items():
        if name not in expected_numbers or not statement.exists:
            reason = "can't be compared" if statement.exists else "is for a topic that exists. Leave it out"
            expected_text = "PARTITIONS or REPLICAS" if statement.exists else ""
            raise SqlError(f"ASSERT TOPIC: {name} {reason}", value.position, expected=expected_text)
    end_time = time.monotonic() + statement.timeout_ms / 1000
    while (mismatch := _find_mismatch(statement, read_facts(), expected_numbers)) and time.monotonic() < end_time:
        time.sleep(PAUSE_SECONDS)
    if mismatch:
        raise SqlError(f"topic {statement.topic} {mismatch}", statement.position)


def _find_mismatch(statement: AssertTopic, facts: TopicFacts | None, expected_numbers: dict[str, int | None]) -> str:
    """Return what is not as the statement says; empty if all is."""
    if facts is None:
        return "does not exist" if statement.exists else ""
    if not statement.exists:
        return "exists"
    actual_numbers = {"PARTITIONS": facts.partitions, "REPLICAS": facts.replicas}
    return ", ".join(
        f"has {name}={actual_numbers[name]}, and not {number}"
        for name, number in expected_numbers.items()
        if number not in (None, actual_numbers[name])
    )
