"""Aggregates over the rows of a table: a value can be taken out again (docs/rules.md, rules 9, 10 and 12).

    accumulator = rule.add(accumulator, value, row_key)      a row is put into the group; its key is a text
    accumulator = rule.undo(accumulator, value, row_key)     the row is taken out again, with the value of its `add`

    count, sum, avg    subtract; over DOUBLE they are exact, so that an emptied group shows 0 and not a rest
    collect_list       takes out the last equal element, as ksqlDB does (rule 12)
    histogram          counts one less; a text with count 0 goes
    aggregate          calls the user's `undo`
    all others         keep the values of the group's rows, and compute the result from them again

If a user's function fails, the accumulator stays as it was, as in `add`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from math import inf, isfinite, isnan, nan
from typing import Any

from lakehouse.semantics.aggregate.aggregate import (
    Average,
    Count,
    CountAll,
    Rule,
    SumDecimals,
    SumDoubles,
    SumIntegers,
)
from lakehouse.semantics.aggregate.collection import CollectList, Histogram, as_counts, hashable_form
from lakehouse.semantics.aggregate.custom import Custom, OnFailure, Reduce, attempt
from lakehouse.semantics.aggregate.growing import Elements, RowValues
from lakehouse.semantics.aggregate.wide_sum import SumWideDecimals

EXACT_TYPE = "struct<units: string, nans: bigint, ups: bigint, downs: bigint>"
# 1 / UNIT = 2**-1074 is the smallest double above 0; every finite double is a whole multiple of it.
UNIT = 2**1074


@dataclass(frozen=True, slots=True)
class RowsByRecordRule:
    """An aggregate that adds a row's value by the rule for a stream's records."""

    rule: Rule

    def empty_accumulator(self) -> Any:
        return self.rule.empty_accumulator()

    def add(self, accumulator: Any, value: Any, row_key: object) -> Any:
        return self.rule.add(accumulator, value, row_key)

    def result(self, accumulator: Any) -> Any:
        return self.rule.result(accumulator)


@dataclass(frozen=True, slots=True)
class CountRows(RowsByRecordRule):
    """COUNT(*), or COUNT(column), over rows."""

    rule: CountAll | Count

    def undo(self, accumulator: int, value: object, row_key: object) -> int:
        return accumulator - self.rule.add(0, value, row_key)


@dataclass(frozen=True, slots=True)
class SumRows(RowsByRecordRule):
    """SUM over rows, of integers and decimals."""

    rule: SumIntegers | SumDecimals | SumWideDecimals

    def undo(self, accumulator: Any, value: Any, row_key: object) -> Any:
        if value is None:
            return accumulator
        negated_value: Any = value.copy_negate() if isinstance(value, Decimal) else -value
        return self.rule.add(accumulator, negated_value, row_key)

    def total(self, accumulator: Any) -> Any:
        """Return the sum, with any number of digits."""
        return self.rule.total(accumulator) if isinstance(self.rule, SumWideDecimals) else accumulator


@dataclass(frozen=True, slots=True)
class SumRowDoubles:
    """SUM of doubles over rows: exact, rounded once for the result. So it does not depend on the order of changes.

    `units` is the sum times `UNIT`, as hexadecimal text; NaN and the infinities are counted beside it.
    """

    def empty_accumulator(self) -> dict[str, Any]:
        return {"units": "0x0", "nans": 0, "ups": 0, "downs": 0}

    def add(self, accumulator: dict[str, Any], value: float | None, row_key: object) -> dict[str, Any]:
        return accumulator if value is None else self._count_value(accumulator, value, 1)

    def undo(self, accumulator: dict[str, Any], value: float | None, row_key: object) -> dict[str, Any]:
        return accumulator if value is None else self._count_value(accumulator, value, -1)

    def _count_value(self, accumulator: dict[str, Any], value: float, sign: int) -> dict[str, Any]:
        if isfinite(value):
            numerator, denominator = value.as_integer_ratio()
            new_units = int(accumulator["units"], 16) + sign * numerator * (UNIT // denominator)
            return {**accumulator, "units": hex(new_units)}
        counter_name = "nans" if isnan(value) else "ups" if value > 0 else "downs"
        return {**accumulator, counter_name: accumulator[counter_name] + sign}

    def result(self, accumulator: dict[str, Any]) -> float:
        return self.divide_by(accumulator, 1)

    def divide_by(self, accumulator: dict[str, Any], row_count: int) -> float:
        """Return the sum divided by `row_count`, rounded once."""
        if accumulator["nans"] or (accumulator["ups"] and accumulator["downs"]):
            return nan
        if accumulator["ups"] or accumulator["downs"]:
            return inf if accumulator["ups"] else -inf
        unit_count = int(accumulator["units"], 16)
        try:
            return unit_count / (UNIT * row_count)
        except OverflowError:
            return inf if unit_count > 0 else -inf


@dataclass(frozen=True, slots=True)
class AverageRows:
    """AVG over rows: the sum and the number of values; over only nulls, or no rows, it is 0.0 (see `Average`)."""

    sum: SumRows | SumRowDoubles

    def empty_accumulator(self) -> dict[str, Any]:
        return {"sum": self.sum.empty_accumulator(), "n": 0}

    def add(self, accumulator: dict[str, Any], value: Any, row_key: object) -> dict[str, Any]:
        if value is None:
            return accumulator
        return {"sum": self.sum.add(accumulator["sum"], value, row_key), "n": accumulator["n"] + 1}

    def undo(self, accumulator: dict[str, Any], value: Any, row_key: object) -> dict[str, Any]:
        if value is None:
            return accumulator
        return {"sum": self.sum.undo(accumulator["sum"], value, row_key), "n": accumulator["n"] - 1}

    def result(self, accumulator: dict[str, Any]) -> float:
        if not (row_count := accumulator["n"]):
            return 0.0
        sum_state = accumulator["sum"]
        return (
            self.sum.divide_by(sum_state, row_count)
            if isinstance(self.sum, SumRowDoubles)
            else float(self.sum.total(sum_state)) / row_count
        )


@dataclass(frozen=True, slots=True)
class ListRows(RowsByRecordRule):
    """COLLECT_LIST over rows: a value that is taken out is the last equal element."""

    rule: CollectList

    def add(self, accumulator: Any, value: Any, row_key: object) -> Any:
        if not isinstance(accumulator, Elements):
            return self.rule.add(accumulator, value, row_key)
        is_full = self.rule.limit is not None and len(accumulator) >= self.rule.limit
        return accumulator if is_full else accumulator.with_item(value)

    def undo(self, accumulator: Any, value: Any, row_key: object) -> Any:
        """Take a value out. It is not in the list if the limit was reached when it was added."""
        elements = accumulator if isinstance(accumulator, Elements) else Elements(accumulator, hashable_form)
        return elements.without_item(value)


@dataclass(frozen=True, slots=True)
class HistogramRows(RowsByRecordRule):
    """HISTOGRAM over rows."""

    rule: Histogram

    def undo(self, accumulator: Mapping[str, int], value: str | None, row_key: object) -> Mapping[str, int]:
        return accumulator if value is None else as_counts(accumulator).without_item(value)


@dataclass(frozen=True, slots=True)
class CustomRows(RowsByRecordRule):
    """A user's aggregate with an `undo`."""

    rule: Custom

    def with_listener(self, on_failure: OnFailure) -> CustomRows:
        """Return the same rule, which calls `on_failure` with each error."""
        return replace(self, rule=self.rule.with_listener(on_failure))

    def undo(self, accumulator: Any, value: Any, row_key: object) -> Any:
        assert self.rule.undo is not None
        return attempt(self.rule.fit, self.rule.undo, accumulator, value, self.rule.on_failure)


