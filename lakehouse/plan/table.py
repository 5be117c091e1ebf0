"""Tables: a stream grouped, windowed and aggregated, or its latest values; their changelogs, and where these go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lakehouse.errors import PlanError
from lakehouse.plan.aggregation import Aggregation, NamedAggregation, named_aggregation, shown_type
from lakehouse.plan.duration import duration_ms
from lakehouse.plan.expression import Expression, Named, expression_type
from lakehouse.plan.expression import predicate as condition
from lakehouse.plan.schema import Column, check_distinct, check_name, check_pseudo, check_topic
from lakehouse.plan.windows import Declared
from lakehouse.semantics.window import Session, Window

if TYPE_CHECKING:
    from lakehouse.plan.stream import Stream

WINDOW_COLUMNS = ("window_start", "window_end")
Emit = Literal["changes", "final"]


@dataclass(frozen=True, slots=True)
class Grouped:
    """A stream and the columns that it is grouped by, and the window if there is one."""

    stream: Stream
    by: tuple[Named, ...]
    declared: Declared | None = None

    def window(self, window: Declared) -> Grouped:
        """Return the groups cut into windows of event time: lh.tumbling, lh.hopping, lh.sliding or lh.session."""
        what = f"{self.stream.what}: window"
        if not isinstance(window, Declared):
            raise PlanError(f'{what}: {window!r} is not a window. Write lh.tumbling("1 hour", grace="10 minutes").')
        check_distinct([*(item.name for item in self.by), *WINDOW_COLUMNS], what)
        return replace(self, declared=window)

    def agg(self, **aggregations: Aggregation) -> Aggregated:
        """Return the aggregates, each under its name: agg(n=lh.count(), total=lh.sum("amount"))."""
        what = f"{self.stream.what}: agg"
        if not aggregations:
            raise PlanError(f"{what}: expected at least one aggregate, such as n=lh.count().")
        bound = []
        for name, item in aggregations.items():
            check_name(name, what)
            if not isinstance(item, Aggregation):
                raise PlanError(f"{what}: {name}={item!r} is not an aggregate. Write {name}=lh.count() or lh.sum(...).")
            made = named_aggregation(name, item, self.stream.columns, what)
            if self.declared is not None and isinstance(self.declared.window, Session) and not item.can_merge:
                raise PlanError(
                    f"{what}: {name}={item} has no merge, and two sessions that a record joins must become one. "
                    "Give it merge=function(earlier, later)."
                )
            bound.append(made)
        windowed = WINDOW_COLUMNS if self.declared is not None else ()
        check_distinct([*(item.name for item in self.by), *windowed, *aggregations], what)
        check_pseudo([Column(name, "") for name in aggregations], what)
        return Aggregated(self, tuple(bound))


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Aggregates that still need a table's name."""

    grouped: Grouped
    aggregations: tuple[NamedAggregation, ...]
    predicate: Expression | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """What a row of the table shows; a type that only Spark can tell is empty."""
        stream, by = self.grouped.stream, self.grouped.by
        return aggregated_columns(stream, by, self.aggregations, windowed=self.grouped.declared is not None)

    def having(self, predicate: str) -> Aggregated:
        """Return the groups for which `predicate`, over the group's columns and the aggregates, is true (rule 11).

        A row that stops qualifying is deleted; one that never qualified was never seen.
        """
        return replace(self, predicate=condition(predicate, self.columns, f"{self.grouped.stream.what}: having"))

    def table(
        self,
        name: str,
        *,
        emit: Emit = "changes",
        suppress: bool = False,
        retention: str | None = None,
        idle: str | None = None,
    ) -> Table:
        """Return the table that keeps these aggregates, one row a group (and window).

        emit: "changes", every change is seen, or "final": a window's row appears once, when it has closed (EMIT FINAL).
        suppress: a change that changes nothing is not emitted. retention: rows of windows that ended longer than
        this before the watermark are deleted; for ever if left out. idle: a partition without records for this long
        (by record timestamps) no longer holds final results back; never if left out.

        Raises PlanError for options that the table can't keep.
        """
        what = f"table {check_name(name, 'table')!r}"
        declared, by = self.grouped.declared, self.grouped.by
        if emit not in ("changes", "final"):
            raise PlanError(f'{what}: emit={emit!r}; expected "changes" or "final".')
        if declared is None:
            for option, value in (("emit", emit != "changes"), ("retention", retention), ("idle", idle)):
                if value:
                    raise PlanError(f"{what}: {option} needs a window: group_by(...).window(lh.tumbling(...)).")
        if idle is not None and emit != "final":
            raise PlanError(f'{what}: idle={idle!r} is about final results; add emit="final", or leave it out.')
        window = declared.resolved(final=emit == "final") if declared is not None else None
        keys = tuple(item.name for item in by) + (WINDOW_COLUMNS if window is not None else ())
        keep = duration_ms(retention, f"{what}: retention") if retention is not None else None
        if keep is not None and window is not None and keep < window.needed:
            raise PlanError(
                f"{what}: retention={retention!r} is {keep} ms, but a window is needed until {window.needed} ms after "
                "its end (grace, and twice a session's gap or a sliding window's difference). Expected at "
                "least that."
            )
        return Table(
            name, self.grouped.stream, keys, by, self.aggregations, window, self.predicate, emit, suppress, keep,
            duration_ms(idle, f"{what}: idle", least=1) if idle is not None else None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """A keyed table. Without `aggregations` it holds the latest value of each key. Durations are milliseconds.

    `key` are the columns that tell rows apart: a windowed table's end with window_start and window_end.
    """

    name: str
    stream: Stream
    key: tuple[str, ...]
    group_by: tuple[Named, ...] = ()
    aggregations: tuple[NamedAggregation, ...] = ()
    window: Window | None = None
    having: Expression | None = None
    emit: Emit = "changes"
    suppress: bool = False
    retention: int | None = None
    idle: int | None = None
    order_by: Expression | None = None
    order_is_time: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """What a row shows, the key's columns first; a type that only Spark can tell is empty."""
        if self.is_latest:
            return tuple(sorted(self.stream.columns, key=lambda column: column.name not in self.key))
        return aggregated_columns(self.stream, self.group_by, self.aggregations, windowed=self.window is not None)

    @property
    def is_latest(self) -> bool:
        return not self.aggregations

    @property
    def is_final(self) -> bool:
        return self.emit == "final"

    @property
    def has_state(self) -> bool:
        """True where what is kept is more than what is seen: the state then has a table of its own."""
        return self.is_final or self.having is not None or self.order_by is not None

    @property
    def has_clock(self) -> bool:
        """True where stream time decides what is taken in."""
        return self.window is not None or (self.order_by is not None and self.retention is not None)

    @property
    def lag(self) -> int | None:
        """How far behind the watermark, in ms, records are judged at the least; None: by their own partition alone.

        What is final, or gone, by the watermark must not be begun anew by a partition that lags behind it. While a row
        is kept for longer than its window is needed, it takes what the partition's own time lets in.
        """
        if self.is_final:
            return 0
        if self.retention is None:
            return None
        return 0 if self.window is None else self.retention - self.window.needed

    def changes(self, *, net: bool = False) -> Changes:
        """Return the table's changelog: per event, as one-record batches would give it, or `net` per commit."""
        return Changes(self, net)

    def to_stream(self) -> Stream:
        """Return the changelog per event as a stream: the row after each change, null for a delete (toStream)."""
        # A table is made of a stream, and a stream of a table: one of the two must be imported late.
        from lakehouse.plan.build import of_changes

        return of_changes(self)


def aggregated_columns(
    stream: Stream, by: tuple[Named, ...], aggregations: tuple[NamedAggregation, ...], *, windowed: bool
) -> tuple[Column, ...]:
    """Return the columns that aggregates of a stream show; a type that only Spark can tell is empty."""
    keys = [Column(item.name, expression_type(item.expression, stream.columns) or "") for item in by]
    window = [Column(name, "timestamp") for name in WINDOW_COLUMNS] if windowed else []
    return (*keys, *window, *(Column(item.name, shown_type(item, stream.columns) or "") for item in aggregations))


def latest_table(
    stream: Stream, name: str, order: Expression | None, kind: str | None, retention: str | None, suppress: bool
) -> Table:
    """Return the table of `Stream.latest`; `kind` is the type of its order, where it can be told."""
    what = f"table {check_name(name, 'table')!r}"
    if order is not None and kind not in (None, "timestamp", "bigint", "int"):
        raise PlanError(f"{what}: order_by={order} is a {kind}; expected a timestamp, or a number as a bigint.")
    if retention is not None and order is None:
        raise PlanError(
            f"{what}: retention={retention!r} is for the markers of order_by; add order_by, or leave it out."
        )
    if retention is not None and kind != "timestamp" and str(order).lower() != "rowtime":
        raise PlanError(f"{what}: retention={retention!r} is a time, but order_by={order} is a {kind}. Leave one out.")
    keep = duration_ms(retention, f"{what}: retention", least=1) if retention is not None else None
    is_time = kind == "timestamp" or (order is not None and str(order).lower() == "rowtime")
    return Table(
        name=name,
        stream=stream,
        key=stream.key,
        suppress=suppress,
        retention=keep,
        order_by=order,
        order_is_time=is_time,
    )


@dataclass(frozen=True, slots=True)
class Changes:
    """A table's changelog."""

    table: Table
    net: bool = False

    def to_topic(self, topic: str, *, partitions: int | None = None) -> Sink:
        """Return a sink that publishes the changelog to a compacted topic: key -> new value, a delete a tombstone."""
        return Sink(check_topic(topic), self.table, "net" if self.net else "event", check_partitions(partitions, topic))


@dataclass(frozen=True, slots=True)
class Sink:
    """A topic that a stream, or a table's changelog, is published to. `partitions` is used when the topic is made."""

    topic: str
    of: Stream | Table
    mode: Literal["event", "net"]
    partitions: int | None = None
    partition_by: Expression | None = None


def check_partitions(partitions: int | None, topic: str) -> int | None:
    """Return a number of partitions that a topic can have; PlanError otherwise."""
    if partitions is not None and not (isinstance(partitions, int) and 1 <= partitions <= 10_000):
        raise PlanError(f"topic {topic!r}: partitions={partitions!r}, expected 1 to 10000.")
    return partitions
