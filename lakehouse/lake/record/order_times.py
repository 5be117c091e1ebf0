"""The order times that a tick of bronze reached, without Spark, whose first query in a process takes seconds."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from pyarrow.dataset import field

from lakehouse.lake import store

ROWS = 2**16


class OrderTime(NamedTuple):
    """The largest order time of a partition's rows, in milliseconds since the epoch."""

    topic: str
    partition: int
    order: int


def read_order_times(path: str, tick: int) -> list[OrderTime]:
    """Return the order times of a tick's rows in the bronze table at a path, one for each partition."""
    largest_by_place: dict[tuple[str, int], int] = {}
    scan_columns = {
        "topic": field("topic"),
        "partition": field("partition"),
        "order": field("order_time").cast("int64"),
    }
    bronze_dataset = store.open_delta(path).to_pyarrow_dataset()
    for batch in bronze_dataset.scanner(
        columns=scan_columns, filter=field("tick") == tick, batch_size=ROWS
    ).to_batches():
        batch_maxima = pa.Table.from_batches([batch]).group_by(["topic", "partition"]).aggregate([("order", "max")])
        for row in batch_maxima.to_pylist():
            place = row["topic"], row["partition"]
            largest_by_place[place] = max(row["order_max"], largest_by_place.get(place, row["order_max"]))
    return [OrderTime(*place, order // 1000) for place, order in sorted(largest_by_place.items())]
