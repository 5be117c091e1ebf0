"""Where streams begin, and the stateless steps after that: frozen values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.plan.expression import Expression, Named
from lakehouse.plan.function import digest
from lakehouse.plan.schema import Column

if TYPE_CHECKING:
    from lakehouse.plan.stream import Stream


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
    def sources(self) -> tuple[Source, ...]:
        return (self,)


@dataclass(frozen=True, slots=True)
class Merge:
    """Several streams with the same columns as one. Their records stand in position order, as all records do."""

    streams: tuple[Stream, ...]

    @property
    def name(self) -> str:
        return " + ".join(stream.source.name for stream in self.streams)

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(dict.fromkeys(source for stream in self.streams for source in stream.sources))


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


def function_text(function: Callable[..., Any]) -> str:
    """Return a function's name and a digest of what it does, by which a plan tells that it was changed."""
    found = digest(function)
    # What is not written in Python has a name instead.
    return found if "." in found else f"{getattr(function, '__qualname__', type(function).__name__)}#{found}"
