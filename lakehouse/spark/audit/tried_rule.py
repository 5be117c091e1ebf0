"""A rule for a topic's records, tried on all of bronze: what it would have refused. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import functions as F

from lakehouse.plan.expectation import Expectation
from lakehouse.plan.expression.schema import HEADERS_TYPE, Column
from lakehouse.plan.origin import Source
from lakehouse.plan.stream import Stream
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.position import Identity
from lakehouse.spark.bronze import bronze
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.silver.writer import latest_complete_tick
from lakehouse.spark.stream.decoded import decode_records, is_unmet

NAME = "tried"


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that a rule refuses: its place in the topic, and the reason."""

    place: Identity
    reason: str


@dataclass(frozen=True, slots=True)
class DayOfRule:
    """The records of one day of event time (ISO 8601, UTC): all that fit now, and how many of them a rule refuses.

    first: the first of these, by its place in the lake.
    """

    day: str
    records: int
    refused: int
    first: RefusedRecord | None


@dataclass(frozen=True, slots=True)
class TriedRule:
    """The records of a stream, up to a tick, and those of them that a rule would have refused, by day."""

    stream: str
    rule: str
    tick: int
    days: tuple[DayOfRule, ...]

    @property
    def records(self) -> int:
        return sum(day.records for day in self.days)

    @property
    def refused(self) -> int:
        return sum(day.refused for day in self.days)


def try_rule(lake: OpenLake, source: Source, rule: Expectation, since_ms: int | None = None) -> TriedRule:
    """Return what a rule would refuse of a source's records that are good now, by day.

    rule: of `parse_rule`. since_ms: only records with this Kafka timestamp or a later one. A record with a null value
    passes; one that was fixed is judged as it came.
    """
    tick = latest_complete_tick(lake)
    own_topics = [source.topic] if source.own_table else []
    rows = bronze.read_ticks(lake, [source.topic], NO_TICK, tick, own_topics)
    if since_ms is not None:
        rows = rows.where(F.col("timestamp") >= F.timestamp_millis(F.lit(since_ms)))
    judged_records = decode_records(source, rows, lake.schemas.find).where("NOT _bad")
    judged_records = judged_records.withColumn("_refused", is_unmet(rule))
    place = F.struct("_position.tick", "_topic_id", "_position.partition", "_position.offset")
    first = F.min(F.when(F.col("_refused"), F.struct(place.alias("place"), *rule.shown_columns)))
    day_rows = (
        judged_records.groupBy(F.to_date(F.timestamp_millis("rowtime")).cast("string").alias("day"))
        .agg(F.count(F.lit(1)).alias("records"), F.count_if("_refused").alias("refused"), first.alias("first"))
        .orderBy("day")
        .collect()
    )
    days = tuple(
        DayOfRule(row["day"], row["records"], row["refused"], _refused_record(rule, row["first"])) for row in day_rows
    )
    return TriedRule(source.name, rule.condition.text, tick, days)


def parse_rule(source: Source, condition: str) -> Expectation:
    """Return a condition over a source's columns as one more expectation. Raises PlanError."""
    columns = tuple(column.plain for column in (*source.key, *source.value))
    if source.headers:
        columns += (Column(source.headers, HEADERS_TYPE),)
    bare_source = replace(source, expectations=())
    judged = Stream(bare_source, bare_source.key_names, columns).expect(NAME, condition)
    assert isinstance(judged.source, Source)
    return judged.source.expectations[-1]


def _refused_record(expectation: Expectation, first: Any) -> RefusedRecord | None:
    if first is None:
        return None
    _, topic_id, partition, offset = first["place"]
    return RefusedRecord(Identity(topic_id, partition, offset), expectation.reason(first.asDict()))
