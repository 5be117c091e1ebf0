"""The parts of `lakehouse.semantics.aggregate.wide_sum` on Spark: a decimal becomes three parts of 18 digits."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.semantics.aggregate.wide_sum import PART_DIGITS, PARTS

PART_TYPE = "decimal(37,0)"


def split_into_parts(value: Column, scale: int) -> Column:
    """Return the parts of a DECIMAL(p, scale) as a struct, each with the value's sign; null for a null."""
    high, middle, low = (_power_of_ten(digits - scale) for digits in (2 * PART_DIGITS, PART_DIGITS, 0))
    parts = (_whole_quotient(value, high), _whole_quotient(value % high, middle), _whole_quotient(value % middle, low))
    return F.when(value.isNotNull(), parts_struct(parts))


def parts_struct(parts: tuple[Column, ...]) -> Column:
    """Return parts as the struct of an accumulator."""
    return F.struct(*[part.cast(PART_TYPE).alias(name) for part, name in zip(parts, PARTS, strict=True)])


def sum_as_text(accumulator: Column, scale: int) -> Column:
    """Return the sum of an accumulator as a number in text, with all its digits."""
    parts_with_sign = _compute_with(
        _carry_parts(accumulator), lambda parts: F.struct((parts["high"] < 0).alias("negative"), parts.alias("parts"))
    )
    return _compute_with(
        parts_with_sign, lambda signed_parts: _format_digits(signed_parts["negative"], signed_parts["parts"], scale)
    )


def _format_digits(negative: Column, parts: Column, scale: int) -> Column:
    positive = parts_struct(tuple(F.when(negative, -parts[name]).otherwise(parts[name]) for name in PARTS))

    def write_digits(carried_parts: Column) -> Column:
        sign, high = F.when(negative, "-").otherwise(""), carried_parts["high"].cast("string")
        return F.concat(
            sign, high, _pad_part(carried_parts["middle"]), _pad_part(carried_parts["low"]), F.lit(f"E-{scale}")
        )

    return _compute_with(_carry_parts(positive), write_digits)


def _carry_parts(parts: Column) -> Column:
    """Return the same sum with two lower parts that are not negative and have at most 18 digits."""
    part_size = _power_of_ten(PART_DIGITS)

    def carry_from_low(sum_parts: Column) -> Column:
        low_rest = F.pmod(sum_parts["low"], part_size)
        return parts_struct(
            (sum_parts["high"], sum_parts["middle"] + _whole_quotient(sum_parts["low"] - low_rest, part_size), low_rest)
        )

    def carry_from_middle(sum_parts: Column) -> Column:
        middle_rest = F.pmod(sum_parts["middle"], part_size)
        return parts_struct(
            (
                sum_parts["high"] + _whole_quotient(sum_parts["middle"] - middle_rest, part_size),
                middle_rest,
                sum_parts["low"],
            )
        )

    return _compute_with(_compute_with(parts, carry_from_low), carry_from_middle)


def _compute_with(value: Column, body: Callable[[Column], Column]) -> Column:
    """Return `body` applied to a value that it uses several times, with the value computed once."""
    return F.transform(F.array(value), body)[0]


def _pad_part(part: Column) -> Column:
    return F.lpad(part.cast("string"), PART_DIGITS, "0")


def _power_of_ten(exponent: int) -> Column:
    """Return 10 to the power of `exponent`, as an exact decimal."""
    digits = f"1{'0' * exponent}" if exponent >= 0 else f"0.{'0' * (-exponent - 1)}1"
    return F.expr(f"{digits}BD")


def _whole_quotient(value: Column, divisor: Column) -> Column:
    """Return value / divisor without its fraction; the result has at most 19 digits."""
    return F.call_function("div", value, divisor).cast(PART_TYPE)
