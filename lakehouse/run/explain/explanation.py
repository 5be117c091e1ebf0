"""An explanation: a row's records step by step, and the table's own row, which is compared with the last step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from lakehouse.formats.codec.registered import FindSchemas
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.written_form import decode_written_key, decode_written_value
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.markup.shown import moment, number, pairs, value
from lakehouse.markup.text import InNotebook, as_html, to_paragraph
from lakehouse.markup.text import to_html_table as as_table
from lakehouse.model.event import from_hashable, key_of
from lakehouse.plan.operator import Expire, Final, Operator
from lakehouse.plan.table import Table
from lakehouse.run.explain.key_records import SoughtKey
from lakehouse.run.scenario.as_written import plain_value
from lakehouse.run.scenario.compare import is_same_value
from lakehouse.run.scenario.keys import keys_of
from lakehouse.semantics.changelog import Key
from lakehouse.semantics.epoch_time import to_milliseconds
from lakehouse.semantics.moment import At
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.time.window import Span

if TYPE_CHECKING:
    from lakehouse.spark.open_lake import OpenLake


DOUBLE_TOLERANCE = 1e-12  # as a part of the value
COLUMNS = ("topic", "partition", "offset", "event time", "tick", "key", "value", "did", "row after")


@dataclass(frozen=True, slots=True)
class RowStep:
    """The effect of a record, or an intervention, on a row, and the row's values after it; None: there is no row.

    record: as it is in bronze; None for an intervention, and then `reason` says why. record_key, record_value: in
    readable form, or in hex if they have none. did: inserted, updated, unchanged, deleted, absorbed (by a longer
    session), late, superseded (by `order_by`), or the name of an intervention.
    """

    position: Position
    did: str
    row: dict[str, Any] | None
    event_ms: int | None = None
    record: Record | None = None
    record_key: Any = None
    record_value: Any = None
    reason: str | None = None

    def cells(self) -> tuple[Any, ...]:
        """Return the cells of a line, by COLUMNS; an intervention has no place in a topic, no key and no value."""
        did = self.did if self.reason is None else f"{self.did}: {self.reason}"
        if self.record is None:
            return (None, None, None, None, self.position.tick, None, None, did, pairs(self.row))
        time = None if self.event_ms is None else moment(self.event_ms, "milliseconds")
        place = (self.record.topic, self.record.partition, self.record.offset, time, self.position.tick)
        return (*place, value(self.record_key), value(self.record_value), did, pairs(self.row))


@dataclass(frozen=True, slots=True)
class Explained(InNotebook):
    """A row: its key (with the window, if there is one), its steps in order, and the table's own row at the moment.

    found: the row's values in the table. agrees: they equal the result of the steps. note: the fault; or, where nothing
    is wrong, why the table does not show the row.
    """

    key: dict[str, Any]
    steps: tuple[RowStep, ...]
    found: dict[str, Any] | None
    agrees: bool
    note: str | None = None

    @property
    def row(self) -> dict[str, Any] | None:
        """The row's values after the last step."""
        return self.steps[-1].row

    def verdict(self) -> str:
        """Return a sentence that says whether the table has the result of the steps."""
        actual = pairs(self.found) or "no row"
        if self.agrees:
            return (
                f"The table has the same: {actual}." if self.note is None else f"The table has {actual}: {self.note}."
            )
        return f"NOT THE SAME. The table has {actual}: {self.note}."


class ExplainedRows(list[Explained]):
    """The rows of a key; a notebook shows one below the other."""

    def _repr_html_(self) -> str:
        return "".join(map(as_html, self))


@as_html.register
def _explained_to_html(row: Explained) -> str:
    steps = [step.cells() for step in row.steps]
    return as_table(COLUMNS, steps, number, title=str(pairs(row.key))) + to_paragraph(row.verdict())


