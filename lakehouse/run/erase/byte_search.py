"""Searches every file of a lake for values: raw, and inside of the pages of Parquet files.

A value is found where it stands by itself: not as a part of a longer word or number. It may be spelled with the escapes
of JSON. In columns of dates and times it is found by what it means. A number of digits alone would be found by chance
in counts and offsets, so it is searched where it can mean the key: as a whole text, in quotes, and in columns and JSON
fields of the names that are given. In the raw bytes of a Parquet file a text of less than five bytes would be found by
chance, too: there such a text is searched in the values and in the statistics.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.errors import ConfigError
from lakehouse.lake import store
from lakehouse.semantics.epoch_time import to_microseconds

Moment = TypeVar("Moment", date, datetime)
BATCH_ROWS = 10_000
PARQUET_MAGIC = b"PAR1"
RAW_BYTES_MIN = 5
DIGITS = re.compile(r"-?\d+")
NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A file that holds one of the values, and where in it: a column of a Parquet file, or its raw bytes."""

    path: str
    place: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The files that were searched, and what was found."""

    files: int
    bytes: int
    occurrences: tuple[Occurrence, ...]


class ValuePattern:
    """Tells whether bytes, or a number in a column, hold one of some values. columns: names that hold such a value.

    Raises ConfigError without a value.
    """

    def __init__(self, values: Iterable[str], columns: Collection[str]) -> None:
        value_list = sorted({value for value in values if value})
        self.columns = {name.lower() for name in columns}
        self.whole = {spelling for value in value_list for spelling in _spellings(value)}
        self.numbers = {Decimal(value) for value in value_list if NUMBER.fullmatch(value)}
        self.days = {day for value in value_list if (day := _parse_moment(date.fromisoformat, value)) is not None}
        self.moments = {
            moment.replace(tzinfo=moment.tzinfo or UTC)
            for value in value_list
            if (moment := _parse_moment(datetime.fromisoformat, value)) is not None
        }
        if not value_list:
            raise ConfigError(
                "erase: found no text to search the lake for afterwards; expected a key, or --value TEXT: a text of "
                "the records, such as a name."
            )
        self._bytes = re.compile(b"|".join(map(self._alternative, value_list)))
        long_values = [value for value in value_list if len(value.encode()) >= RAW_BYTES_MIN]
        self._long_bytes = re.compile(b"|".join(map(self._alternative, long_values))) if long_values else None

    def _alternative(self, value: str) -> bytes:
        if not DIGITS.fullmatch(value):
            texts = b"|".join(map(re.escape, sorted(_spellings(value))))
            return rb"(?<![0-9A-Za-z_])(?:" + texts + rb")(?![0-9A-Za-z_])"
        text = re.escape(value.encode())
        quoted = rb"\\*\"" + text + rb"\\*\""
        names = b"|".join(re.escape(name.encode()) for name in sorted(self.columns))
        in_field = rb"\\*\"(?i:" + names + rb")\\*\"\s*:\s*" + text + rb"(?![0-9.])"
        return quoted + (rb"|" + in_field if names else b"")

    def in_bytes(self, data: bytes) -> bool:
        """Say whether bytes hold one of the values."""
        return data in self.whole or self._bytes.search(data) is not None

    def in_raw_bytes(self, data: bytes) -> bool:
        """Say whether compressed bytes hold one of the values that are not there by chance."""
        return self._long_bytes is not None and self._long_bytes.search(data) is not None


def _parse_moment(parse: Callable[[str], Moment], text: str) -> Moment | None:
    """Return the day, or the moment, that a text in ISO 8601 means; None for any other text, such as a number."""
    if DIGITS.fullmatch(text):
        return None
    try:
        return parse(text)
    except ValueError:
        return None


def _spellings(value: str) -> set[bytes]:
    """Return the bytes that may mean a text: as UTF-8, as Latin-1, and in JSON, with what people escape there."""
    in_json = [json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)]
    upper = re.sub(r"\\u[0-9a-f]{4}", lambda match: "\\u" + match[0][2:].upper(), in_json[0])
    texts = {value, *in_json, upper, *(text.replace("/", "\\/") for text in (in_json[0], in_json[1], upper))}
    spellings = {text.encode() for text in texts}
    with suppress(UnicodeEncodeError):
        spellings.add(value.encode("latin-1"))
    return spellings


def search_files(
    root: str, pattern: ValuePattern, listen: Callable[[int, int], None] = lambda done_count, total: None
) -> SearchResult:
    """Search all files below a folder. listen: called with the number of files done, and of all files.

    Raises StorageError, OSError if a file can't be read. A file that is removed meanwhile is left out.
    """
    paths, byte_count, occurrences = store.files_below(root), 0, list[Occurrence]()
    for done_count, path in enumerate(paths):
        listen(done_count, len(paths))
        try:
            data = store.read_file(path)
        except FileNotFoundError:
            continue
        byte_count += len(data)
        name = path.removeprefix(root).lstrip("/")
        occurrences += [Occurrence(name, place) for place in _places_in_file(name, data, pattern)]
    listen(len(paths), len(paths))
    return SearchResult(len(paths), byte_count, tuple(occurrences))


def _places_in_file(name: str, data: bytes, pattern: ValuePattern) -> Iterator[str]:
    if pattern.in_bytes(name.encode()):
        yield "its name"
    if data.startswith(PARQUET_MAGIC) and data.endswith(PARQUET_MAGIC):
        yield from _columns_with_values(data, pattern)
        if pattern.in_raw_bytes(data):
            yield "its bytes"
    elif pattern.in_bytes(data):
        yield "its bytes"


def _columns_with_values(data: bytes, pattern: ValuePattern) -> Iterator[str]:
    """Yield the columns of a Parquet file that hold one of the values."""
    file = pq.ParquetFile(io.BytesIO(data))
    found_columns = dict.fromkeys(_statistics_with_values(file.metadata, pattern))
    for batch in file.iter_batches(batch_size=BATCH_ROWS):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for leaf_name, leaf in _leaves(name, column):
                if leaf_name not in found_columns and _has_value(leaf_name, leaf, pattern):
                    found_columns[leaf_name] = None
    for column_name in found_columns:
        yield f"column {column_name}"


def _statistics_with_values(metadata: Any, pattern: ValuePattern) -> Iterator[str]:
    """Yield the columns whose smallest or largest value is one of the values."""
    for group_number in range(metadata.num_row_groups):
        for column_number in range(metadata.num_columns):
            column = metadata.row_group(group_number).column(column_number)
            statistics = column.statistics
            if statistics is None or not statistics.has_min_max:
                continue
            bounds = (bound.encode() if isinstance(bound, str) else bound for bound in (statistics.min, statistics.max))
            if any(isinstance(bound, bytes) and pattern.in_bytes(bound) for bound in bounds):
                yield column.path_in_schema


def _leaves(name: str, column: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of plain values in a column, with their paths."""
    kind = column.type
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _leaves(f"{name}.{kind.field(number).name}", column.field(number))
    elif pa.types.is_map(kind):
        yield from _leaves(f"{name}.key", column.keys)
        yield from _leaves(f"{name}.value", column.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(name, column.values)
    else:
        yield name, column


def _has_moment(leaf: Any, moment: datetime) -> bool:
    """Say whether a column of times has a moment: by its microseconds, which a year outside of Python's has, too."""
    microseconds = leaf.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return pc.any(pc.equal(microseconds, to_microseconds(moment))).as_py() is True


def _has_value(leaf_name: str, leaf: Any, pattern: ValuePattern) -> bool:
    kind = leaf.type
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        is_named = leaf_name.rpartition(".")[2].lower() in pattern.columns
        if not is_named or not pattern.numbers:
            return False
        values = leaf.drop_null().to_pylist()
        # A double has the shortest text that means it.
        return any((Decimal(repr(value)) if isinstance(value, float) else value) in pattern.numbers for value in values)
    if pa.types.is_date(kind):
        days = pa.array(sorted(pattern.days), pa.date32())
        return pc.any(pc.is_in(leaf.cast(pa.date32()), days)).as_py() is True
    if pa.types.is_timestamp(kind):
        return any(_has_moment(leaf, moment) for moment in pattern.moments)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return any(pattern.in_bytes(value) for value in leaf.to_pylist() if value is not None)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return any(pattern.in_bytes(value.encode()) for value in leaf.to_pylist() if value is not None)
    return False
