"""Casts to a type that can't hold the value: null, like everything that fails.

With ANSI mode off Spark's own casts of numbers wrap around, as Java's do: 2147483648 as an INT is -2147483648, a DOUBLE
of 3e9 is 2147483647, NaN is 0. `try_cast` would give null, but it reads texts otherwise ('1.5' is no INT for it), and
knows fewer types. So the cast stays, and a condition over its argument stands before it. Trees have no types when they
are guarded (`lakehouse.spark.expressions`): what depends on the argument's type asks `typeof`, which Spark answers
before it computes anything.

A text that is cast to a DECIMAL may have any exponent: Java would write 1e-999999999 out, digit by digit.
"""

from __future__ import annotations

import re

from lakehouse.formats.text_value import INTEGER_BITS
from lakehouse.semantics.number_text import EXPONENT_MAX, LENGTH_MAX
from lakehouse.semantics.years import FIRST_MS, LAST_MS

# Functions that are casts.
FUNCTIONS = (*INTEGER_BITS, "decimal", "string", "timestamp")

# The cast `1` of `0` to a text: Spark takes any bytes for one, and whoever reads those as UTF-8 fails.
TEXT = "if(typeof(`0`) = 'binary', try_validate_utf8(`1`), `1`)"

_WHOLE, _TEXT = "cast(`0` AS bigint)", "cast(`0` AS string)"
# A cast to BIGINT cuts a fraction off. One that wraps around is 2**63 away at least from the number as a double, which
# is exact within 1024 there. What is no number as a text (true, a timestamp, an interval) always fits a BIGINT.
_WRAPS = f"abs(cast({_WHOLE} AS double) - coalesce(cast({_TEXT} AS double), cast({_WHOLE} AS double))) > 4096D"
# All doubles that are larger become the largest BIGINT, which is no double; all that are smaller the smallest, which is
# one: in the words of this Java, of an earlier one, and as a FLOAT.
_SMALLEST = "cast('-9223372036854775808' AS bigint)"
_ITSELF = "('-9.223372036854776E18', '-9.223372036854775808E18', '-9.223372E18')"
_CUT_OFF = (
    f"({_TEXT} = 'NaN' OR {_WHOLE} = 9223372036854775807 OR ({_WHOLE} = {_SMALLEST} AND {_TEXT} NOT IN {_ITSELF}))"
)


def unfit_cast_condition(kind: str) -> str | None:
    """Return the condition, over the argument `0`, under which a cast to a type must be null; None if it never must.

    Where it is null, the cast is null. kind: the type as Spark writes it, in lower case.
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
    """Return the text that is cast in place of an argument `0` that is one; None where that is cast as it is."""
    exponent = "([eE][+-]?)0*[1-9][0-9]{4,}"
    return f"regexp_replace({_TEXT}, '{exponent}', '$1{EXPONENT_MAX}')" if kind.startswith("decimal") else None


def cast_elements(kind: str) -> str | None:
    """Return the cast of an array or a map `0`, element by element; None where all elements fit.

    A map of which a key does not fit, or two keys become one, is null: map_from_entries raises.
    """
    base_kind, _, inner_kinds = kind.removesuffix(">").partition("<")
    item_name = f"_lakehouse_cast_{len(kind)}"  # a type inside of another one is shorter: the names differ
    if base_kind == "array" and _may_fail(inner_kinds):
        return f"transform(`0`, {item_name} -> cast({item_name} AS {inner_kinds}))"
    if base_kind != "map":
        return None
    key_kind, value_kind = _split_map_types(inner_kinds)
    if _may_fail(key_kind):
        pair_struct = f"named_struct('key', cast({item_name}.key AS {key_kind}), 'value', cast({item_name}.value AS {value_kind}))"
        return f"map_from_entries(transform(map_entries(`0`), {item_name} -> {pair_struct}))"
    if _may_fail(value_kind):
        return f"transform_values(`0`, ({item_name}_key, {item_name}) -> cast({item_name} AS {value_kind}))"
    return None


def _split_map_types(inner: str) -> tuple[str, str]:
    """The types of a map's keys and values, of what stands between its brackets."""
    depth = 0
    for index, letter in enumerate(inner):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            return inner[:index], inner[index + 1 :].lstrip()
    raise ValueError(f"found {inner!r}, expected the types of a map's keys and values")


def _may_fail(kind: str) -> bool:
    return kind == "string" or unfit_cast_condition(kind) is not None or cast_elements(kind) is not None
