"""An explanation: a row's records step by step, and the table's own row, which is compared with the last step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from lakehouse.formats.shown import moment, number, pairs, value
from lakehouse.formats.unfit import Unfit
from lakehouse.formats.written import written_key, written_value
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.markup.text import InNotebook, as_html, line
from lakehouse.markup.text import table as as_table
from lakehouse.model.event import key_of, unhashable
from lakehouse.plan.operator import Expire, Final, Operator
from lakehouse.plan.table import Table
from lakehouse.run.explain.of_key import Sought
from lakehouse.run.scenario.as_written import plain
from lakehouse.run.scenario.compare import same
from lakehouse.run.scenario.keys import keys_of
from lakehouse.semantics.changelog import Key
from lakehouse.semantics.moment import At, milliseconds
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.window import Span

if TYPE_CHECKING:
    from lakehouse.spark.open_lake import OpenLake


COLUMNS = ("topic", "partition", "offset", "event time", "tick", "key", "value", "did", "row after")


@dataclass(frozen=True, slots=True)
class RowStep:
    """What one record, or intervention, did to a row, and the row's values after it; None: there is no row.

    record: as it is in bronze; None for an intervention, and then `reason` says why. Its key and value are in readable
    form, or hex if they have none. did: inserted, updated, unchanged, deleted, absorbed (by a longer session), late,
    superseded (by `order_by`), or the name of an intervention.
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
        """Return it as a line of a table, by COLUMNS; an intervention has no place in a topic, no key and no value."""
        did = self.did if self.reason is None else f"{self.did}: {self.reason}"
        if self.record is None:
            return (None, None, None, None, self.position.tick, None, None, did, pairs(self.row))
        time = None if self.event_ms is None else moment(self.event_ms, "milliseconds")
        place = (self.record.topic, self.record.partition, self.record.offset, time, self.position.tick)
        return (*place, value(self.record_key), value(self.record_value), did, pairs(self.row))


@dataclass(frozen=True, slots=True)
class Explained(InNotebook):
    """One row: its key (with the window, if there is one), its steps in order, and the table's own row at the moment.

    found: the row's values in the table. agrees: they equal the result of the steps. note: why the table does not show
    the row although nothing is wrong, or what is wrong.
    """

    key: dict[str, Any]
    steps: tuple[RowStep, ...]
    found: dict[str, Any] | None
    agrees: bool
    note: str | None = None

    @property
    def row(self) -> dict[str, Any] | None:
        """The result of the steps."""
        return self.steps[-1].row

    def verdict(self) -> str:
        """Return a sentence: whether the table has what the steps lead to."""
        said = pairs(self.found) or "no row"
        if self.agrees:
            return f"The table has the same: {said}." if self.note is None else f"The table has {said}: {self.note}."
        return f"NOT THE SAME. The table has {said}: {self.note}."


class ExplainedRows(list[Explained]):
    """The rows of a key, which a notebook shows one below the other."""

    def _repr_html_(self) -> str:
        return "".join(map(as_html, self))


@as_html.register
def _explained(row: Explained) -> str:
    steps = [step.cells() for step in row.steps]
    return as_table(COLUMNS, steps, number, title=str(pairs(row.key))) + line(row.verdict())


def rows_of_key(
    lake: Callable[[], OpenLake],
    layout: Layout,
    table: Table,
    known: Iterable[Key],
    key: Sought,
    at: At | None,
    version: int | None,
) -> dict[Key, dict[str, Any]]:
    """Return the rows of a key as the table has them at a moment. known: keys of rows, to read only a few."""
    columns = keys_of(table).columns
    of = next(iter(known))
    plain_ones = {n: part for n, part in zip(columns, of, strict=False) if isinstance(part, str | int)}
    if version is not None:
        found = _rows(layout, table, version, plain_ones)
    else:
        from lakehouse.spark.changelog import published
        from lakehouse.spark.past import reading

        frame = reading.read(lake().open(table), at)
        frame = frame.select(*[name for name in frame.columns if not name.startswith("_")])
        for name, part in plain_ones.items():
            frame = frame.where(frame[name].eqNullSafe(part))
        found = published.rows(frame)
    rows: dict[Key, dict[str, Any]] = {}
    for row in found:
        of = key_of(table.key, {name.lower(): value for name, value in row.items()})
        if key.is_key(of[: len(columns)]):
            rows[of] = {n: v for n, v in row.items() if n not in table.key and n[0] != "_"}
    return rows


def _rows(layout: Layout, table: Table, version: int, key: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.dataset as ds

    wanted = ds.scalar(value=True)
    for name, part in key.items():
        field = ds.field(name)
        # Writers of other engines store texts as views, which Arrow can't compare yet.
        wanted &= (field.cast(pa.string()) if isinstance(part, str) else field) == part
    for batch in reader.dataset(layout.silver(table.name), version).to_batches(filter=wanted):
        yield from batch.to_pylist(maps_as_pydicts="strict")


def checked(
    table: Table, key: Key, steps: tuple[RowStep, ...], found: dict[str, Any] | None, watermark: int | None
) -> Explained:
    """Return a row; the result of the steps is compared with the table's own row."""
    made = steps[-1].row if steps else None
    shown = {name: unhashable(part) for name, part in zip(table.key, key, strict=False)}
    agrees = (made is None) == (found is None) and (made is None or same(plain(made), plain(found)))
    note = absent = None
    if not agrees and made is not None and found is None:
        note = absent = next((why for item in table.behind if (why := _absent(item, table, key, watermark))), None)
    if not agrees and note is None:
        note = "the table has another row: somebody else has changed it, or it was declared differently then"
    return Explained(shown, steps, found, agrees or absent is not None, note)


@singledispatch
def _absent(operator: Operator, table: Table, key: Key, watermark: int | None) -> str | None:
    """Say why an operator hides a row that the records lead to; None if it does not."""
    return None


@_absent.register
def _not_closed(operator: Final, table: Table, key: Key, watermark: int | None) -> str | None:
    window = table.fold.window
    if window is None or (watermark is not None and window.closes(_span(key)) <= watermark):
        return None
    return "the window is not closed yet: final results show it when it is"


@_absent.register
def _left(operator: Expire, table: Table, key: Key, watermark: int | None) -> str | None:
    if watermark is not None and milliseconds(key[-1]) + operator.after >= watermark:
        return None
    return "the row has expired: it is past the table's retention"


def _span(key: Key) -> Span:
    return Span(milliseconds(key[-2]), milliseconds(key[-1]))


def written(table: Table, record: Record) -> tuple[Any, Any]:
    """Return a record's key and value in readable form, or in hex if they have none."""
    source = next(source for source in table.stream.sources if source.topic == record.topic)
    found: list[Any] = []
    for write, data in ((written_key, record.key), (written_value, record.value)):
        try:
            found.append(write(source, data))
        except Unfit:
            found.append((data or b"").hex())
    return found[0], found[1]
