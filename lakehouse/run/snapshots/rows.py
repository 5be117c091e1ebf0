"""The rows of a snapshot's files, as the bytes of records: read by the declared types, as a record in JSON is."""

from __future__ import annotations

import csv
import io
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from lakehouse.errors import ConfigError, NotFound
from lakehouse.formats.decode import part_decoder
from lakehouse.formats.encode import encode_key, encode_value
from lakehouse.formats.values.json_text import write_json
from lakehouse.formats.values.text_value import text_reader
from lakehouse.formats.values.unfit import Unfit
from lakehouse.kafka.snapshot_topic import SnapshotRow
from lakehouse.lake import store
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.format_traits import JSON
from lakehouse.plan.origin import Source
from lakehouse.run.snapshots.files import SourceSnapshot, VersionGone, check_time, unreadable_table
from lakehouse.semantics.key_value import key_value

BATCH_ROWS = 10_000
# What delta-rs says of a version before the oldest checkpoint, once the log's earlier commits were removed.
LOG_CUT_OFF = "No table metadata or protocol found"
FileRow: TypeAlias = dict[str, Any] | None
Item = TypeVar("Item")
FileSizes = frozenset[tuple[str, int | None]]  # paths and bytes
FileStamp = tuple[int | None, int | None]  # bytes, and the time of the last change in nanoseconds


def read_rows(source: Source, snapshot: SourceSnapshot) -> Iterator[SnapshotRow]:
    """Yield the rows of a snapshot as records of its topic.

    Raises ConfigError, with the file and the row, for a row that does not fit the declaration, or has no key;
    VersionGone, NotFound, StorageError.
    """
    assert source.snapshots is not None
    columns = (*source.key, *source.value)
    for path in snapshot.files:
        place = path if snapshot.version is None else f"{path}, version {snapshot.version}"
        file_rows = _read_file(source, path, snapshot.version, columns)
        yield from _fitting_rows(file_rows, place, partial(_as_record, source, place))


def time_of_column(source: Source, path: str) -> int:
    """Return the latest time in the declared column of a file, in milliseconds. Raises ConfigError if there is none."""
    declared = source.snapshots
    assert declared is not None
    moments = [
        row[declared.time_column]
        for row in _fitting_rows(
            _read_file(source, path, None, (Column(declared.time_column, "timestamp"),)), path, _as_it_is
        )
        if row is not None and row.get(declared.time_column) is not None
    ]
    if not moments:
        raise ConfigError(
            f"{path}: column {declared.time_column} has no value; expected the time of the snapshot in each row."
        )
    return check_time(int(max(moments).timestamp() * 1000), path)


def file_sizes(files: Sequence[str]) -> FileSizes:
    """Return the files of a snapshot with their sizes; None for one that is gone. Raises ConfigError, StorageError."""
    return frozenset((path, size) for path, (size, _) in file_stamps(files).items())


def file_stamps(files: Sequence[str]) -> dict[str, FileStamp]:
    """Return what changes when a file is replaced, by its path. Raises ConfigError, StorageError."""
    if not files:
        return {}
    with _file_system(files[0]) as (file_system, inner_path):
        infos = file_system.get_file_info([inner_path(path) for path in files])
    return {path: (info.size, info.mtime_ns) for path, info in zip(files, infos, strict=True)}


def _fitting_rows(file_rows: Iterator[FileRow], place: str, convert: Callable[[int, FileRow], Item]) -> Iterator[Item]:
    """Yield a file's rows through a function of their number and the row; it may raise Unfit, as the rows may.

    Raises ConfigError then, with the place and the row's number.
    """
    row_number = 0
    while True:
        row_number += 1
        try:
            item = convert(row_number, next(file_rows))
        except StopIteration:
            return
        except (Unfit, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{place}, row {row_number}: {error}. Nothing of this snapshot is taken in, nor of later ones. "
                "Correct the file or the declaration."
            ) from None
        yield item


def _as_it_is(number: int, row: FileRow) -> FileRow:
    return row


def _as_record(source: Source, place: str, number: int, row: FileRow) -> SnapshotRow:
    if row is None:
        raise Unfit("expected an object, found null")
    # A table has one row for both zeros, so the topic has one key for them.
    key_row = {column.name: key_value(row[column.name]) for column in source.key}
    key = encode_key(source.key_format, source.key, key_row)
    if key is None or all(row[column.name] is None for column in source.key):
        names = ", ".join(column.in_topic.name for column in source.key)
        raise Unfit(f"its key, {names}, is null; expected a value")
    value_row = {column.name: row[column.name] for column in source.value}
    value = encode_value(source.value_format, source.value, value_row)
    assert value is not None
    return SnapshotRow(key, value, place, number)


def _read_file(source: Source, path: str, version: int | None, columns: tuple[Column, ...]) -> Iterator[FileRow]:
    """Yield the rows of a file, by the declared types. Raises Unfit for a row, ConfigError for a file."""
    assert source.snapshots is not None
    match source.snapshots.kind:
        case "csv":
            return _read_csv(path, columns)
        case "json":
            return _read_json(path, columns)
        case "delta":
            assert version is not None
            return _read_arrow(_delta_batches(path, version, columns), columns)
    return _read_arrow(_parquet_batches(path, columns), columns)


def _read_json(path: str, columns: tuple[Column, ...]) -> Iterator[FileRow]:
    decode = part_decoder("value", JSON, columns)
    with _open_bytes(path) as file, io.BufferedReader(file) as lines:
        for number, line in enumerate(lines):
            line = line if number else line.removeprefix(BOM_UTF8)
            if line.strip():
                yield decode(line)


