"""Makes a cast to a type that can't hold the value null, like everything that fails.

With ANSI mode off Spark's own casts of numbers wrap around, as Java's do: 2147483648 as an INT is -2147483648, a DOUBLE
of 3e9 is 2147483647, NaN is 0. `try_cast` would give null, but it reads texts in another way ('1.5' is no INT for it),
and knows fewer types. So the cast stays, and a condition over its argument guards it. Trees have no types when they
are guarded (`lakehouse.spark.expression.declared`): a condition that depends on the argument's type uses `typeof`,
which Spark answers before it computes anything.

A text that is cast to a DECIMAL may have any exponent: Java would write all digits of 1e-999999999.
"""

from __future__ import annotations

import re

from lakehouse.formats.values.text_value import INTEGER_BITS
from lakehouse.semantics.number_text import EXPONENT_MAX, LENGTH_MAX
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS

# The cast `1` of `0` to a text: Spark takes any bytes for a text, and a reader that expects UTF-8 fails.
TEXT = "if(typeof(`0`) = 'binary', try_validate_utf8(`1`), `1`)"

_WHOLE, _TEXT = "cast(`0` AS bigint)", "cast(`0` AS string)"
# A cast to BIGINT cuts off a fraction. A result that wraps around is at least 2**63 away from the number as a double,
# which is exact within 1024 there. A value whose text is no number (true, a timestamp) always fits a BIGINT. Of a
# DECIMAL(19, 0) Spark would make a cast to BIGINT and then to DOUBLE one cast: so the BIGINT is halved.
_RESULT = f"2D * cast({_WHOLE} div 2L AS double)"
_WRAPS = f"abs({_RESULT} - coalesce(cast({_TEXT} AS double), {_RESULT})) > 4096D"
# All larger doubles become the largest BIGINT, which is no double; all smaller ones become the smallest, which is a
# double: as this Java writes it, as an earlier Java does, and as a FLOAT.
_SMALLEST = "cast('-9223372036854775808' AS bigint)"
_ITSELF = "('-9.223372036854776E18', '-9.223372036854775808E18', '-9.223372E18')"
_CUT_OFF = (
    f"({_TEXT} = 'NaN' OR {_WHOLE} = 9223372036854775807 OR ({_WHOLE} = {_SMALLEST} AND {_TEXT} NOT IN {_ITSELF}))"
)


def unfit_cast_condition(kind: str) -> str | None:
    """Return the condition, over the argument `0`, under which a cast to a type must be null; None if there is none.

    Where the condition is null, the cast is null. kind: the type as Spark writes it, in lower case.
    """
    base_kind = re.split(r"[(<]", kind)[0]
    if base_kind in INTEGER_BITS:
        integer_limit = 1 << (INTEGER_BITS[base_kind] - 1)
        range_condition = (
            f" OR {_WHOLE} NOT BETWEEN {-integer_limit} AND {integer_limit - 1}" if base_kind != "bigint" else ""
        )
        return f"if(typeof(`0`) IN ('float', 'double'), {_CUT_OFF}, {_WRAPS}){range_condition}"
    if base_kind == "timestamp":  # of a number of seconds
        seconds_condition = f"cast({_TEXT} AS double) NOT BETWEEN {FIRST_MS // 1000} AND {LAST_MS // 1000 + 1}"
        return f"typeof(`0`) <> 'string' AND coalesce({seconds_condition}, false)"
    if base_kind == "decimal":
        return f"typeof(`0`) = 'string' AND length({_TEXT}) > {LENGTH_MAX}"
    return None


def shorten_exponent(kind: str) -> str | None:
    """Return the text to cast instead of an argument `0` that is a text; None to cast the argument itself."""
    exponent = "([eE][+-]?)0*[1-9][0-9]{4,}"
    return f"regexp_replace({_TEXT}, '{exponent}', '$1{EXPONENT_MAX}')" if kind.startswith("decimal") else None


def cast_elements(kind: str) -> str | None:
    """Return the cast of an array or a map `0`, element by element; None where all elements fit.

    A map is null if a key does not fit, or if two keys become the same: map_from_entries raises.
    """
    base_kind, _, inner_kinds = kind.removesuffix(">").partition("<")
    item_name = f"_lakehouse_cast_{len(kind)}"  # a type inside of another is shorter, so the names differ
    if base_kind == "array" and _may_fail(inner_kinds):
        return f"transform(`0`, {item_name} -> cast({item_name} AS {inner_kinds}))"
    if base_kind != "map":
        return None
    key_kind, value_kind = _split_map_types(inner_kinds)
    if _may_fail(key_kind):
        key_cast, value_cast = f"cast({item_name}.key AS {key_kind})", f"cast({item_name}.value AS {value_kind})"
        pair_struct = f"named_struct('key', {key_cast}, 'value', {value_cast})"
        return f"map_from_entries(transform(map_entries(`0`), {item_name} -> {pair_struct}))"
    if _may_fail(value_kind):
        return f"transform_values(`0`, ({item_name}_key, {item_name}) -> cast({item_name} AS {value_kind}))"
    return None


def _split_map_types(inner: str) -> tuple[str, str]:
    """Return the types of a map's keys and values, from the text between its brackets."""
    depth = 0
    for index, letter in enumerate(inner):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            return inner[:index], inner[index + 1 :].lstrip()
    raise ValueError(f"found {inner!r}, expected the types of a map's keys and values")


def _may_fail(kind: str) -> bool:
    return kind == "string" or unfit_cast_condition(kind) is not None or cast_elements(kind) is not None
