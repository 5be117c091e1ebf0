"""The topics that publishing creates: they accept the times of a changelog's records."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, KafkaUnavailable, NotFound, StorageError
from lakehouse.kafka.topics import TopicFacts
from lakehouse.lake.commit_log import TickCoverage
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.plan.table import Sink
from lakehouse.run.job.publishing import Publishing
from lakehouse.spark.bronze import bronze

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


class Existing:
    """A cluster with topics of one partition. policies: by topic; first_offset: that of every partition."""

    def __init__(self, policies: dict[str, str | None], first_offset: int = 0) -> None:
        self.partitions_made: dict[str, int] = {}
        self._policies, self._first_offset = policies, first_offset

    def names(self) -> list[str]:
        return list(self._policies)

    def topics(self, names: list[str]) -> dict[str, TopicFacts]:
        if missing := [name for name in names if name not in self._policies]:
            raise NotFound(f"Found no topic {missing[0]!r}")
        return {name: TopicFacts(name, f"id of {name}", 1) for name in names}

    def config(self, name: str) -> dict[str, str | None]:
        if self._policies[name] is None:
            raise KafkaUnavailable("this user may not describe the settings")
        return {"cleanup.policy": self._policies[name]}

    def offsets(self, partitions: Iterable[tuple[str, int]], **_: bool) -> dict[tuple[str, int], tuple[int, int]]:
        return dict.fromkeys(partitions, (self._first_offset, 50))

    def create(self, name: str, partitions: int, config: dict[str, str]) -> None:
        self.partitions_made[name] = partitions


def make(cluster: Existing, sink: Sink) -> dict[str, int]:
    """Make a sink's topics; return those that were not there, with their numbers of partitions."""
    lake = SimpleNamespace(own_session=lambda: lake, spark=None, layout=SimpleNamespace(records="records"))
    Publishing(lake, None, lh.app(sink), cluster)._make_topic(sink)  # type: ignore[arg-type]
    return cluster.partitions_made


KEPT = BOOKINGS.group_by("id").agg(n=lh.count()).having("n > 1").table("kept").changes().to_topic("out")
COPY = BOOKINGS.to_topic("out")
COMPACT = dict.fromkeys(("bookings", "out", "out-covers", "out-state"), "compact")


def test_a_topic_from_which_kafka_removes_records_by_their_age_is_refused() -> None:
    """A restore from it lacked rows in silence; without its covers, all of a stream was published again."""
    assert make(Existing(COMPACT), KEPT) == make(Existing(COMPACT), COPY) == {}
    assert make(Existing(dict.fromkeys(COMPACT)), KEPT) == {}  # who may not ask for the settings goes on
    for name in ("out", "out-state", "out-covers"):
        for policy in ("delete", "compact,delete"):
            with pytest.raises(ConfigError, match=f"topic '{name}' has cleanup.policy={policy}.*Expected compact"):
                make(Existing(COMPACT | {name: policy}), KEPT)
    assert make(Existing(COMPACT | {"out": "delete"}), COPY) == {}  # how long records stay in it is its owner's matter
    with pytest.raises(ConfigError, match=r"topic 'out-covers' has cleanup\.policy=delete"):
        make(Existing(COMPACT | {"out-covers": "delete"}), COPY)


def test_a_topic_from_which_kafka_has_removed_records_is_refused() -> None:
    with pytest.raises(StorageError, match="out/0 begins at offset 7: Kafka removed the records before it"):
        make(Existing(COMPACT, first_offset=7), KEPT)
    assert make(Existing(COMPACT, first_offset=7), COPY) == {}


def test_a_topic_is_made_although_its_source_topic_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = BOOKINGS.latest("newest").changes().to_topic("out", partitions=3)
    unnumbered = BOOKINGS.latest("newest").changes().to_topic("out")
    assert make(Existing({}), numbered) == {"out": 3, "out-covers": 1}
    known = TickCoverage(4, {"bookings": TopicState("old id", next={0: 5, 5: 1})})
    with monkeypatch.context() as patched:
        patched.setattr(bronze, "last_coverage", lambda *_: known)
        assert make(Existing({}), unnumbered) == {"out": 6, "out-covers": 1}
        patched.setattr(bronze, "last_coverage", lambda *_: None)
        with pytest.raises(NotFound, match=r"found none of bookings, neither.*to_topic\('out', partitions=\.\.\.\)"):
            make(Existing({}), unnumbered)