def _read_csv(path: str, columns: tuple[Column, ...]) -> Iterator[FileRow]:
    """Yield the rows below a line of names. An empty field is null, as in a topic of this format."""
    with _open_bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            names = next(reader, [])
            _check_names(path, names, columns)
            readers = [(c.name, names.index(c.in_topic.name), text_reader(c.in_topic.type)) for c in columns]
            for fields in reader:
                if not fields:
                    continue
                if len(fields) != len(names):
                    raise Unfit(f"expected {len(names)} fields, found {len(fields)}")
                yield {
                    name: _read_field(name, fields[index], parse) if fields[index] else None
                    for name, index, parse in readers
                }
        except csv.Error as error:
            raise Unfit(f"expected CSV: {error}") from error


def _read_field(name: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except Unfit as error:
        raise Unfit(f"field {name}: {error}") from error


def _read_arrow(batches: Iterator[Any], columns: tuple[Column, ...]) -> Iterator[FileRow]:
    """Yield the rows of Arrow's batches: written as JSON, and read as a record's, by the same rules."""
    decode = part_decoder("value", JSON, columns)
    for batch in batches:
        for row in _rows_of_batch(batch):
            yield decode(write_json(_with_zones(row)).encode("utf-8", "surrogatepass"))


def _rows_of_batch(batch: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as Python has them; row by row if one can't be, so that its number is known."""
    try:
        rows = batch.to_pylist(maps_as_pydicts="strict")
    except (KeyError, ValueError, OverflowError) as error:
        if batch.num_rows > 1:
            rows = chain.from_iterable(_rows_of_batch(batch.slice(number, 1)) for number in range(batch.num_rows))
        elif isinstance(error, KeyError):
            raise Unfit(f"a map has a key twice: {error}") from None
        else:
            raise Unfit("expected dates and times of the years 1 to 9999, found another") from None
    yield from rows


def _with_zones(value: Any) -> Any:
    """Return a value of Arrow for JSON: moments without a zone are in UTC, and times of day are text."""
    match value:
        case datetime():
            return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        case dict():
            return {name: _with_zones(item) for name, item in value.items()}
        case list():
            return [_with_zones(item) for item in value]
        case time() | timedelta():
            return str(value)
    return value


def _parquet_batches(path: str, columns: tuple[Column, ...]) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import parquet

    with _open_random(path) as file:
        try:
            parquet_file = parquet.ParquetFile(file)
            _check_names(path, parquet_file.schema_arrow.names, columns)
            for batch in parquet_file.iter_batches(BATCH_ROWS, columns=[column.in_topic.name for column in columns]):
                yield _in_microseconds(batch, path)
        except pa.ArrowException as error:
            raise ConfigError(f"{path}: can't be read as Parquet: {error}. Is it still being written?") from None


def _delta_batches(path: str, version: int, columns: tuple[Column, ...]) -> Iterator[Any]:
    """Yield the rows of a version. Raises VersionGone; StorageError for a table that can't be read."""
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    try:
        dataset = store.open_delta(path, version).to_pyarrow_dataset()
    except (DeltaError, OSError) as error:
        if LOG_CUT_OFF in str(error):
            raise VersionGone(path, version, "the log no longer has its beginning") from None
        raise unreadable_table(path, error) from None
    _check_names(path, dataset.schema.names, columns)
    try:
        for batch in dataset.to_batches(columns=[column.in_topic.name for column in columns], batch_size=BATCH_ROWS):
            yield _in_microseconds(batch, path)
    except FileNotFoundError as error:
        raise VersionGone(path, version, f"VACUUM removed a file of it: {error}") from None
    except (OSError, pa.ArrowException) as error:
        raise unreadable_table(path, error) from None


def _in_microseconds(batch: Any, path: str) -> Any:
    """Return a batch with its moments in microseconds: finer ones are cut, as in a topic. Raises ConfigError."""
    import pyarrow as pa

    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_timestamp(array.type):
            try:
                array = array.cast(pa.timestamp("us", array.type.tz), safe=array.type.unit != "ns")
            except pa.ArrowInvalid as error:
                raise ConfigError(
                    f"{path}: column {name!r} has a time that no calendar has: {error}. Expected one in the years 1 to "
                    "9999, or null. Nothing of this snapshot is taken in, nor of later ones."
                ) from None
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _check_names(path: str, names: list[str], columns: tuple[Column, ...]) -> None:
    """Raise ConfigError for a column that a file does not have, or has twice."""
    for column in columns:
        if names.count(column.in_topic.name) != 1:
            found_text = ", ".join(names) or "no line of names"
            raise ConfigError(f"{path}: expected one column {column.in_topic.name!r}; found {found_text}.")


@contextmanager
def _open_bytes(path: str) -> Iterator[Any]:
    """Give a file of this machine or a store to be read once, unpacked if it ends in .gz."""
    with (
        _file_system(path) as (file_system, inner_path),
        file_system.open_input_stream(inner_path(path), compression="detect", buffer_size=1 << 20) as file,
    ):
        yield file


@contextmanager
def _open_random(path: str) -> Iterator[Any]:
    with _file_system(path) as (file_system, inner_path), file_system.open_input_file(inner_path(path)) as file:
        yield file


@contextmanager
def _file_system(path: str) -> Iterator[tuple[Any, Callable[[str], str]]]:
    """Give Arrow's file system of a path, and the function that makes its own paths. Raises NotFound, ConfigError."""
    from pyarrow.fs import LocalFileSystem

    file_system: tuple[Any, Callable[[str], str]] = (LocalFileSystem(), str)
    if store.is_remote(path):
        with store.file_system_of(path) as remote_file_system:
            file_system = remote_file_system
    try:
        yield file_system
    except FileNotFoundError:
        raise NotFound(f"{path}: is gone; expected a snapshot's file to stay as it is.") from None
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error}.") from None
