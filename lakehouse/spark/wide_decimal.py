"""The parts of `lakehouse.semantics.aggregate.wide_sum` in Spark SQL: a decimal becomes three parts of 18 digits."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.semantics.aggregate.wide_sum import PART_DIGITS, PARTS

PART_TYPE = "decimal(37,0)"


def split(value: Column, scale: int) -> Column:
    """Return the parts of a DECIMAL(p, scale) as a struct, each with the value's sign; null for a null."""
    high, middle, low = (_power(digits - scale) for digits in (2 * PART_DIGITS, PART_DIGITS, 0))
    parts = (_whole(value, high), _whole(value % high, middle), _whole(value % middle, low))
    return F.when(value.isNotNull(), structure(parts))


def structure(parts: tuple[Column, ...]) -> Column:
    """Return parts as the struct that an accumulator keeps."""
    return F.struct(*[part.cast(PART_TYPE).alias(name) for part, name in zip(parts, PARTS, strict=True)])


def text(accumulator: Column, scale: int) -> Column:
    """Return the sum of an accumulator as a number in text, with all its digits."""
    signed = _with(
        _carried(accumulator), lambda parts: F.struct((parts["high"] < 0).alias("negative"), parts.alias("parts"))
    )
    return _with(signed, lambda it: _digits(it["negative"], it["parts"], scale))


def _digits(negative: Column, parts: Column, scale: int) -> Column:
    positive = structure(tuple(F.when(negative, -parts[name]).otherwise(parts[name]) for name in PARTS))

    def written(it: Column) -> Column:
        sign, high = F.when(negative, "-").otherwise(""), it["high"].cast("string")
        return F.concat(sign, high, _padded(it["middle"]), _padded(it["low"]), F.lit(f"E-{scale}"))

    return _with(_carried(positive), written)


def _carried(parts: Column) -> Column:
    """The same sum with two lower parts that are not negative and have at most 18 digits."""
    part = _power(PART_DIGITS)

    def from_low(it: Column) -> Column:
        rest = F.pmod(it["low"], part)
        return structure((it["high"], it["middle"] + _whole(it["low"] - rest, part), rest))

    def from_middle(it: Column) -> Column:
        rest = F.pmod(it["middle"], part)
        return structure((it["high"] + _whole(it["middle"] - rest, part), rest, it["low"]))

    return _with(_with(parts, from_low), from_middle)


def _with(value: Column, body: Callable[[Column], Column]) -> Column:
    """The result of `body` for a value that it uses several times, with the value computed once."""
    return F.transform(F.array(value), body)[0]


def _padded(part: Column) -> Column:
    return F.lpad(part.cast("string"), PART_DIGITS, "0")


def _power(exponent: int) -> Column:
    """10 to the power of `exponent`, as an exact decimal."""
    digits = f"1{'0' * exponent}" if exponent >= 0 else f"0.{'0' * (-exponent - 1)}1"
    return F.expr(f"{digits}BD")


def _whole(value: Column, by: Column) -> Column:
    """value / by without its fraction; the result has at most 19 digits."""
    return F.call_function("div", value, by).cast(PART_TYPE)
