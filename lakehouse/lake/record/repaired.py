"""The quarantined records that by now count with other bytes, from the interventions, without Spark.

A record is fixed while every table that its fix concerns has the fix; a revert of one of them opens it again.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakehouse.lake import intervention_log, reader
from lakehouse.lake.commit_log import is_table
from lakehouse.lake.in_effect import in_effect
from lakehouse.lake.layout import Layout
from lakehouse.semantics.epoch import EVER

SCHEMA = pa.schema(
    {"topic_id": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "fixed_at": pa.int64()}
)  # fmt: skip


def repaired(layout: Layout, stream: str) -> pa.Table:
    """Return the identities of a stream's fixed records, each once, with the tick of the last fix."""
    fixes = _fixes(layout, stream)
    if not fixes or not is_table(layout.intervention_records):
        return SCHEMA.empty_table()
    import pyarrow.dataset as ds

    names = ["id", "topic_id", "partition", "offset"]
    found: dict[tuple[Any, ...], int] = {}
    rows = reader.dataset(layout.intervention_records)
    for batch in rows.to_batches(columns=names, filter=ds.field("id").isin(list(fixes))):
        for row in batch.to_pylist():
            identity = (row["topic_id"], row["partition"], row["offset"])
            found[identity] = max(found.get(identity, 0), fixes[row["id"]])
    made = [dict(zip(SCHEMA.names, (*identity, at), strict=True)) for identity, at in found.items()]
    return pa.Table.from_pylist(made, SCHEMA)


def _fixes(layout: Layout, stream: str) -> dict[str, int]:
    """The ticks of a stream's fixes that are in effect in all of their tables, by id."""
    tables = intervention_log.by_table(layout)
    mine = {
        one.id: one.at
        for decisions in tables.values()
        for one in decisions
        # A fix of an earlier release does not have its stream.
        if one.kind == "fixed" and one.details.get("stream", stream) == stream
    }
    for decisions in tables.values():
        kept = {one.id for one in in_effect(decisions, EVER)}
        for gone in {one.id for one in decisions} - kept:
            mine.pop(gone, None)
    return mine
