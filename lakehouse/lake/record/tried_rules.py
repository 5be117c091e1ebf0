"""New expectations, tried on a topic's newest records before a run takes them over: without Spark, in an instant.

All of history is for `lakehouse test expect`, which asks Spark.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lakehouse.errors import NeedsSpark
from lakehouse.formats.decode import decode_record
from lakehouse.lake.commit_log import TickCoverage
from lakehouse.lake.control.stream_declaration import read_declared_fields
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.newest_rows import read_newest_rows
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.plan.expectation import Expectation
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.origin import Source
from lakehouse.semantics.epoch_time import to_milliseconds
from lakehouse.semantics.position import RecordPlace
from lakehouse.semantics.record import Record

COLUMNS = 'topic, topic_id, "partition", "offset", "timestamp", key, value, tick, order_time'


@dataclass(frozen=True, slots=True)
class SampledRule:
    """A new expectation of a stream, and how many of its topic's newest records do not meet it.

    first, reason: the place and the reason of the first of them; empty for none.
    """

    stream: str
    expectation: str
    condition: str
    refused: int
    of_records: int
    first: str = ""
    reason: str = ""

    def __str__(self) -> str:
        example = f", for example {self.first}: {self.reason}" if self.first else ""
        return (
            f"stream {self.stream!r}: rule {self.expectation} is new ({self.condition}). Of the newest "
            f"{self.of_records:,} records {self.refused:,} do not meet it{example}. All of history: "
            f"`lakehouse test expect {self.stream} --rule {shlex.quote(self.condition)}`"
        )


def try_new_rules(layout: Layout, coverage: TickCoverage, sources: Iterable[Source]) -> list[SampledRule]:
    """Return the expectations that the last run did not have, tried. One that needs Spark, or headers, is left out.

    coverage: bronze's. Raises StorageError.
    """
    tried_rules = []
    for source in sources:
        declared = read_declared_fields(layout, source.name)
        if declared is None or any(
            parse_format(name).traits.reads_by_schema for name in (source.key_format, source.value_format)
        ):
            continue
        new_rules = [
            rule
            for rule in source.expectations
            if declared.expectations.get(rule.name) != str(rule.condition) and not _reads_headers(source, rule)
        ]
        records = _newest_records(layout, coverage, source.topic) if new_rules else []
        tried_rules += [tried for rule in new_rules if records and (tried := _try_rule(source, rule, records))]
    return tried_rules


def _reads_headers(source: Source, rule: Expectation) -> bool:
    return source.headers.lower() in {name.lower() for name in rule.condition.columns()}


def _try_rule(source: Source, rule: Expectation, records: list[Record]) -> SampledRule | None:
    judging_source = replace(source, expectations=(replace(rule, otherwise="quarantine"),))
    try:
        result = model.run(App((), (), (judging_source,)), records, decode_record)
    except NeedsSpark:
        return None
    refused = [
        (record, reason) for record, reason in result.quarantine[source.name] if reason.startswith(rule.reason_start)
    ]
    condition = str(rule.condition)
    if not refused:
        return SampledRule(source.name, rule.name, condition, 0, len(records))
    first_record, reason = refused[0]
    place = RecordPlace(first_record.topic, first_record.partition, first_record.offset)
    return SampledRule(source.name, rule.name, condition, len(refused), len(records), str(place), reason)


def _newest_records(layout: Layout, coverage: TickCoverage, topic: str) -> list[Record]:
    """Return some of a topic's newest records, without their headers; the model puts them in order."""
    times = ("timestamp", "order_time")
    return [
        Record(**{**row, **{name: to_milliseconds(row[name]) for name in times}})
        for row in read_newest_rows(layout, coverage, topic, COLUMNS)
    ]
