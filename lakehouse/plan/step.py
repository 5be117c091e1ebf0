"""What a stream is made of: where its records come from, and the stateless steps after that. Frozen values.

Where they come from is a node of the graph: a topic, other streams, a table's changes, a stream and a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.plan.expression import Expression, Named
from lakehouse.plan.function import digest
from lakehouse.plan.schema import Column

if TYPE_CHECKING:
    from lakehouse.plan.stream import Stream
    from lakehouse.plan.table import Table


@dataclass(frozen=True, slots=True)
class Source:
    """A topic read through a schema. Key and value columns come from the record's key and value bytes."""

    name: str
    topic: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    key_format: str
    value_format: str
    event_time: Expression | None = None
    own_table: bool = False

    @property
    def decodes(self) -> tuple[Source, ...]:
        return (self,)

    @property
    def reads(self) -> tuple[Table, ...]:
        return ()

    @property
    def levels(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Merge:
    """Several streams with the same columns as one. Their records stand in position order, as all records do."""

    streams: tuple[Stream, ...]

    @property
    def name(self) -> str:
        return " + ".join(stream.source.name for stream in self.streams)

    @property
    def decodes(self) -> tuple[Source, ...]:
        return tuple(dict.fromkeys(source for stream in self.streams for source in stream.decodes))

    @property
    def reads(self) -> tuple[Table, ...]:
        return tuple(dict.fromkeys(table for stream in self.streams for table in stream.reads))

    @property
    def levels(self) -> int:
        return max(stream.levels for stream in self.streams) + 1


@dataclass(frozen=True, slots=True)
class ChangesOf:
    """A table's changelog per event, as records: the row's key, its values after the change, null for a delete."""

    table: Table

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def decodes(self) -> tuple[Source, ...]:
        return ()

    @property
    def reads(self) -> tuple[Table, ...]:
        return (self.table,)

    @property
    def levels(self) -> int:
        return self.table.stream.levels + 1


@dataclass(frozen=True, slots=True)
class TableJoin:
    """Each record of a stream with the row that a table has when the record arrives (SEMANTICS.md, rule 20).

    on: the table's key, in its order, made of the stream's columns. prefix: stands before the names of the table's
    columns. A change of the table that the same record makes comes first.
    """

    stream: Stream
    table: Table
    on: tuple[Expression, ...]
    how: Literal["inner", "left"]
    prefix: str = ""

    @property
    def name(self) -> str:
        return f"{self.stream.source.name} + {self.table.name}"

    @property
    def decodes(self) -> tuple[Source, ...]:
        return self.stream.decodes

    @property
    def reads(self) -> tuple[Table, ...]:
        return tuple(dict.fromkeys((*self.stream.reads, self.table)))

    @property
    def levels(self) -> int:
        return self.stream.levels


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the records for which the predicate is true; null and false leave out, and so does a null value."""

    predicate: Expression


@dataclass(frozen=True, slots=True)
class Select:
    """Make these value columns, and no others. The key goes along; a null value stays one."""

    columns: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class Rekey:
    """Take these as the key from here on; the old key becomes value columns. A null key stays in the stream."""

    columns: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class Explode:
    """One record for each element of an array, in its order; none for an empty or null one, or for a null value."""

    column: Named


@dataclass(frozen=True, slots=True)
class Map:
    """A column made by a Python function over Arrow arrays: as many values as it was given.

    A record on which the function fails gets a null. It must give the same again for the same input.
    """

    name: str
    type: str
    arguments: tuple[Expression, ...]
    function: Callable[..., Any]


Step = Filter | Select | Rekey | Explode | Map
Origin = Source | Merge | ChangesOf | TableJoin


def function_text(function: Callable[..., Any]) -> str:
    """Return a function's name and a digest of what it does, by which a plan tells that it was changed."""
    found = digest(function)
    # What is not written in Python has a name instead.
    return found if "." in found else f"{getattr(function, '__qualname__', type(function).__name__)}#{found}"
