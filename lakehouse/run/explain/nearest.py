"""The keys of a table that look most like a key that it does not have."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice

from lakehouse.formats.key_text import several_columns_sentence
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.model.event import key_of
from lakehouse.plan.table import Table
from lakehouse.run.explain.key_records import key_to_text
from lakehouse.run.scenario.keys import keys_of

LOOKED_AT = 20_000
SHOWN = 3


def describe_nearest(layout: Layout, table: Table, key: str) -> str:
    """Return a sentence that names the nearest keys, and says how to write a key of several columns."""
    columns = keys_of(table).columns
    batches = reader.open_dataset(layout.silver(table.name)).to_batches(columns=list(columns))
    rows = (row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict"))
    texts = {key_to_text(key_of(columns, {n.lower(): v for n, v in row.items()})) for row in islice(rows, LOOKED_AT)}
    form_text = f" {several_columns_sentence(columns)}" if len(columns) > 1 else ""
    near_keys = get_close_matches(key, texts, SHOWN, cutoff=0.0)
    return (f"The nearest keys: {'; '.join(near_keys)}." if near_keys else "The table is empty.") + form_text
