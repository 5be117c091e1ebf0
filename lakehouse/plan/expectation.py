"""Expectations: conditions that each record of a topic, or each row of a table, should meet, and what becomes of one
that does not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from lakehouse.errors import ExpectationFailed, PlanError
from lakehouse.plan.expression.expression import Expression, columns_read_by, parse_predicate
from lakehouse.plan.expression.schema import PSEUDO_COLUMNS, Column, base_type, check_name
from lakehouse.plan.refused.steps import value_in_message
from lakehouse.semantics.failures import VALUES_BEGIN

Otherwise = Literal["quarantine", "warn", "fail"]
OTHERWISE = ("quarantine", "warn", "fail")
TEXT_MAX = 80  # of a value in a reason: the quarantine has the whole record
# Their values have one text in Python, whoever computed them.
SHOWN_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "date", "timestamp", "double")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition over the columns of a record or a row. A record for which it is false or null goes to the quarantine.

    A record with a null value has no columns to judge, and passes. otherwise: "fail" also stops the run, before a table
    takes the record's tick in, until the record is fixed or the declaration changed; "warn" only counts the record,
    which the tables take in.
    """

    name: str
    condition: Expression
    otherwise: Otherwise = "quarantine"

    @classmethod
    def declare(
        cls,
        name: str,
        condition: str,
        otherwise: Otherwise,
        columns: tuple[Column, ...],
        earlier_expectations: Iterable[Expectation],
        label: str,
        *,
        of_row: bool = False,
    ) -> Expectation:
        """Return an expectation over `columns`. label: the stream in messages.

        of_row: it judges a table's row, not a record.

        Raises PlanError for a name that an earlier expectation has, a condition that is none, or another word for
        `otherwise`.
        """
        subject = f"{label}: expect {value_in_message(name)}"
        check_name(name, subject)
        if any(expectation.name.lower() == name.lower() for expectation in earlier_expectations):
            raise PlanError(f"{subject}: there is an expectation of that name. Give each its own.")
        if otherwise not in OTHERWISE:
            raise PlanError(f"{subject}: otherwise={otherwise!r}; expected {' or '.join(map(repr, OTHERWISE))}.")
        parse = parse_row_condition if of_row else parse_predicate
        return cls(name, parse(condition, columns, subject), otherwise)

    @property
    def shown_columns(self) -> tuple[str, ...]:
        """The names of the columns that it reads and whose values a reason shows, in lower case."""
        types_by_name = {column.name.lower(): column.type for column in self.condition.types} | PSEUDO_COLUMNS
        names = dict.fromkeys(name.lower() for name in self.condition.columns())
        return tuple(name for name in names if base_type(types_by_name.get(name, "")) in SHOWN_TYPES)

    @property
    def reason_start(self) -> str:
        """How the reasons of its records begin: no two expectations of a stream have a name."""
        return f"expectation {self.name}: "

    def reason(self, values: Mapping[str, Any]) -> str:
        """Return why a record does not meet it. values: of `shown_columns`, by name; a missing value is null."""
        begin = f"{self.reason_start}{self.condition}"
        names = self.shown_columns
        if not names:
            return begin
        texts = [_value_text(values.get(name)) for name in names]
        if len(names) > 1:
            texts = [f"{name} {text}" for name, text in zip(names, texts, strict=True)]
        return f"{begin}{VALUES_BEGIN}{', '.join(texts)}"

    def __str__(self) -> str:
        otherwise_text = "" if self.otherwise == "quarantine" else f" (or {self.otherwise})"
        return f"{self.name}: {self.condition}{otherwise_text}"


def parse_row_condition(condition_text: str, columns: Sequence[Column], subject: str) -> Expression:
    """Parse a condition of a table's row. Raises PlanError for one that reads what only a record has: `rowtime`."""
    condition = parse_predicate(condition_text, columns, subject)
    column_names = {column.name.lower() for column in columns}
    if pseudo_names := sorted((columns_read_by([condition]) & PSEUDO_COLUMNS.keys()) - column_names):
        raise PlanError(
            f"{subject}: {condition_text!r} reads {pseudo_names[0]}, which belongs to a record. Expected a "
            f"condition of the row: {', '.join(column.name for column in columns)}."
        )
    return condition


def failure(stream: str, places: Sequence[str], reason: str) -> ExpectationFailed:
    """Return the error for records at which a run stops. places: topic/partition/offset. reason: of the first."""
    return ExpectationFailed(
        f"stream {stream!r}: record {places[0]}{_and_others(len(places))} stops the run: {reason}. It is in the "
        f"quarantine, and no table has taken in its tick. Fix it, `lakehouse repair replay {stream} --position "
        f"{places[0]}`, or change what is expected; then start again."
    )


def table_failure(table: str, place: str, records: int, name: str, text: str) -> ExpectationFailed:
    """Return the error for records at which a table stops, since they do not meet a rule after a join or other steps.

    place: of the first record. records: their number. name, text: the rule's name, its condition and what was found.
    """
    return ExpectationFailed(
        f"table {table!r}: record {place}{_and_others(records)} stops the run: expectation {name}: {text}. "
        "The table has not taken in its tick. Change what is expected, or the steps before; then start again."
    )


def row_failure(table: str, key: str, rows: int, reason: str) -> ExpectationFailed:
    """Return the error for rows of a table at which a run stops. key, reason: of one of them. rows: their number."""
    return ExpectationFailed(
        f"table {table!r}: row {key}{_and_others(rows)} stops the run: {reason}. The table has not taken in "
        f"the records that make it so; `lakehouse past explain {table} --key KEY` shows those before. Send a record "
        "that corrects the row, or change what is expected; then start again."
    )


def _and_others(count: int) -> str:
    """Return how many there are beside the one that a message names."""
    return f" (and {count - 1:,} more)" if count > 1 else ""


def _value_text(value: Any) -> str:
    """Return a value as a reason shows it: as JSON has it, a moment in ISO 8601."""
    match value:
        case datetime():
            text = f"{value.replace(tzinfo=None).isoformat()}Z"
        case date():
            text = value.isoformat()
        case Decimal():
            text = format(value, "f")
        case _:
            text = json.dumps(value, ensure_ascii=False)
    return clip_value(text)


def clip_value(text: str) -> str:
    """Return the text of a value, cut to a length that fits into a reason."""
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."
