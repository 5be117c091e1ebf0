"""The rows of a restored table, from the records of its changelog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakehouse.errors import NotFound, StorageError
from lakehouse.formats.codec.registered import NO_SCHEMAS, WriterSchemas, schema_id
from lakehouse.formats.decode import decode_columns
from lakehouse.formats.encode import encode_key
from lakehouse.formats.values.unfit import Unfit
from lakehouse.kafka.covers import Cover
from lakehouse.kafka.headers import LIMIT, RecordHeaders
from lakehouse.plan.expression.schema import Column, base_type
from lakehouse.plan.names.format_traits import DELIMITED, KAFKA
from lakehouse.plan.names.record_format import USUAL_FORMATS, parse_format
from lakehouse.plan.table import Table
from lakehouse.run.repair.newest_records import INSTEAD, Newest
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.key_value import key_value
from lakehouse.spark.changelog.published import accumulators_of, key_format, published_columns

REMEMBERED_KEYS = 50_000
_OTHER_FORMAT = (
    "Build the table from bronze; or delete the topic, let its lake publish it again in another format (json, avro), "
    "and restore then."
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lakehouse.spark.open_lake import OpenLake


def decode_rows(
    lake: OpenLake, table: Table, cover: Cover, newest: Iterable[Newest], schema: StructType,
    *, going_on: bool = False, is_state: bool = False,
) -> Iterator[tuple[int, tuple[Any, ...]]]:  # fmt: skip
    """Yield the rows from the newest records, each with its size in bytes.

    going_on: the rows have the accumulators with which the table can take in further records. is_state: the records
    are from the topic of the whole state. Raises NotFound, StorageError; RegistryUnavailable if the registry does not
    give the schema of a record. Formats in which two rows are written alike are refused: see `_refuse_unclear`.
    """
    key_columns, value_columns = published_columns(lake.spark, table)
    hidden_columns = accumulators_of(lake.spark, table, of_state=is_state)
    schemas = _Schemas(lake)
    shifts_by_origin = tick_shifts(cover)
    for record in newest:
        headers = record.headers
        value_format, own_key_format = headers.formats[0], key_format(key_columns, *headers.formats)
        if parse_format(value_format).kind == KAFKA:
            # Not only if there is such a row now: compaction removes it like a delete.
            raise NotFound(
                f"record {headers.where} has a value in the format kafka, which writes a row whose value is null as "
                f"it writes a delete: rows of table {table.name!r} may be missing. {_OTHER_FORMAT}"
            )
        try:
            value_schemas = schemas.find(value_format, record.value)
            visible_values = decode_columns(value_format, value_columns, record.value, value_schemas)
            if visible_values is None:
                continue
            accumulators = decode_columns("json", hidden_columns, headers.accumulators or b"{}") or {}
            key_schemas = schemas.find(own_key_format, record.key)
            key_values = decode_columns(own_key_format, key_columns, record.key, key_schemas) or {}
            _refuse_unclear(headers.where, value_format, value_columns, visible_values)
            _refuse_unclear(headers.where, own_key_format, key_columns, key_values)
        except Unfit as error:
            raise _no_row_error(headers.where, table.name, error) from None
        if going_on and hidden_columns and headers.accumulators is None:
            raise StorageError(
                f"record {headers.where} has no accumulators: they have {headers.left_out or 0:,} bytes and did not "
                f"fit, so table {table.name!r} could not continue. Raise {LIMIT} of its topic above that and let the "
                "key change once more, or build the table from bronze."
            )
        tick_shift = shifts_by_origin.get(headers.origin, 0)
        row = {
            **key_values,
            **visible_values,
            **shift_ticks(table, accumulators, tick_shift),
            "_event_time": to_datetime(headers.event_ms),
            "_position": tuple(headers.position._replace(tick=headers.position.tick - tick_shift)),
        }
        yield record.size, tuple(row.get(field.name) for field in schema)


def plain_key_finder(lake: OpenLake, table: Table) -> Callable[[RecordHeaders, bytes], bytes]:
    """Return the function that gives a record's key as the usual format writes it: equal keys have equal bytes.

    It raises NotFound for a key that it can't read; RegistryUnavailable if the registry does not give its schema.
    """
    key_columns, _ = published_columns(lake.spark, table)
    return _PlainKeys(key_columns, table.name, _Schemas(lake).find).find


class _PlainKeys:
    """Reads keys in the formats of their records, and writes them in the usual one."""

    def __init__(
        self, columns: tuple[Column, ...], table_name: str, find_schemas: Callable[[str, bytes | None], WriterSchemas]
    ) -> None:
        self._columns, self._table_name, self._find_schemas = columns, table_name, find_schemas
        self._usual_format = key_format(columns, *USUAL_FORMATS)
        # The two zeros of a double are one key.
        has_one_spelling = parse_format(self._usual_format).traits.has_one_spelling
        self._is_plain = has_one_spelling and base_type(columns[0].type) != "double"
        # A changelog has the keys that change again and again.
        self._write_once = lru_cache(REMEMBERED_KEYS)(self._write)

    def find(self, headers: RecordHeaders, key: bytes) -> bytes:
        """Return the bytes of a record's key in the usual format; as they are, if all of its columns are null."""
        try:
            return self._write_once(headers.formats, key)
        except Unfit as error:
            raise _no_row_error(headers.where, self._table_name, error) from None

    def _write(self, formats: tuple[str, str], key: bytes) -> bytes:
        own_format = key_format(self._columns, *formats)
        if self._is_plain and own_format == self._usual_format:
            return key
        values = decode_columns(own_format, self._columns, key, self._find_schemas(own_format, key)) or {}
        plain_values = {column.name: key_value(values.get(column.name)) for column in self._columns}
        return encode_key(self._usual_format, self._columns, plain_values) or key


