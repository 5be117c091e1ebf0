"""Rules about a table as a whole, which are judged beside a run, and not while its records are taken in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from lakehouse.duration import duration_ms, duration_text
from lakehouse.errors import PlanError
from lakehouse.plan.expression.schema import NESTED_TYPES, Column, base_type
from lakehouse.plan.refused.near import suggest_near


@dataclass(frozen=True, slots=True)
class FreshRule:
    """The newest event time that a table has taken in is at most so many milliseconds ago.

    label: its name, if it has one of its own.
    """

    max_age_ms: int
    label: str = ""

    @classmethod
    def declare(cls, max_age: str, subject: str) -> FreshRule:
        """Return the rule. Raises PlanError for a text that is no duration."""
        return cls(duration_ms(max_age, f"{subject}: expect_fresh", least=1))

    @property
    def name(self) -> str:
        return self.label or "fresh"

    def __str__(self) -> str:
        return f"its newest record is at most {duration_text(self.max_age_ms)} old"


@dataclass(frozen=True, slots=True)
class UniqueRule:
    """No two rows of a table have the same values in these columns; a row with a null there has none.

    label: its name, if it has one of its own.
    """

    columns: tuple[str, ...]
    label: str = ""

    @classmethod
    def declare(
        cls, names: tuple[str, ...], columns: tuple[Column, ...], key: tuple[str, ...], subject: str
    ) -> UniqueRule:
        """Return the rule over a table's columns. Raises PlanError for names that it can't be about."""
        subject = f"{subject}: expect_unique"
        columns_by_name = {column.name.lower(): column for column in columns}
        if not names:
            raise PlanError(f'{subject}: expected the names of columns, such as expect_unique("email").')
        own_names: list[str] = []
        for name in names:
            column = columns_by_name.get(name.lower()) if isinstance(name, str) else None
            if column is None:
                near_text = suggest_near(name, columns_by_name) if isinstance(name, str) else ""
                raise PlanError(
                    f"{subject}: {name!r} is no column.{near_text} There are: {', '.join(columns_by_name)}."
                )
            if base_type(column.type) in NESTED_TYPES:
                raise PlanError(f"{subject}: {column} has parts. Expected columns of single values.")
            own_names.append(column.name)
        if len(set(own_names)) < len(own_names):
            raise PlanError(f"{subject}: {', '.join(own_names)}: expected each column once.")
        if set(key) <= set(own_names):
            raise PlanError(f"{subject}: {', '.join(own_names)} has the whole key, {', '.join(key)}, which is unique.")
        return cls(tuple(own_names))

    @property
    def name(self) -> str:
        return self.label or f"unique_{'_'.join(self.columns)}"

    def __str__(self) -> str:
        return f"no two rows have the same {', '.join(self.columns)}"


WatchedRule: TypeAlias = FreshRule | UniqueRule