def rows_of_key(
    lake: Callable[[], OpenLake],
    layout: Layout,
    table: Table,
    row_keys: Iterable[Key],
    sought_key: SoughtKey,
    moment_read: At | None,
    version: int | None,
) -> dict[Key, dict[str, Any]]:
    """Return the rows of a key as the table has them at a moment. row_keys: keys of rows, to read only a few."""
    key_columns = keys_of(table).columns
    row_key = next(iter(row_keys))
    plain_parts = {n: part for n, part in zip(key_columns, row_key, strict=False) if isinstance(part, str | int)}
    if version is not None:
        table_rows = _scan_version(layout, table, version, plain_parts)
    else:
        from lakehouse.spark.changelog import published
        from lakehouse.spark.history import reading

        table_frame = reading.read_rows(lake().open(table), moment_read)
        table_frame = table_frame.select(*[name for name in table_frame.columns if not name.startswith("_")])
        for name, part in plain_parts.items():
            table_frame = table_frame.where(table_frame[name].eqNullSafe(part))
        table_rows = published.rows_of_frame(table_frame)
    rows_by_key: dict[Key, dict[str, Any]] = {}
    for row in table_rows:
        row_key = key_of(table.key, {name.lower(): value for name, value in row.items()})
        if sought_key.is_key(row_key[: len(key_columns)]):
            rows_by_key[row_key] = {n: v for n, v in row.items() if n not in table.key and n[0] != "_"}
    return rows_by_key


def _scan_version(layout: Layout, table: Table, version: int, key_parts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.dataset as ds

    predicate = ds.scalar(value=True)
    for name, part in key_parts.items():
        field = ds.field(name)
        # The writers of other engines store texts as views, which Arrow can't compare yet.
        predicate &= (field.cast(pa.string()) if isinstance(part, str) else field) == part
    for batch in reader.open_dataset(layout.silver(table.name), version).to_batches(filter=predicate):
        yield from batch.to_pylist(maps_as_pydicts="strict")


def compare_with_table(
    table: Table, key: Key, steps: tuple[RowStep, ...], table_row: dict[str, Any] | None, watermark: int | None
) -> Explained:
    """Return a row, after a comparison of the steps' result with the table's own row."""
    folded_row = steps[-1].row if steps else None
    key_columns = {name: from_hashable(part) for name, part in zip(table.key, key, strict=False)}
    agrees = (folded_row is None) == (table_row is None) and (
        folded_row is None or is_same_value(plain_value(folded_row), plain_value(table_row), _is_same_double)
    )
    note = absence = None
    if not agrees and folded_row is not None and table_row is None:
        note = absence = next(
            (why for item in table.later_operators if (why := _explain_absence(item, table, key, watermark))), None
        )
    if not agrees and note is None:
        note = "the table has another row: somebody else has changed it, or it was declared differently then"
    return Explained(key_columns, steps, table_row, agrees or absence is not None, note)


def _is_same_double(folded: float, stored: float) -> bool:
    """Say whether two doubles differ in their last bits at most, as functions such as exp do in Java and Python."""
    return math.isclose(folded, stored, rel_tol=DOUBLE_TOLERANCE)


@singledispatch
def _explain_absence(operator: Operator, table: Table, key: Key, watermark: int | None) -> str | None:
    """Say why an operator hides a row that the records lead to; None if it does not."""
    return None


@_explain_absence.register
def _explain_open_window(operator: Final, table: Table, key: Key, watermark: int | None) -> str | None:
    window = table.fold.window
    if window is None or (watermark is not None and window.closing_time(_window_span(key)) <= watermark):
        return None
    return "the window is not closed yet: final results show it when it is"


@_explain_absence.register
def _explain_expired(operator: Expire, table: Table, key: Key, watermark: int | None) -> str | None:
    if watermark is not None and to_milliseconds(key[-1]) + operator.after >= watermark:
        return None
    return "the row has expired: it is past the table's retention"


def _window_span(key: Key) -> Span:
    return Span(to_milliseconds(key[-2]), to_milliseconds(key[-1]))


def readable_record(table: Table, record: Record, find_schemas: FindSchemas) -> tuple[Any, Any]:
    """Return a record's key and value in a readable form, or in hex if they have none.

    find_schemas: gives the schemas of the writers of a topic's "key" or "value".
    """
    source = next(source for source in table.stream.sources if source.topic == record.topic)
    texts: list[Any] = []
    parts = (("key", decode_written_key, record.key), ("value", decode_written_value, record.value))
    for part_name, write, data in parts:
        try:
            texts.append(write(source, data, find_schemas(record.topic, part_name)))
        except Unfit:
            texts.append((data or b"").hex())
    return texts[0], texts[1]