@dataclass(frozen=True, slots=True)
class RowsByKey:
    """Any other aggregate: its accumulator has the values of the group's rows, in the order in which they were put in.

    counting_rule: the same rule with a listener for errors; it hears only the errors of adding a row, not those of
    folding the values again.
    """

    rule: Rule
    counting_rule: Rule | None = None

    def with_listener(self, on_failure: OnFailure) -> RowsByKey:
        """Return the same rule, which calls `on_failure` with each error."""
        assert isinstance(self.rule, Reduce | Custom)
        return replace(self, counting_rule=self.rule.with_listener(on_failure))

    def empty_accumulator(self) -> RowValues:
        return RowValues()

    def add(self, accumulator: Mapping[str, Any], value: Any, row_key: str) -> RowValues:
        row_values = self._values(accumulator)
        if self.counting_rule is None and not row_values.is_folded:
            # Folded when a result is needed: once, however many rows of a group change.
            return row_values.put(row_key, value)
        new_accumulator = (self.counting_rule or self.rule).add(self._fold_values(row_values), value, len(row_values))
        new_values = row_values.put(row_key, value)
        new_values.keep_accumulator(new_accumulator)
        return new_values

    def undo(self, accumulator: Mapping[str, Any], value: Any, row_key: str) -> RowValues:
        return self._values(accumulator).without_item(row_key)

    def result(self, accumulator: Mapping[str, Any]) -> Any:
        return (self.counting_rule or self.rule).result(self._fold_values(self._values(accumulator)))

    def _values(self, accumulator: Mapping[str, Any]) -> RowValues:
        return accumulator if isinstance(accumulator, RowValues) else RowValues(accumulator)

    def _fold_values(self, row_values: RowValues) -> Any:
        """Return the rule's own accumulator over all values, in their order."""
        if not row_values.is_folded:
            accumulator = self.rule.empty_accumulator()
            for row_number, value in enumerate(row_values.values()):
                accumulator = self.rule.add(accumulator, value, row_number)
            row_values.keep_accumulator(accumulator)
        return row_values.accumulator


RowRule = CountRows | SumRows | SumRowDoubles | AverageRows | ListRows | HistogramRows | CustomRows | RowsByKey


def make_row_rule(rule: Rule) -> RowRule:
    """Return the form of an aggregate that can take out a row's value again."""
    if type(rule) is CollectList:  # not CollectSet, a subclass, which does not count how often a value was added
        return ListRows(rule)
    match rule:
        case CountAll() | Count():
            return CountRows(rule)
        case SumDoubles():
            return SumRowDoubles()
        case SumIntegers() | SumDecimals() | SumWideDecimals():
            return SumRows(rule)
        case Average(SumDoubles()):
            return AverageRows(SumRowDoubles())
        case Average(SumIntegers() | SumDecimals() | SumWideDecimals() as total):
            return AverageRows(SumRows(total))
        case Histogram():
            return HistogramRows(rule)
        case Custom() if rule.undo is not None:
            return CustomRows(rule)
    return RowsByKey(rule)
