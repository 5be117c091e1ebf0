"""Two streams joined within a time, as a node of the plan: a frozen value, and the checks that refuse one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.duration import duration_ms
from lakehouse.errors import PlanError
from lakehouse.plan.expression import Json
from lakehouse.plan.names.how import HowJoined
from lakehouse.plan.origin import Node, TableJoin
from lakehouse.plan.schema import joined_columns
from lakehouse.semantics.operators.stream_join import JoinSide, Within
from lakehouse.semantics.window import default_grace

if TYPE_CHECKING:
    from lakehouse.plan.step import Shape
    from lakehouse.plan.stream import Stream
    from lakehouse.plan.table import Table

KEPT: dict[str, frozenset[JoinSide]] = {
    "inner": frozenset(),
    "left": frozenset({JoinSide.LEFT}),
    "right": frozenset({JoinSide.RIGHT}),
    "outer": frozenset(JoinSide),
}


class Spans(NamedTuple):
    """The window of a join as declared: durations as text."""

    within: str | None
    before: str | None
    after: str | None
    grace: str | None

    def resolved(self, what: str) -> Within:
        """Return the window in milliseconds, with its default grace; PlanError for an impossible one."""
        if (self.before, self.after) == (None, None):
            if self.within is None:
                raise PlanError(
                    f"{what}: two streams never end, so it needs a time within which their records meet: "
                    'within="1 hour", or before="10 minutes", after="1 hour".'
                )
            span = duration_ms(self.within, f"{what}: within")
            before, after = span, span
        elif self.within is not None:
            raise PlanError(f"{what}: found within beside before or after; expected one of them: within is both.")
        else:
            spans = {"before": self.before, "after": self.after}
            before, after = (
                0 if text is None else duration_ms(text, f"{what}: {name}") for name, text in spans.items()
            )
        if self.grace is None:
            return Within(before, after, default_grace(before + after), eager=True)
        return Within(before, after, duration_ms(self.grace, f"{what}: grace"))


@dataclass(frozen=True, slots=True)
class StreamJoin(Node):
    """Records of two streams with one key whose times lie within a window: `lakehouse.semantics.operators.stream_join`.

    prefix: precedes the names of the right stream's value columns. The key is the left one's, by name.
    """

    left: Stream
    right: Stream
    how: HowJoined
    within: Within
    prefix: str = ""

    @classmethod
    def declared(
        cls, left: Stream, right: Stream, how: HowJoined, spans: Spans, prefix: str
    ) -> tuple[StreamJoin, Shape]:
        """Return the join, and the shape that comes out. The rest: see `Stream.join`."""
        what = f"{left.what}: join with {right.what}"
        if how not in KEPT:
            raise PlanError(f"{what}: how={how!r}; expected 'inner', 'left', 'right' or 'outer'.")
        within = spans.resolved(what)
        kinds = [{column.name: column.type for column in stream.columns} for stream in (left, right)]
        if len(left.key) != len(right.key):
            raise PlanError(
                f"{what}: found the keys {', '.join(left.key)} and {', '.join(right.key)}, of different numbers of "
                "columns: they are never equal. Name what to join by, on=..., and rekey the other stream."
            )
        for mine, theirs in zip(left.key, right.key, strict=True):
            found, expected = kinds[0][mine], kinds[1][theirs]
            if found and expected and found != expected:
                raise PlanError(
                    f"{what}: {mine!r} is a {found}, and the other's key {theirs!r} a {expected}: they are never "
                    f'equal. Cast one: rekey("cast({theirs} AS {found}) AS {theirs}_key").'
                )
        added = (column for column in right.columns if column.name not in right.key)
        columns = joined_columns(left.columns, added, prefix, right.source.name, what)
        return cls(left, right, how, within, prefix), left.shape.with_columns(columns)

    @property
    def name(self) -> str:
        return f"{self.left.source.name} + {self.right.source.name}"

    @property
    def parts(self) -> tuple[Stream, ...]:
        return (self.left, self.right)

    @property
    def kept(self) -> frozenset[JoinSide]:
        """The sides whose unmatched records come out."""
        return KEPT[self.how]

    @property
    def added(self) -> tuple[tuple[str, str], ...]:
        """The right stream's value columns: each name there, and its name here."""
        return tuple((name, self.prefix + name) for name in self.right.shape.values)

    def over(self, parts: Sequence[Stream], tables: Sequence[Table]) -> Node:
        left, right = parts
        return replace(self, left=left, right=right)

    def lines(self) -> list[str]:
        sides = ([f"  {line}" for line in side.lines()] for side in self.parts)
        left, right = sides
        by = ", ".join(f"{a} = {b}" for a, b in zip(self.left.key, self.right.key, strict=True))
        return [f"{self.how.upper()} JOIN STREAMS ON {by} {self.within}", *left, *right]

    def fingerprint(self, read: set[str], *, keyed: bool) -> Json:
        keys = [{name.lower() for name in side.key} for side in self.parts]
        named = {column.name.lower() for column in self.left.columns}
        here = (read & named) | keys[0]
        there = {name.lower() for name, made in self.added if made.lower() in read} | keys[1]
        within = self.within
        return {
            "join_of": [self.left.fingerprint(here, keyed=True), self.right.fingerprint(there, keyed=True)],
            "on": [list(pair) for pair in zip(self.left.key, self.right.key, strict=True)],
            "how": self.how,
            "within": {"before": within.before, "after": within.after, "grace": within.grace, "at_once": within.eager},
            "prefix": self.prefix,
        }


def looked_up_by_time(stream: Stream) -> tuple[Table, ...]:
    """Return the tables of which a stream looks up rows as of event times, without those behind tables."""
    source = stream.source
    found = [table for part in source.parts for table in looked_up_by_time(part)]
    return (*found, *([source.table] if isinstance(source, TableJoin) and source.as_of == "event time" else []))


def meetings(stream: Stream) -> tuple[Stream, ...]:
    """Return the streams that meet in the joins of streams that a stream comes from, without those behind tables."""
    inner = tuple(part for of in stream.source.parts for part in meetings(of))
    return (*inner, *stream.source.parts) if isinstance(stream.source, StreamJoin) else inner


def reads_one_join(stream: Stream) -> bool:
    """Say whether a stream's records come from one join of streams, in its order: through lookups and steps alone."""
    source = stream.source
    while isinstance(source, TableJoin):
        source = source.parts[0].source
    return isinstance(source, StreamJoin) and not any(meetings(part) for part in source.parts)
