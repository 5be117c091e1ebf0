"""The fields that a topic's newest records have and a stream over it does not declare.

A record that has them is taken in, and its bytes stay in bronze: a column that is declared later has them, too. Only
the fields of the value itself are compared, not those inside of its structs, and only where the bytes name them: JSON
in all its forms, Debezium's too. Of Avro and Protobuf, `lakehouse schema check` compares the registered schema.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.lake.commit_log import TickCoverage
from lakehouse.lake.control.stream_declaration import DeclaredFields, read_declared_fields
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.newest_rows import read_newest_rows

FIELDS_MAX = 20  # a topic may have a name for each record


@dataclass(frozen=True, slots=True)
class UndeclaredField:
    """A field that a stream does not declare. records: how many of the newest have it, of `of_records` looked at."""

    stream: str
    topic: str
    field: str
    records: int
    of_records: int


def find_undeclared_fields(layout: Layout, coverage: TickCoverage, stream: str) -> list[UndeclaredField]:
    """Return the most frequent fields of a topic's newest records that its stream does not declare, at most 20.

    coverage: bronze's. Raises StorageError.
    """
    declared = read_declared_fields(layout, stream)
    if declared is None:
        return []
    rows = read_newest_rows(layout, coverage, declared.topic, "value", "value IS NOT NULL")
    values: list[bytes] = [row["value"] for row in rows]
    counts = _count_undeclared(declared, values)
    by_frequency = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [UndeclaredField(stream, declared.topic, field, n, len(values)) for field, n in by_frequency[:FIELDS_MAX]]


def _count_undeclared(declared: DeclaredFields, values: list[bytes]) -> Counter[str]:
    codec = codec_of(declared.format)
    spell = str.upper if codec.ignores_case else str
    declared_names = set(map(spell, declared.fields))
    names_by_value = (dict.fromkeys(codec.field_names(value)) for value in values)
    return Counter(name for names in names_by_value for name in names if spell(name) not in declared_names)
