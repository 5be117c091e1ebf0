"""The order times that a tick of bronze reached, read without Spark: in a cold process, a query takes seconds."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.dataset import field

ROWS = 2**16


class OrderTime(NamedTuple):
    """The largest order time of a partition's rows, in milliseconds since the epoch."""

    topic: str
    partition: int
    order: int


def order_times(path: str, tick: int) -> list[OrderTime]:
    """Return the order times that a tick's rows have in the bronze table at a local path, a partition each."""
    reached: dict[tuple[str, int], int] = {}
    columns = {"topic": field("topic"), "partition": field("partition"), "order": field("order_time").cast("int64")}
    rows = DeltaTable(path).to_pyarrow_dataset()
    for batch in rows.scanner(columns=columns, filter=field("tick") == tick, batch_size=ROWS).to_batches():
        largest = pa.Table.from_batches([batch]).group_by(["topic", "partition"]).aggregate([("order", "max")])
        for row in largest.to_pylist():
            place = row["topic"], row["partition"]
            reached[place] = max(row["order_max"], reached.get(place, row["order_max"]))
    return [OrderTime(*place, order // 1000) for place, order in sorted(reached.items())]
