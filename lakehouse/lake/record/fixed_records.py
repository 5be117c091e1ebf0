"""The quarantined records that now count with other bytes, from the interventions, without Spark.

A record is fixed while the fix is in effect in every table that it concerns; a revert of one table opens it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse.lake import intervention_log, reader
from lakehouse.lake.in_effect import interventions_in_effect
from lakehouse.lake.layout import Layout
from lakehouse.lake.store import is_table
from lakehouse.semantics.commit_number import EVER
from lakehouse.semantics.position import Identity, RecordPlace

SCHEMA = pa.schema({"topic_id": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "fixed_at": pa.int64()})


@dataclass(frozen=True, slots=True)
class FixedBytes:
    """A quarantined record, by its identity, and the bytes that count instead."""

    topic_id: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None

    @property
    def identity(self) -> Identity:
        return Identity(self.topic_id, self.partition, self.offset)


def read_repaired(layout: Layout, stream: str) -> pa.Table:
    """Return the identities of a stream's fixed records, each once, with the tick of the last fix."""
    fixed_ticks: dict[Identity, int] = {}
    for tick, identity, _ in _read_fixes(layout, _fix_ticks(layout, stream)):
        fixed_ticks[identity] = max(fixed_ticks.get(identity, 0), tick)
    repaired_rows = [
        dict(zip(SCHEMA.names, (*identity, fixed_tick), strict=True)) for identity, fixed_tick in fixed_ticks.items()
    ]
    return pa.Table.from_pylist(repaired_rows, SCHEMA)


def read_fixed_in_table(layout: Layout, table: str) -> dict[Identity, FixedBytes]:
    """Return the records that count with other bytes in a table, by the fixes in effect there: the newest bytes."""
    interventions = interventions_in_effect(intervention_log.interventions_by_table(layout).get(table, []), EVER)
    fix_ticks = {intervention.id: intervention.at for intervention in interventions if intervention.kind == "fixed"}
    fixes = sorted(_read_fixes(layout, fix_ticks, ["key", "value"]), key=lambda fix: fix[0])
    return {identity: FixedBytes(*identity, row["key"], row["value"]) for _, identity, row in fixes}


def format_identities(topic: str, identities: Sequence[Identity]) -> str:
    """Return the first of these records as a text: "record orders/0/27", as --position takes it; "records ...".

    A topic that was recreated has its id, too, if the records are of several.
    """
    has_several_topics = len({topic_id for topic_id, _, _ in identities[:5]}) > 1
    shown_texts = [
        str(RecordPlace(f"{topic}@{topic_id}" if has_several_topics else topic, partition, offset))
        for topic_id, partition, offset in identities[:5]
    ]
    rest = ", ..." if len(identities) > len(shown_texts) else ""
    return f"record{'s' * (len(identities) > 1)} {', '.join(shown_texts)}{rest}"


def _read_fixes(
    layout: Layout, fix_ticks: Mapping[str, int], more_columns: list[str] | None = None
) -> Iterator[tuple[int, Identity, dict[str, Any]]]:
    """Yield the records of fixes: tick, identity, and the row with more columns. fix_ticks: by the fixes' ids."""
    if not fix_ticks or not is_table(layout.intervention_records):
        return
    import pyarrow.dataset as ds

    column_names = ["id", "topic_id", "partition", "offset", *(more_columns or [])]
    records = reader.open_dataset(layout.intervention_records)
    for batch in records.to_batches(columns=column_names, filter=ds.field("id").isin(list(fix_ticks))):
        for row in batch.to_pylist():
            yield fix_ticks[row["id"]], Identity(row["topic_id"], row["partition"], row["offset"]), row


def _fix_ticks(layout: Layout, stream: str) -> dict[str, int]:
    """Return the ticks of a stream's fixes that are in effect in all of their tables, by id."""
    interventions_by_table = intervention_log.interventions_by_table(layout)
    fix_ticks = {
        intervention.id: intervention.at
        for interventions in interventions_by_table.values()
        for intervention in interventions
        if intervention.kind == "fixed" and intervention.details["stream"] == stream
    }
    for interventions in interventions_by_table.values():
        ids_in_effect = {intervention.id for intervention in interventions_in_effect(interventions, EVER)}
        for reverted_id in {reverted.id for reverted in interventions} - ids_in_effect:
            fix_ticks.pop(reverted_id, None)
    return fix_ticks
