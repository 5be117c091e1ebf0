"""The quarantined records that now count with other bytes, from the interventions, without Spark.

A record is fixed while the fix is in effect in every table that it concerns; a revert of one table opens it again.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakehouse.lake import intervention_log, reader
from lakehouse.lake.in_effect import interventions_in_effect
from lakehouse.lake.layout import Layout
from lakehouse.lake.store import is_table
from lakehouse.semantics.epoch import EVER

SCHEMA = pa.schema({"topic_id": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "fixed_at": pa.int64()})


def read_repaired(layout: Layout, stream: str) -> pa.Table:
    """Return the identities of a stream's fixed records, each once, with the tick of the last fix."""
    fix_ticks = _fix_ticks(layout, stream)
    if not fix_ticks or not is_table(layout.intervention_records):
        return SCHEMA.empty_table()
    import pyarrow.dataset as ds

    column_names = ["id", "topic_id", "partition", "offset"]
    fixed_ticks: dict[tuple[Any, ...], int] = {}
    records = reader.open_dataset(layout.intervention_records)
    for batch in records.to_batches(columns=column_names, filter=ds.field("id").isin(list(fix_ticks))):
        for row in batch.to_pylist():
            identity = (row["topic_id"], row["partition"], row["offset"])
            fixed_ticks[identity] = max(fixed_ticks.get(identity, 0), fix_ticks[row["id"]])
    repaired_rows = [
        dict(zip(SCHEMA.names, (*identity, fixed_tick), strict=True)) for identity, fixed_tick in fixed_ticks.items()
    ]
    return pa.Table.from_pylist(repaired_rows, SCHEMA)


def _fix_ticks(layout: Layout, stream: str) -> dict[str, int]:
    """Return the ticks of a stream's fixes that are in effect in all of their tables, by id."""
    interventions_by_table = intervention_log.interventions_by_table(layout)
    fix_ticks = {
        one.id: one.at
        for interventions in interventions_by_table.values()
        for one in interventions
        # A fix of an earlier release does not name its stream.
        if one.kind == "fixed" and one.details.get("stream", stream) == stream
    }
    for interventions in interventions_by_table.values():
        ids_in_effect = {one.id for one in interventions_in_effect(interventions, EVER)}
        for reverted_id in {one.id for one in interventions} - ids_in_effect:
            fix_ticks.pop(reverted_id, None)
    return fix_ticks
