"""The arithmetic of offsets and what an audit says: no Spark, no Kafka."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from lakehouse.kafka.holes import HoleCounts
from lakehouse.run.audit import missing
from lakehouse.run.audit.finding import TEXTS, Audit, Missing, PartitionAudit, Problem, describe_faults
from lakehouse.spark.audit.fates import FATES, FAULTS
from lakehouse.spark.audit.offsets import Extent as Known
from lakehouse.spark.audit.offsets import subtract_ranges


@pytest.mark.parametrize(
    ("noted", "left"),
    [
        ([], [(0, 4), (6, 9), (20, 30)]),
        ([(0, 40)], []),
        ([(2, 7)], [(0, 2), (7, 9), (20, 30)]),
        ([(22, 24), (26, 27), (21, 23)], [(0, 4), (6, 9), (20, 21), (24, 26), (27, 30)]),
        ([(4, 6), (9, 20)], [(0, 4), (6, 9), (20, 30)]),
    ],
)
def test_recorded_gaps_are_taken_out_of_the_holes(noted: list[tuple[int, int]], left: list[tuple[int, int]]) -> None:
    assert list(subtract_ranges([(0, 4), (6, 9), (20, 30)], noted)) == left


def test_as_many_recorded_gaps_as_holes_are_taken_out_at_once() -> None:
    count = 50_000
    holes = [(4 * number, 4 * number + 3) for number in range(count)]
    noted = [(4 * number + 1, 4 * number + 2) for number in range(count)]
    with_longer = [*noted, (0, 2), (8, 24), (9, 10)]
    began = time.process_time()
    assert len(list(subtract_ranges(holes, noted))) == 2 * count
    assert list(subtract_ranges(holes, with_longer))[:6] == [(2, 3), (4, 5), (6, 7), (24, 25), (26, 27), (28, 29)]
    assert time.process_time() - began < 5


def test_every_fault_names_what_was_found_what_was_expected_and_what_to_do() -> None:
    assert TEXTS.keys() == FAULTS.keys()
    for name in FAULTS:
        (problem,) = describe_faults("totals", "topic t", {name: (1234, 7)})
        assert problem.found.startswith("topic t: 1,234 ")
        assert problem.found.endswith("; the first: offset 7")
        assert problem.expected
        assert problem.do.endswith(".")
        assert "{" not in str(problem)


def test_an_audit_without_problems_is_ok_and_sums_up_the_fates() -> None:
    none = dict.fromkeys(FATES, 0)
    parts = [
        PartitionAudit("t", "id", number, 0, 5, 3, 3, none | {"applied": 2, fate: 1}, 0, Missing(noted=2))
        for number, fate in enumerate(("late", "left_out"))
    ]
    audit = Audit("totals", 4, 5, 1, 2, False, parts)
    assert (audit.ok, audit.fates) == (True, {"applied": 4, "late": 1, "left_out": 1})
    plain = audit.plain()
    assert (plain["ok"], plain["partitions"][0]["missing"]["noted"], plain["problems"]) == (True, 2, [])
    audit.problems.append(Problem("1 found", "none", "Look."))
    assert not audit.ok
    assert str(audit.problems[0]) == "1 found; expected none. Look."


def test_a_kafka_that_does_not_answer_is_reported_and_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing, "PATIENCE_SECONDS", 0.3)
    with ExitStack() as stack:
        asking = missing._HoleExplainer(missing.KafkaAccess("127.0.0.1:1"), stack)
        for _ in range(2):
            ranges = missing._CountedRanges([(0, 3), (5, 6)])
            said, why = asking.explain_holes(Known("t", "id", 0, 0, None, None, 6), ranges)
            assert (said, ranges.total) == (HoleCounts(), 4)
            assert why.startswith("Kafka could not be asked (Kafka on 127.0.0.1:1 did not answer within 0.3 s")
            monkeypatch.setattr(missing.Cluster, "topics", None)  # must not be called
