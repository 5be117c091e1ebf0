"""Beside a run: how many records wait, a Kafka that went away and came back, and a look that fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import KafkaUnavailable, StorageError
from lakehouse.kafka.topics import TopicFacts
from lakehouse.lake.layout import Layout
from lakehouse.run.watch import table_rules
from lakehouse.run.watch.event import JobEvent
from lakehouse.run.watch.lag import Lag, count_waiting, lag_by_topic
from lakehouse.run.watch.metrics import RunMetrics
from lakehouse.run.watch.table_rules import SLOW_SECONDS, RuleWatch
from lakehouse.run.watch.watching import Watcher
from lakehouse.settings.config import load

from ..cli.versioned import Story, VersionedTable, visit
from ..cli.written import WrittenLake


class Scene:
    """A watcher whose looks are answered from a list, five seconds apart."""

    def __init__(self, *answers: Lag | Exception, lag_seconds: float = 10.0) -> None:
        self.heard: list[JobEvent] = []
        self._answers, self._now = iter(answers), 0.0
        self._watcher = Watcher(self._waiting, self.heard.append, None, lag_seconds, lambda: self._now)
        for _ in answers:
            self._watcher.look()
            self._now += 5.0

    def _waiting(self, note_answer: Callable[[], None]) -> Lag:
        answer = next(self._answers)
        if not isinstance(answer, KafkaUnavailable):
            note_answer()
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def said(self) -> list[tuple[str, int, float]]:
        return [(event.kind, event.records, event.seconds) for event in self.heard]


def test_what_waits_is_told_every_so_often() -> None:
    scene = Scene({("a", 0): 3, ("a", 1): 4}, {("a", 0): 2}, {("a", 0): 1}, {("a", 0): 0})
    assert scene.said == [("lag", 7, 0.0), ("lag", 1, 10.0)]
    assert scene.heard[0].details == {"topics": {"a": {"0": 3, "1": 4}}}
    assert Scene({("a", 0): 3}, lag_seconds=0.0).said == []


def test_a_kafka_that_went_away_and_came_back_is_told_once_each() -> None:
    away = KafkaUnavailable("no answer")
    scene = Scene({}, away, away, {}, lag_seconds=0.0)
    assert scene.said == [("kafka away", 0, 5.0), ("kafka back", 0, 15.0)]
    assert [event.details for event in scene.heard] == [{"message": "no answer"}, {"away_seconds": 10.0}]


def test_a_look_that_fails_ends_nothing_and_is_told_if_the_next_one_fails_too() -> None:
    assert Scene(OSError("x"), {}, OSError("x"), lag_seconds=0.0).said == []
    scene = Scene(OSError("x"), OSError("y"), OSError("z"), {}, lag_seconds=0.0)
    assert scene.said == [("watch failed", 0, 5.0)]
    assert scene.heard[0].details == {"part": "lag", "message": "OSError: y"}
    unread = OSError("the lake can't be read")
    scene = Scene(KafkaUnavailable("no answer"), unread, unread, lag_seconds=0.0)
    assert scene.said == [("kafka away", 0, 0.0), ("kafka back", 0, 5.0), ("watch failed", 0, 10.0)]


def test_a_part_that_can_not_be_read_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(tmp_path / "lake")
    visits = lh.stream("clicks", key="user string", schema="n bigint, place string").latest("visits")
    other = visits.stream.group_by("place").agg(n=lh.count()).table("places")
    app = lh.app(visits.expect_fresh("1 minute"), other.expect_fresh("1 minute"))
    VersionedTable(story.root, "places").commit(7, visit("ann", 1, 1, 0), times=(100, 100))
    metrics, heard = RunMetrics(app, story.layout), list[JobEvent]()
    Path(story.visits.path, "_delta_log", f"{6:020}.json").write_text("no json")
    answers: list[Lag | Exception] = [{("clicks", 0): 5}, KafkaUnavailable("no answer")]

    def waiting(note_answer: Callable[[], None]) -> Lag:
        answer = answers.pop(0)
        if not isinstance(answer, KafkaUnavailable):
            note_answer()
        if isinstance(answer, Exception):
            raise answer
        return answer

    watcher = Watcher(waiting, heard.append, metrics, 60.0, rules=RuleWatch(story.layout, app))

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"lakehouse_{name}", labels)

    begun = value("last_look_timestamp_seconds")
    watcher.look()
    assert [event.kind for event in heard] == ["lag", "rule unmet"]
    assert (value("kafka_up"), value("lag_records", topic="clicks", partition="0")) == (1, 5)
    assert (value("bronze_tick"), value("table_rows", table="places"), value("table_rows", table="visits")) == (
        8, 1, None,
    )  # fmt: skip
    assert value("rule_unmet", table="places", expectation="fresh") == 1
    watcher.look()
    assert [(event.kind, event.details.get("part")) for event in heard[2:]] == [
        ("kafka away", None), ("watch failed", "table of visits"), ("watch failed", "rules of visits"),
    ]  # fmt: skip
    assert value("kafka_up") == 0
    failures = {part: value("watch_failures_total", part=part) for part in ("lag", "rules", "bronze", "table")}
    assert failures == {"lag": 0, "rules": 2, "bronze": 0, "table": 2}
    assert begun is not None
    assert begun < (value("last_look_timestamp_seconds") or 0) <= time.time()


def test_rows_that_can_not_be_read_are_judged_again_though_nothing_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = lh.stream("clicks", key="user string", schema="n bigint, place string").latest("visits")
    table, layout = visits.expect_unique("place"), Layout(str(tmp_path))
    VersionedTable(tmp_path).commit(1, visit("ann", 1, 1, 0), visit("bob", 1, 1, 1))
    watch = RuleWatch(layout, lh.app(table))
    with monkeypatch.context() as patched:
        patched.setattr(table_rules, "find_unmet_rules", lambda *_: [][0])
        with pytest.raises(IndexError):
            watch.look(table, 0.0)
    assert watch.look(table, 15.0) == ([], []), "a whole table is read every few minutes"
    ceased, _ = watch.look(table, SLOW_SECONDS)
    assert [unmet.rule for unmet in ceased] == ["unique_place"]


def test_a_kafka_that_is_away_is_told_even_if_the_lake_can_not_be_read(tmp_path: Path) -> None:
    story = Story(tmp_path / "lake")
    Path(story.layout.records, "_delta_log", f"{99:020}.json").write_text("no json")

    class Away(KafkaOf):
        def names(self) -> list[str]:
            raise KafkaUnavailable("no answer")

    with pytest.raises(KafkaUnavailable):
        waits(story.root, Away())
    settings, answers = load(environ={"LAKEHOUSE_LAKE_PATH": str(story.root)}, start=tmp_path), list[bool]()
    kafka: Any = KafkaOf(clicks=("id-1", [(0, 5)]))
    app = lh.app(lh.stream("clicks", key="user string", schema="ms bigint").latest("last"))
    with pytest.raises(StorageError):
        count_waiting(settings, app, kafka, lambda: answers.append(True))
    assert answers == [True], "Kafka has answered all the same"


class KafkaOf:
    """A Kafka with topics of (id, [(first, end) of each partition])."""

    def __init__(self, **topics: tuple[str, list[tuple[int, int]]]) -> None:
        self._topics = topics

    def names(self) -> list[str]:
        return list(self._topics)

    def topics(self, names: Any) -> dict[str, TopicFacts]:
        return {name: TopicFacts(name, self._topics[name][0], len(self._topics[name][1])) for name in names}

    def offsets(self, partitions: Any) -> dict[tuple[str, int], tuple[int, int]]:
        return {(topic, p): self._topics[topic][1][p] for topic, p in partitions}


def waits(root: Path, kafka: KafkaOf) -> dict[str, dict[str, int]]:
    clicks = lh.stream("clicks", key="user string", schema="ms bigint")
    settings = load(
        environ={"LAKEHOUSE_LAKE_PATH": str(root), "LAKEHOUSE_KAFKA_TOPICS": "more,none"}, start=root.parent
    )
    return lag_by_topic(count_waiting(settings, lh.app(clicks.latest("last")), kafka))  # type: ignore[arg-type]


def test_what_waits_is_what_kafka_has_and_bronze_has_not(tmp_path: Path) -> None:
    lake: Callable[..., None] = WrittenLake(tmp_path / "lake").tick
    kafka = KafkaOf(clicks=("id-1", [(0, 5), (3, 4)]), more=("id-9", [(2, 4)]), other=("id-2", [(0, 9)]))
    assert waits(tmp_path / "lake", kafka) == {"clicks": {"0": 5, "1": 1}, "more": {"0": 2}}
    lake(1, ("clicks", "a", 0, 1, "x"), ("clicks", "b", 0, 2, "y"))
    assert waits(tmp_path / "lake", kafka) == {"clicks": {"0": 3, "1": 1}, "more": {"0": 2}}
    shorter = KafkaOf(clicks=("id-1", [(4, 5), (3, 4)]))
    assert waits(tmp_path / "lake", shorter) == {"clicks": {"0": 1, "1": 1}}, "of 3 that bronze lacks Kafka has 1"
    recreated = KafkaOf(clicks=("id-7", [(0, 1)]))
    assert waits(tmp_path / "lake", recreated) == {"clicks": {"0": 1}}
