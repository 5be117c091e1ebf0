"""The topics that publishing creates: they accept the times of a changelog's records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import lakehouse as lh
from lakehouse.errors import KafkaUnavailable
from lakehouse.run.job.publishing import Publishing

BOOKINGS = lh.stream("bookings", key="id string", schema="day timestamp", event_time="day")


class Made:
    """A cluster that notes what is created. before: like Kafka before 3.6, which lacks one of the settings."""

    def __init__(self, *, before: bool = False) -> None:
        self.topics_made: dict[str, dict[str, str]] = {}
        self._before = before

    def names(self) -> list[str]:
        return ["bookings"]

    def topics(self, names: list[str]) -> dict[str, Any]:
        return {name: SimpleNamespace(partitions=2) for name in names}

    def create(self, name: str, partitions: int, config: dict[str, str]) -> None:
        if self._before and "message.timestamp.after.max.ms" in config:
            raise KafkaUnavailable("Unknown topic config name: message.timestamp.after.max.ms")
        self.topics_made[name] = config


def made(cluster: Made) -> dict[str, dict[str, str]]:
    app = lh.app(BOOKINGS.latest("newest").changes().to_topic("newest-changes"), BOOKINGS.to_topic("copies"))
    publishing = Publishing(SimpleNamespace(own_session=lambda: None), None, app, cluster)  # type: ignore[arg-type]
    for sink in app.sinks:
        publishing._make_topic(sink)
    return cluster.topics_made


def test_a_changelog_takes_records_whose_event_time_lies_ahead() -> None:
    """Kafka 4 refuses a timestamp of more than an hour ahead: the first such booking ended publishing for good."""
    actual = made(Made())
    assert {actual[name]["message.timestamp.after.max.ms"] for name in ("newest-changes", "copies")} == {str(2**63 - 1)}


def test_an_older_kafka_that_does_not_know_the_setting_gets_the_topics_without_it() -> None:
    actual = made(Made(before=True))
    assert actual["newest-changes"]["cleanup.policy"] == "compact"
    assert actual["copies"] == {"cleanup.policy": "delete", "retention.ms": "-1"}
