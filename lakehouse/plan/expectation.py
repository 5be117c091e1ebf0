"""Expectations: conditions that each record of a topic should meet, and what becomes of one that does not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lakehouse.errors import PlanError
from lakehouse.plan.expression.expression import Expression, parse_predicate
from lakehouse.plan.expression.schema import PSEUDO_COLUMNS, Column, base_type, check_name
from lakehouse.plan.refused.steps import value_in_message

TEXT_MAX = 80  # of a value in a reason: the quarantine has the whole record
# Their values have one text in Python, whoever computed them.
SHOWN_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "date", "timestamp", "double")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition over a record's columns. A record for which it is false or null goes to the quarantine.

    A record with a null value has no columns to judge, and passes.
    """

    name: str
    condition: Expression

    @classmethod
    def declared(
        cls, name: str, condition: str, columns: tuple[Column, ...], others: Iterable[Expectation], what: str
    ) -> Expectation:
        """Return an expectation over `columns`. others: those declared before. what: the stream in messages.

        Raises PlanError for a name that another one has, or a condition that is none.
        """
        subject = f"{what}: expect {value_in_message(name)}"
        check_name(name, subject)
        if any(other.name.lower() == name.lower() for other in others):
            raise PlanError(f"{subject}: the stream has an expectation of that name. Give each its own.")
        return cls(name, parse_predicate(condition, columns, subject))

    @property
    def shown_columns(self) -> tuple[str, ...]:
        """The names of the columns that it reads and whose values a reason shows, in lower case."""
        types_by_name = {column.name.lower(): column.type for column in self.condition.types} | PSEUDO_COLUMNS
        names = dict.fromkeys(name.lower() for name in self.condition.columns())
        return tuple(name for name in names if base_type(types_by_name.get(name, "")) in SHOWN_TYPES)

    def reason(self, values: Mapping[str, Any]) -> str:
        """Return why a record does not meet it. values: of `shown_columns`, by name; one that is not there is null."""
        begin = f"expectation {self.name}: {self.condition}"
        names = self.shown_columns
        if not names:
            return begin
        texts = [_value_text(values.get(name)) for name in names]
        found = texts[0] if len(names) == 1 else ", ".join(f"{n} {text}" for n, text in zip(names, texts, strict=True))
        return f"{begin}, found {found}"

    def __str__(self) -> str:
        return f"{self.name}: {self.condition}"


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
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."
