"""SUM over decimals of more than 18 digits: exact, though no DECIMAL has room for the sum.

A value's digits are split into three parts of 18 digits: value * 10**scale = high * 10**36 + middle * 10**18 + low,
each with the value's sign. The accumulator has a sum for each part, with no carry between them, so every batching gives
the same sums. Each sum has room for 10**19 records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX

PART_DIGITS = 18
PARTS = ("high", "middle", "low")
_PART = 10**PART_DIGITS


@dataclass(frozen=True, slots=True)
class SumWideDecimals:
    """SUM over DECIMAL(p, s), as DECIMAL(p + 10, s) like Spark's own SUM, with at most 38 digits; null beyond that."""

    precision: int
    scale: int

    def empty_accumulator(self) -> dict[str, int]:
        return dict.fromkeys(PARTS, 0)

    def add(self, accumulator: Mapping[str, Any], value: Decimal | None, record_position: object) -> Mapping[str, Any]:
        return accumulator if value is None else self.merge(accumulator, self._split_digits(value))

    def merge(self, earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, int]:
        return {part: int(earlier[part]) + int(later[part]) for part in PARTS}

    def result(self, accumulator: Mapping[str, Any]) -> Decimal | None:
        total = self.total(accumulator)
        digits_max = min(self.precision + 10, DECIMAL_DIGITS_MAX)
        return total if len(total.as_tuple().digits) <= digits_max else None

    def total(self, accumulator: Mapping[str, Any]) -> Decimal:
        """Return the sum, with any number of digits."""
        high_sum, middle_sum, low_sum = (int(accumulator[part]) for part in PARTS)
        return Decimal(f"{(high_sum * _PART + middle_sum) * _PART + low_sum}E-{self.scale}")

    def _split_digits(self, value: Decimal) -> dict[str, int]:
        sign, digits, exponent = Decimal(value).as_tuple()
        whole_number = int("".join(map(str, digits))) * 10 ** (int(exponent) + self.scale)
        upper_digits, low_part = divmod(whole_number, _PART)
        high_part, middle_part = divmod(upper_digits, _PART)
        return {
            part: -part_value if sign else part_value
            for part, part_value in zip(PARTS, (high_part, middle_part, low_part), strict=True)
        }
