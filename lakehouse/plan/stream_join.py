"""Two streams joined within a time, as a node of the plan: a frozen value, and the checks that refuse it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.duration import duration_ms
from lakehouse.errors import PlanError
from lakehouse.plan.expression.expression import Json
from lakehouse.plan.expression.schema import joined_columns
from lakehouse.plan.names.join_words import HowJoined
from lakehouse.plan.origin import Origin, TableJoin
from lakehouse.semantics.operators.stream_join import JoinSide, JoinWindow
from lakehouse.semantics.time.window import default_grace

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


class DeclaredJoinWindow(NamedTuple):
    """The window of a join as declared: durations as text."""

    within: str | None
    before: str | None
    after: str | None
    grace: str | None

    def resolve_window(self, subject: str) -> JoinWindow:
        """Return the window in milliseconds, with its default grace. Raises PlanError for an impossible window."""
        if (self.before, self.after) == (None, None):
            if self.within is None:
                raise PlanError(
                    f"{subject}: two streams never end, so it needs a time within which their records meet: "
                    'within="1 hour", or before="10 minutes", after="1 hour".'
                )
            within_ms = duration_ms(self.within, f"{subject}: within")
            before_ms, after_ms = within_ms, within_ms
        elif self.within is not None:
            raise PlanError(f"{subject}: found within beside before or after; expected one of them: within is both.")
        else:
            texts_by_name = {"before": self.before, "after": self.after}
            before_ms, after_ms = (
                0 if text is None else duration_ms(text, f"{subject}: {name}") for name, text in texts_by_name.items()
            )
        if self.grace is None:
            return JoinWindow(before_ms, after_ms, default_grace(before_ms + after_ms), eager=True)
        return JoinWindow(before_ms, after_ms, duration_ms(self.grace, f"{subject}: grace"))


@dataclass(frozen=True, slots=True)
class StreamJoin(Origin):
    """Records of two streams with one key whose times lie within a window: `lakehouse.semantics.operators.stream_join`.

    prefix: precedes the names of the right stream's value columns. The key has the names of the left stream's.
    """

    left: Stream
    right: Stream
    join_type: HowJoined
    within: JoinWindow
    prefix: str = ""

    @classmethod
    def declare(
        cls, left: Stream, right: Stream, join_type: HowJoined, spans: DeclaredJoinWindow, prefix: str
    ) -> tuple[StreamJoin, Shape]:
        """Return the join, and the shape of its records. For the other arguments see `Stream.join`."""
        subject = f"{left.label}: join with {right.label}"
        if not isinstance(join_type, str) or join_type not in KEPT:
            raise PlanError(f"{subject}: how={join_type!r}; expected 'inner', 'left', 'right' or 'outer'.")
        within = spans.resolve_window(subject)
        types_by_side = [{column.name: column.type for column in stream.columns} for stream in (left, right)]
        if len(left.key) != len(right.key):
            raise PlanError(
                f"{subject}: found the keys {', '.join(left.key)} and {', '.join(right.key)}, of different numbers of "
                "columns: they are never equal. Name what to join by, on=..., and rekey the other stream."
            )
        for left_name, right_name in zip(left.key, right.key, strict=True):
            left_type, right_type = types_by_side[0][left_name], types_by_side[1][right_name]
            if left_type and right_type and left_type != right_type:
                raise PlanError(
                    f"{subject}: {left_name!r} is a {left_type}, and the other's key {right_name!r} a {right_type}: "
                    "they are never "
                    f'equal. Cast one: rekey("cast({right_name} AS {left_type}) AS {right_name}_key").'
                )
        added_columns = (column for column in right.columns if column.name not in right.key)
        all_columns = joined_columns(left.columns, added_columns, prefix, right.source.name, subject)
        return cls(left, right, join_type, within, prefix), left.shape.with_columns(all_columns)

    @property
    def name(self) -> str:
        return f"{self.left.source.name} + {self.right.source.name}"

    @property
    def parts(self) -> tuple[Stream, ...]:
        return (self.left, self.right)

    @property
    def unmatched_sides(self) -> frozenset[JoinSide]:
        """The sides whose unmatched records come out."""
        return KEPT[self.join_type]

    @property
    def added(self) -> tuple[tuple[str, str], ...]:
        """The right stream's value columns: each name there, and its name in the join."""
        return tuple((name, self.prefix + name) for name in self.right.shape.values)

    def over(self, new_parts: Sequence[Stream], new_tables: Sequence[Table]) -> Origin:
        left, right = new_parts
        return replace(self, left=left, right=right)

    def lines(self) -> list[str]:
        side_lines = ([f"  {line}" for line in side.lines()] for side in self.parts)
        left, right = side_lines
        on_text = ", ".join(f"{a} = {b}" for a, b in zip(self.left.key, self.right.key, strict=True))
        return [f"{self.join_type.upper()} JOIN STREAMS ON {on_text} {self.within}", *left, *right]

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> Json:
        key_names = [{name.lower() for name in side.key} for side in self.parts]
        left_names = {column.name.lower() for column in self.left.columns}
        left_columns = (read_columns & left_names) | key_names[0]
        right_columns = {
            name.lower() for name, joined_name in self.added if joined_name.lower() in read_columns
        } | key_names[1]
        within = self.within
        return {
            "join_of": [
                self.left.fingerprint(left_columns, keyed=True),
                self.right.fingerprint(right_columns, keyed=True),
            ],
            "on": [list(pair) for pair in zip(self.left.key, self.right.key, strict=True)],
            "how": self.join_type,
            "within": {"before": within.before, "after": within.after, "grace": within.grace, "at_once": within.eager},
            "prefix": self.prefix,
        }


def tables_looked_up_by_time(stream: Stream) -> tuple[Table, ...]:
    """Return the tables from which a stream looks up rows as of event times, without those behind tables."""
    source = stream.source
    inner_tables = [table for part in source.parts for table in tables_looked_up_by_time(part)]
    return (*inner_tables, *([source.table] if isinstance(source, TableJoin) and source.as_of == "event time" else []))


def meeting_streams(stream: Stream) -> tuple[Stream, ...]:
    """Return the streams that meet in the joins of streams behind a stream, without those behind tables."""
    inner = tuple(
        meeting_stream for origin_part in stream.source.parts for meeting_stream in meeting_streams(origin_part)
    )
    return (*inner, *stream.source.parts) if isinstance(stream.source, StreamJoin) else inner


def reads_one_join(stream: Stream) -> bool:
    """Say whether a stream's records come from one join of streams, in its order, through lookups and steps alone."""
    source = stream.source
    while isinstance(source, TableJoin):
        source = source.parts[0].source
    return isinstance(source, StreamJoin) and not any(meeting_streams(part) for part in source.parts)
