"""Tables: a stream grouped, windowed and aggregated, or its latest values; their changelogs, and sinks for these."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from lakehouse.duration import duration_ms
from lakehouse.errors import PlanError
from lakehouse.plan.aggregate_functions import Aggregation
from lakehouse.plan.aggregation import NamedAggregation, named_aggregation
from lakehouse.plan.alert import ALWAYS, Crossings, On
from lakehouse.plan.expectation import Expectation, Otherwise, parse_row_condition
from lakehouse.plan.expression.expression import Expression, Named
from lakehouse.plan.expression.schema import (
    Column,
    base_type,
    check_distinct,
    check_name,
    check_partitions,
    check_pseudo,
    check_topic,
)
from lakehouse.plan.names.beside_topic import length_fault
from lakehouse.plan.names.format_traits import JSON, KEY_FORMATS, VALUE_FORMATS, traits_of
from lakehouse.plan.names.record_format import USUAL_FORMATS
from lakehouse.plan.operator import (
    VALID_FROM,
    VALID_TO,
    WINDOW_COLUMNS,
    Aggregate,
    Expire,
    Final,
    Fold,
    Having,
    Operator,
    RowHistory,
    Suppress,
    refuse_history,
)
from lakehouse.plan.origin import ChangesOf
from lakehouse.plan.refused.arguments import check_flag
from lakehouse.plan.refused.formats import check_format_name
from lakehouse.plan.refused.steps import Declaration, value_in_message
from lakehouse.plan.registered.writable import check_map_keys, check_writable
from lakehouse.plan.rows import Rows, RowsOf, check_reads_of_rows
from lakehouse.plan.step import Shape
from lakehouse.plan.watched_rule import FreshRule, UniqueRule, WatchedRule
from lakehouse.plan.windows import DeclaredWindow
from lakehouse.semantics.operators.cell import KeyOperator, Rules
from lakehouse.semantics.operators.undo import RowGroup
from lakehouse.semantics.time.window import Session

if TYPE_CHECKING:
    from lakehouse.plan.stream import Stream

Emit = Literal["changes", "final"]
OperatorType = TypeVar("OperatorType", bound=Operator)


@dataclass(frozen=True, slots=True, repr=False)
class Grouped(Declaration):
    """A stream and its grouping columns, and the window if there is one."""

    stream: Stream
    grouping: tuple[Named, ...]
    declared_window: DeclaredWindow | None = None

    def window(self, window: DeclaredWindow) -> Grouped:
        """Return the groups divided into windows of event time: lh.tumbling, lh.hopping, lh.sliding or lh.session."""
        subject = f"{self.stream.label}: window"
        if not isinstance(window, DeclaredWindow):
            raise PlanError(
                f'{subject}: {value_in_message(window)} is not a window. Write lh.tumbling("1 hour", grace="10 '
                'minutes").'
            )
        if self.stream.undoes:
            raise PlanError(
                f"{subject}: the rows of a table have no window: each counts as it is now. Windows are over records: "
                "before the table, or over its changes: table.to_stream().group_by(...).window(...)."
            )
        check_distinct([*(item.name for item in self.grouping), *WINDOW_COLUMNS], subject)
        return replace(self, declared_window=window)

    def agg(self, *unnamed: object, **aggregations: Aggregation) -> Aggregated:
        """Return the aggregates, each under its own name: agg(n=lh.count(), total=lh.sum("amount"))."""
        subject = f"{self.stream.label}: agg"
        if unnamed:
            raise PlanError(f"{subject}: found {unnamed[0]!s:.80} without a name. Name each aggregate: n=lh.count().")
        if not aggregations:
            raise PlanError(f"{subject}: expected at least one aggregate, such as n=lh.count().")
        bound_aggregations = []
        for name, item in aggregations.items():
            check_name(name, subject)
            if not isinstance(item, Aggregation):
                raise PlanError(
                    f"{subject}: {name}={value_in_message(item)} is not an aggregate. Write {name}=lh.count() or "
                    "lh.sum(...)."
                )
            bound_aggregation = named_aggregation(name, item, self.stream.columns, subject, undoes=self.stream.undoes)
            if (
                self.declared_window is not None
                and isinstance(self.declared_window.window, Session)
                and not item.can_merge
            ):
                raise PlanError(
                    f"{subject}: {name}={item} has no merge, and two sessions that a record joins must become one. "
                    "Give it merge=function(earlier, later)."
                )
            if bound_aggregation.argument is not None:
                check_reads_of_rows(self.stream, [bound_aggregation.argument], f"{subject}: {name}={item}")
            bound_aggregations.append(bound_aggregation)
        window_columns = WINDOW_COLUMNS if self.declared_window is not None else ()
        check_distinct([*(item.name for item in self.grouping), *window_columns, *aggregations], subject)
        check_pseudo([Column(name, "") for name in aggregations], subject)
        return Aggregated(self, tuple(bound_aggregations))


@dataclass(frozen=True, slots=True, repr=False)
class Aggregated(Declaration):
    """Aggregates, which still need the name of a table."""

    grouped: Grouped
    aggregations: tuple[NamedAggregation, ...]
    predicate: Expression | None = None

    @property
    def fold(self) -> Aggregate:
        declared_window = self.grouped.declared_window
        return Aggregate(
            self.grouped.grouping, self.aggregations, declared_window.window if declared_window is not None else None
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a row; a type that only Spark can tell is empty."""
        return self.fold.columns(self.fold.key, self.grouped.stream.columns)

    def having(self, predicate: str) -> Aggregated:
        """Return the groups for which `predicate`, over the group's columns and the aggregates, is true (rule 11).

        A row that stops qualifying is deleted; one that never qualified is never visible.
        """
        subject = f"{self.grouped.stream.label}: having"
        return replace(self, predicate=parse_row_condition(predicate, self.columns, subject))

    def table(
        self,
        name: str,
        *,
        emit: Emit = "changes",
        suppress: bool = False,
        retention: str | None = None,
        idle: str | None = None,
    ) -> Table:
        """Return the table that keeps these aggregates, one row for each group (and window).

        emit: "changes", every change is visible, or "final": a window's row appears once, when it closes (EMIT FINAL).
        suppress: a change that changes nothing is not emitted. retention: rows of windows that ended longer than
        this before the watermark are deleted; default: kept forever. idle: a partition without records for this long
        (by record timestamps) no longer holds final results back; default: never.

        Raises PlanError for impossible options.
        """
        subject, declared_window = f"table {check_name(name, 'table')!r}", self.grouped.declared_window
        check_flag(suppress, f"{subject}: suppress")
        if emit not in ("changes", "final"):
            raise PlanError(f'{subject}: emit={emit!r}; expected "changes" or "final".')
        if declared_window is None:
            for option_name, is_set in (("emit", emit != "changes"), ("retention", retention), ("idle", idle)):
                if is_set:
                    raise PlanError(f"{subject}: {option_name} needs a window: group_by(...).window(lh.tumbling(...)).")
        if idle is not None and emit != "final":
            raise PlanError(f'{subject}: idle={idle!r} is about final results; add emit="final", or leave it out.')
        window = declared_window.resolve_window(final=emit == "final") if declared_window is not None else None
        retention_ms = duration_ms(retention, f"{subject}: retention") if retention is not None else None
        if retention_ms is not None and window is not None and retention_ms < window.needed_after_end:
            raise PlanError(
                f"{subject}: retention={retention!r} is {retention_ms} ms, but a window is needed until "
                f"{window.needed_after_end} ms after "
                "its end (grace, and twice a session's gap or a sliding window's difference). Expected at "
                "least that."
            )
        idle_ms = duration_ms(idle, f"{subject}: idle", least=1) if idle is not None else None
        later_operators = (
            Final(idle_ms) if emit == "final" else None,
            Having(self.predicate) if self.predicate is not None else None,
            Expire(retention_ms) if retention_ms is not None else None,
            Suppress() if suppress else None,
        )
        fold = replace(self.fold, window=window)
        return Table(
            name,
            self.grouped.stream,
            fold.key,
            fold,
            tuple(operator for operator in later_operators if operator is not None),
        )


