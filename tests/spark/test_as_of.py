"""The as-of join on Spark: the stream of batches that Python sees may be cut anywhere, also within a key."""

from __future__ import annotations

from itertools import groupby

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.operators.as_of import KeyChanges
from lakehouse.spark.stream.as_of import make_change_finder

IS = pa.struct([("there", pa.bool_()), ("row", pa.string())])
SHOWN = pa.schema([("_record", pa.int64()), ("_found", IS)])
ROW = st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 9))  # key, a change or a record, time


@given(st.lists(ROW, max_size=40), st.lists(st.integers(1, 9)))
def test_any_batches_find_the_same(rows: list[tuple[int, bool, int]], sizes: list[int]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    numbered = [(n, *row) for n, row in enumerate(rows)]
    expected = []
    for _, of_key in groupby(numbered, key=lambda row: row[1]):
        timeline: KeyChanges[int] = KeyChanges()
        for number, _, is_change, time in of_key:
            if is_change:
                timeline.put(time, number)
            else:
                actual = timeline.find_change(time)
                expected.append((number, None if actual is None else {"there": True, "row": str(actual)}))

    columns = {
        "_is_first": [not n or row[0] != rows[n - 1][0] for n, row in enumerate(rows)],
        "_side": [0 if is_change else 1 for _, is_change, _ in rows],
        "_time": [time for _, _, time in rows],
        "_record": [None if is_change else n for n, (_, is_change, _) in enumerate(rows)],
        "_is": [{"there": True, "row": str(n)} if is_change else None for n, (_, is_change, _) in enumerate(rows)],
    }
    kinds = pa.schema(
        [("_is_first", pa.bool_()), ("_side", pa.int32()), ("_time", pa.int64()), ("_record", pa.int64()), ("_is", IS)]
    )
    whole = pa.record_batch(columns, schema=kinds)
    batches, at = [whole.slice(0, 0)], 0
    for size in [*sizes, len(rows)]:
        batches.append(whole.slice(at, size))
        at = min(at + size, len(rows))
    actual = pa.Table.from_batches(make_change_finder(SHOWN)(iter(batches)), SHOWN).to_pylist()
    assert [(row["_record"], row["_found"]) for row in actual] == expected