def _no_row_error(record_place: str, table_name: str, error: Unfit) -> NotFound:
    return NotFound(f"record {record_place} is not a row of table {table_name!r}: {error}. {INSTEAD}")


def _refuse_unclear(record_place: str, format: str, columns: tuple[Column, ...], row: Mapping[str, Any]) -> None:
    """Raise NotFound if a format would write two different rows as this one was written."""
    record_format = parse_format(format)
    for column in columns:
        value = row.get(column.name)
        if record_format.kind == DELIMITED and value is None and base_type(column.type) in ("string", "binary"):
            meanings = "a null or an empty text"
        elif record_format.traits.has_flat_items and _has_empty_part(value):
            meanings = "a null or an empty array or map"
        else:
            continue
        raise NotFound(
            f"record {record_place} is in the format {format}, and its column {column.name} is {meanings}: the format "
            f"does not tell which. {_OTHER_FORMAT}"
        )


def _has_empty_part(value: Any) -> bool:
    """Say whether an array or a map in a value is empty."""
    match value:
        case Mapping():
            return not value or any(map(_has_empty_part, value.values()))
        case list() | tuple():
            return not value or any(map(_has_empty_part, value))
    return False


class _Schemas:
    """The schemas by which a changelog was written; each is looked up once. They may have had other columns."""

    def __init__(self, lake: OpenLake) -> None:
        self._lake = lake
        self._by_id: dict[int, WriterSchemas] = {}

    def find(self, format: str, data: bytes | None) -> WriterSchemas:
        """Return the schema of a key or a value, by its id; none where the format needs none, or nobody has it."""
        id = schema_id(data or b"") if parse_format(format).traits.reads_by_schema else None
        if id is None:
            return NO_SCHEMAS
        if id not in self._by_id:
            schema = self._lake.writer_schema(id)
            self._by_id[id] = NO_SCHEMAS if schema is None else WriterSchemas({id: schema})
        return self._by_id[id]


def tick_shifts(cover: Cover) -> dict[str, int]:
    """Return, by origin, the number to subtract from its ticks, so that all ticks end at 0 and keep their order."""
    shifts_by_origin, total_ticks = {}, 0
    for origin, end in reversed(cover.ends().items()):
        total_ticks += end
        shifts_by_origin[origin] = total_ticks
    return shifts_by_origin


def shift_ticks(table: Table, accumulators: dict[str, Any], tick_shift: int) -> dict[str, Any]:
    """Shift the ticks in the accumulators of LATEST and EARLIEST, which hold positions; over rows they hold values."""
    for item in () if table.stream.undoes else table.fold.aggregations:
        if item.kind.removesuffix("_k") in ("latest", "earliest"):
            marks = accumulators.get(f"_acc_{item.name}") or []
            for mark in marks if isinstance(marks, list) else [marks]:
                mark["at"]["tick"] -= tick_shift
    return accumulators