@dataclass(frozen=True, slots=True, repr=False)
class Table(Rows):
    """A keyed table: a stream, the operator that folds its records, and the operators after that.

    `key` has the columns that identify a row; in a windowed table they end with window_start and window_end.
    expectations: what each row must meet. watched_rules: what must hold for the table as a whole. No row is
    changed by them.
    """

    name: str
    stream: Stream
    key: tuple[str, ...]
    fold: Fold
    later_operators: tuple[Operator, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    watched_rules: tuple[WatchedRule, ...] = ()

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The fold, and the operators after it, in order."""
        return (self.fold, *self.later_operators)

    @property
    def inputs(self) -> tuple[Stream]:
        return (self.stream,)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a row, the key's columns first; a type that only Spark can tell is empty."""
        return self.fold.columns(self.key, self.stream.columns)

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the columns that are not its key's."""
        return tuple(column.name for column in self.columns if column.name not in self.key)

    @property
    def group(self) -> tuple[str, ...]:
        """The columns of its key without those that the fold adds, such as its window's."""
        return self.key[: len(self.key) - len(self.fold.own_key)]

    @property
    def windows(self) -> tuple[str, ...]:
        """The columns of its key that name a window; none without windows."""
        return self.fold.windows

    def rule(self, rules: Rules) -> KeyOperator:
        """Return the operator that applies a record to the rows of one group; rules: those of the aggregations."""
        assert isinstance(self.fold, Aggregate | RowHistory)
        return RowGroup(rules) if self.stream.undoes else self.fold.rule(rules, final=self.find(Final) is not None)

    def find(self, operator_type: type[OperatorType]) -> OperatorType | None:
        """Return the table's operator of this kind, if it has one."""
        return next((operator for operator in self.operators if isinstance(operator, operator_type)), None)

    @property
    def idle(self) -> int | None:
        """The ms without records after which a partition no longer holds back the watermark; None is never."""
        return final.idle if (final := self.find(Final)) is not None else None

    @property
    def has_state(self) -> bool:
        """True if the state is more than the visible rows: it then has a table of its own."""
        return any(operator.keeps_more for operator in self.operators)

    @property
    def looks_back(self) -> bool:
        """True if the visible side of a change depends on the row before it."""
        return any(operator.looks_back for operator in self.operators)

    @property
    def has_clock(self) -> bool:
        """True if stream time decides which records are taken in."""
        return self.fold.has_clock

    @property
    def lag(self) -> int | None:
        """The lag behind the watermark, in ms, that a record's horizon may have at most; None without a limit.

        A partition that lags behind the watermark must not begin again a result that is final or expired by it.
        """
        operator_lags = (operator.lag(self.fold.window) for operator in self.operators)
        return min((operator_lag for operator_lag in operator_lags if operator_lag is not None), default=None)

    @property
    def rows(self) -> Stream:
        """The table's rows, change by change: the input of filters, projections and aggregates over it."""
        refuse_history(self.fold, self.name, "its rows are queried, and no table is made of them. Use the table itself")
        return self.stream.with_origin(*RowsOf.declare(self))

    def history(self, name: str | None = None, *, track: Sequence[str] | None = None) -> Table:
        """Return the table of all rows that this one had, each with the event times between which it held.

        A row that this table has at an event time t is the row of the history for which valid_from <= t, and t <
        valid_to or valid_to is null. So it is right after a late record, a fix or a revert, too: these change the rows
        that held at its time, and after it. name: NAME_history, if left out. track: the columns, beside the key, that
        the history has; a row then begins only where one of them changes.

        Raises PlanError for a table whose rows have windows, conditions or values from other tables' rows, and for
        tracked columns that it does not have.
        """
        subject = f"table {self.name!r}: history"
        name = check_name(f"{self.name}_history" if name is None else name, f"{subject}: name")
        fold = RowHistory.declare(self.fold, None if track is None else self._tracked_names(track, subject), subject)
        if self.stream.undoes:
            raise PlanError(
                f"{subject}: it is made of the rows of tables, which have no event times of their own. Expected a "
                "table of a stream's records."
            )
        if self.later_operators:
            option_name = "suppress" if isinstance(self.later_operators[0], Suppress) else "having"
            raise PlanError(f"{subject}: {option_name} belongs to the table. Leave it out, and query the history.")
        check_distinct([*(column.name for column in self.columns), VALID_FROM, VALID_TO], subject)
        return Table(name, self.stream, (*self.key, *fold.own_key), fold)

    def _tracked_names(self, names: Sequence[str], subject: str) -> tuple[str, ...]:
        """Return the names of columns that a history tracks, in the table's order. Raises PlanError."""
        is_list = isinstance(names, Collection) and not isinstance(names, str)
        if not is_list or not names or not all(isinstance(name, str) for name in names):
            names_text = value_in_message(names)
            raise PlanError(f'{subject}: track={names_text}; expected names of columns, such as track=["status"].')
        if unknown_names := [name for name in names if name not in self.values]:
            raise PlanError(
                f"{subject}: track: found {', '.join(map(repr, unknown_names))}; expected columns beside the key: "
                f"{', '.join(self.values)}."
            )
        return tuple(name for name in self.values if name in names)

    def expect(self, name: str, condition: str, *, otherwise: Otherwise = "fail") -> Table:
        """Return the table with a condition over its columns that each of its rows must meet.

        A row is judged as it stands after a batch that changes it. otherwise: "fail" stops the run before the batch is
        committed, so that no version of the table has such a row; "warn" counts it. A row for which the condition is
        null does not meet it. For conditions over records, and their quarantine, see `Stream.expect`.

        Raises PlanError for a condition that is none, a name that another one has, or a table of final results.
        """
        subject = f"table {self.name!r}"
        if otherwise == "quarantine":
            raise PlanError(
                f"{subject}: expect: a row is made of many records, and has no quarantine. Judge the records, before "
                'the table: stream.expect(...); or say otherwise="fail" or "warn".'
            )
        if self.find(Final) is not None:
            raise PlanError(
                f"{subject}: expect: a final result appears once, after its records were taken in. Judge the records, "
                "or declare the rule on a table without final results."
            )
        expectation = Expectation.declare(
            name, condition, otherwise, self.columns, self.expectations, subject, of_row=True
        )
        return replace(self, expectations=(*self.expectations, expectation))

    def expect_unique(self, *columns: str) -> Table:
        """Return the table with the rule that no two of its rows have the same values in these columns.

        A running job looks every few minutes, and `lakehouse test check` when it is asked; nothing is stopped. A row
        with a null in one of the columns is like no other. Raises PlanError for names that are no columns.
        """
        rule = UniqueRule.declare(columns, self.columns, self.key, f"table {self.name!r}")
        return self.watched_by(rule)

    def expect_fresh(self, max_age: str) -> Table:
        """Return the table with the rule that its newest record is at most so old by its event time: "10 minutes".

        Judged as `expect_unique` is, each 15 seconds. Raises PlanError for a text that is no duration.
        """
        return self.watched_by(FreshRule.declare(max_age, f"table {self.name!r}"))

    def watched_by(self, rule: WatchedRule) -> Table:
        """Return the table with a rule about it as a whole. Raises PlanError if another rule has its name."""
        if namesake := next((known_rule for known_rule in self.watched_rules if known_rule.name == rule.name), None):
            raise PlanError(
                f"table {self.name!r}: a rule {rule.name} is declared twice: {namesake}; {rule}. Expected one of them, "
                "or in SQL another name for one: CONSTRAINT name EXPECT ..."
            )
        return replace(self, watched_rules=(*self.watched_rules, rule))

    def changes(self, *, net: bool = False) -> Changes:
        """Return the table's changelog: per event, as one-record batches would give it, or `net` per commit."""
        check_flag(net, f"table {self.name!r}: changes: net")
        if not net:
            reason = "its changelog is net, for a record may change many of its rows: changes(net=True)"
            refuse_history(self.fold, self.name, reason)
        return Changes(self, net)

    @property
    def is_history(self) -> bool:
        """Whether it has the rows that another table had: see `history`. It has no changelog per event."""
        return isinstance(self.fold, RowHistory)

    def alert(self, name: str, when: str = ALWAYS, *, on: On = "enter") -> Stream:
        """Return the changes at which a row begins (on: or ceases) to meet a condition, as a stream: `Crossings`."""
        refuse_history(self.fold, self.name, "it has no changelog per event. Declare the alert on the table itself")
        return self.stream.with_origin(*Crossings.declare(self, name, when, on))

    def to_stream(self) -> Stream:
        """Return the changelog per event as a stream: the row after each change, null for a delete (toStream)."""
        refuse_history(self.fold, self.name, "it has no changelog per event. Use that of the table itself")
        return self.stream.with_origin(ChangesOf(self), Shape(f"table {self.name!r}: changes", self.key, self.columns))


@dataclass(frozen=True, slots=True, repr=False)
class Changes(Declaration):
    """A table's changelog."""

    table: Table
    net: bool = False

    def to_topic(
        self, topic: str, *, partitions: int | None = None, format: str = "json", key_format: str | None = None
    ) -> Sink:
        """Return a sink that publishes the changelog to a compacted topic: key -> new value, null for a delete.

        format, key_format: see `Stream.to_topic`.
        """
        formats = written_formats(format, key_format, self.table, f"table {self.table.name!r}: to_topic")
        number = check_partitions(partitions, topic)
        return Sink(check_sink_topic(topic), self.table, "net" if self.net else "event", number, None, *formats)


def check_sink_topic(topic: str) -> str:
    """Return the name if a sink's topic can have it: the topic beside it, of its covers, needs a name as well."""
    if (fault := length_fault(check_topic(topic))) is not None:
        raise PlanError(fault)
    return topic


def written_formats(format: str, key_format: str | None, subject: Stream | Table, place: str) -> tuple[str, str]:
    """Return the formats in which a stream or table is published: of values, and of keys, "" for the usual one.

    place: for messages. Raises PlanError for an unknown format, or columns that it can't hold.
    """
    format = check_format_name(format, VALUE_FORMATS, f"{place}: format")
    key_format = "" if key_format is None else check_format_name(key_format, KEY_FORMATS, f"{place}: key_format")
    key_columns = [column for column in subject.columns if column.name in subject.key]
    value_columns = [column for column in subject.columns if column.name not in subject.key]
    for name, columns, part in ((format, value_columns, "format"), (key_format, key_columns, "key_format")):
        traits = traits_of(name)
        if traits.written_as:
            raise PlanError(f"{place}: {part}={name!r} is only read: others write it. Use {traits.written_as!r}.")
        known_types = [base_type(column.type) for column in columns if column.type]
        if (traits.is_single and len(columns) != 1) or not all(map(traits.holds_type, known_types)):
            texts = ", ".join(map(str, columns))
            raise PlanError(f"{place}: {part}={name!r} can't hold {texts}. Use {JSON!r}.")
        check_columns = check_writable if traits.needs_schema else check_map_keys
        check_columns(traits, [(column.name, column.type) for column in columns], f"{place}: {part}={name!r}")
    return format, key_format


@dataclass(frozen=True, slots=True, repr=False)
class Sink(Declaration):
    """A topic to which a stream, or a table's changelog, is published. `partitions` is for creating the topic.

    format: of the values, "json", "delimited", "kafka", "avro", "protobuf" or "json_sr"; key_format: of keys, ""
    for the usual one, Kafka's own type or JSON.
    """

    topic: str
    source: Stream | Table
    mode: Literal["event", "net"]
    partitions: int | None = None
    partition_by: Expression | None = None
    format: str = USUAL_FORMATS[0]
    key_format: str = USUAL_FORMATS[1]
