"""CAST, and texts that ksqlDB reads as moments."""

from __future__ import annotations

from dataclasses import replace

from lakehouse.errors import SqlError
from lakehouse.ksql.function.in_bytes import from_base64
from lakehouse.ksql.function.moment import time_text
from lakehouse.ksql.function.moment_literal import (
    DATE_PATTERN,
    NO_CLOCK,
    TIME_PATTERN,
    TIMESTAMP_PATTERN,
    moment_literal,
)
from lakehouse.ksql.function.sql import Sql, copy_sql, let_sql, trimmed
from lakehouse.ksql.function.sql import text_literal as literal
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan.expression.expression import name_text
from lakehouse.plan.names.field import field_name
from lakehouse.semantics.blanks import JAVA_BLANKS

# Columns that hold times in milliseconds.
TIMES = ("ROWTIME", "WINDOWSTART", "WINDOWEND")
TRUE_WORDS = "('true', 'tru', 'tr', 't', 'yes', 'ye', 'y')"  # as ksqlDB reads them; every other text is false
# Java writes a DECIMAL with up to so many decimal places plainly; with more it writes 0 as 0E-7.
_NO_EXPONENT = 6
ISO = "yyyy-MM-dd\\'T\\'HH:mm:ss.SSS"


def cast(value: Sql, target_kind: Kind, position: int) -> Sql:
    """Return a cast, null for a value that it fails on. Raises SqlError for types that have no cast between them."""
    value_text, kind_name = value.text, value.kind.name
    plain_cast = Sql(f"cast({value_text} AS {target_kind.spark})", target_kind)
    if value.kind == target_kind:  # a key that is cast to its own type is a key no longer
        return value if value.literal is not None else replace(value, text=copy_sql(value_text))
    if value.kind.is_null:
        return plain_cast
    if kind_name == target_kind.name and value.kind.inner:
        return Sql(_cast_inside(value_text, value.kind, target_kind, position), target_kind)
    match kind_name, target_kind.name:
        case ("STRING", "BOOLEAN"):
            is_true = f"lower({trimmed(value_text)}) IN {TRUE_WORDS}"
            return Sql(f"CASE WHEN {value_text} IS NOT NULL THEN {is_true} END", target_kind)
        case ("STRING", "BYTES"):
            return Sql(let_sql(trimmed(value_text), "_written", from_base64), target_kind)
        case ("TIMESTAMP", "STRING"):
            return Sql(f"date_format({value_text}, '{ISO}')", target_kind)
        case ("TIME", "STRING"):
            return Sql(time_text(value_text), target_kind)
        case ("DECIMAL", "STRING") if value.kind.digits[1] > _NO_EXPONENT:
            return Sql(f"try_cast({value_text} AS string)", target_kind)  # without an exponent, unlike cast
        case ("TIMESTAMP", "TIME"):
            return Sql(f"cast(pmod(unix_millis({value_text}), 86400000) AS int)", target_kind)
        case ("DATE", "STRING") | ("DATE", "TIMESTAMP") | ("TIMESTAMP", "DATE") | ("BOOLEAN", "STRING"):
            return plain_cast
        case ("STRING", "DATE" | "TIME" | "TIMESTAMP" | "INTEGER" | "BIGINT" | "DOUBLE" | "DECIMAL"):
            return _read_text(value, target_kind, position)
    if value.kind.is_number and (target_kind.is_number or target_kind == k.STRING):
        return plain_cast
    if target_kind == k.STRING and kind_name in ("ARRAY", "MAP", "STRUCT"):
        return Sql(_java_text(value_text, value.kind), target_kind)
    raise SqlError(f"cast of {value.kind} to {target_kind} is not supported", position)


def _read_text(value: Sql, kind: Kind, position: int) -> Sql:
    """Return the moment or the number in a text; null for texts that Spark reads and ksqlDB does not."""
    text, plain_cast = value.text, f"cast({value.text} AS {kind.spark})"
    is_plain_literal = value.literal is not None and value.literal.isascii() and value.literal.isprintable()
    match kind.name:
        case "DATE" | "TIME" | "TIMESTAMP" if value.literal is not None:
            return moment_literal(value.literal.strip(JAVA_BLANKS), kind, position)
        case "DATE" | "TIME" | "TIMESTAMP":
            readable = {"DATE": _day_text, "TIME": _time_of, "TIMESTAMP": _timestamp_text}
            return Sql(f"cast({let_sql(trimmed(text), '_text', readable[kind.name])} AS {kind.spark})", kind)
        case "DOUBLE":
            return Sql(f"cast({let_sql(text, '_text', _finite_text)} AS {kind.spark})", kind)
        case "INTEGER" | "BIGINT" if is_plain_literal:
            # Spark would cut off the fraction of '1.5'. A literal that is no number is refused with its own type.
            return Sql(f"CASE WHEN {text} NOT LIKE '%.%' THEN {plain_cast} END", kind)
        case "INTEGER" | "BIGINT":
            # As a DECIMAL, Spark reads the digits that Java reads: of all scripts, unlike as an INT.
            digits_max = {"INTEGER": 10, "BIGINT": 19}[kind.name]
            whole_number = f"cast(cast({text} AS decimal({digits_max}, 0)) AS {kind.spark})"
            return Sql(f"CASE WHEN {text} NOT RLIKE '[.eE]' THEN {whole_number} END", kind)
    return Sql(plain_cast, kind)


def _time_of(text: str) -> str:
    parsed_time = f"unix_millis(cast(concat('1970-01-01 ', {text}) AS timestamp))"
    return f"CASE WHEN {text} RLIKE {literal(TIME_PATTERN)} THEN {parsed_time} END"


def _day_text(text: str) -> str:
    return f"CASE WHEN {text} RLIKE {literal(DATE_PATTERN)} THEN {text} END"


def _timestamp_text(text: str) -> str:
    """Return the text of a day, or of a day with a time that is filled up with zeros; null for another text."""
    pattern = literal(TIMESTAMP_PATTERN)
    day, clock, offset = (f"regexp_extract({text}, {pattern}, {place})" for place in (1, 2, 3))
    completed = f"concat({day}, ' ', {clock}, substring('{NO_CLOCK}', length({clock}) + 1), {offset})"
    is_day, is_moment = (f"{text} RLIKE {literal(DATE_PATTERN)}", f"{text} RLIKE {pattern}")
    return f"CASE WHEN {is_day} THEN {text} WHEN {is_moment} THEN {completed} END"


def _finite_text(text: str) -> str:
    """Return the text of a DOUBLE; null for an infinite one, which 1e400 is, too, and for NaN."""
    return f"CASE WHEN abs(cast({text} AS double)) < cast('Infinity' AS double) THEN {text} END"


def _java_text(text: str, kind: Kind, depth: int = 0) -> str:
    """Return an array, a map or a struct as Java writes it: [1, null], {a=1}, Struct{A=1}."""
    item = f"item{depth}"
    match kind.name:
        case "ARRAY":
            inner_text = _java_text(item, kind.inner[0], depth + 1)
            return f"concat('[', array_join(transform({text}, {item} -> {inner_text}), ', ', 'null'), ']')"
        case "MAP":
            value_text = f"coalesce({_java_text(f'{item}.value', kind.inner[1], depth + 1)}, 'null')"
            pair_texts = f"transform(map_entries({text}), {item} -> concat({item}.key, '=', {value_text}))"
            return f"concat('{{', array_join({pair_texts}, ', '), '}}')"
        case "STRUCT":
            member_texts = [
                f"concat({literal(f'{field_name(name)}=')}, {_java_text(f'{text}.`{name}`', field_kind, depth)})"
                for name, field_kind in zip(kind.names, kind.inner, strict=True)
            ]
            members = f"concat_ws(',', {', '.join(member_texts)})"
            return f"CASE WHEN {text} IS NOT NULL THEN concat('Struct{{', {members}, '}}') END"
    if kind.name == "DECIMAL":
        return f"cast({text} AS string)"
    return cast(Sql(text, kind), k.STRING, 0).text


def _cast_inside(text: str, kind: Kind, target_kind: Kind, position: int) -> str:
    """Return an array, a map or a struct with its contents cast; a field that the struct lacks is null."""
    item = f"item{_kind_depth(target_kind)}"
    match kind.name:
        case "ARRAY":
            return f"transform({text}, {item} -> {cast(Sql(item, kind.inner[0]), target_kind.inner[0], position).text})"
        case "MAP":
            part_casts = (
                cast(Sql(f"{item}.{part}", part_kind), inner_kind, position).text
                for part, part_kind, inner_kind in zip(("key", "value"), kind.inner, target_kind.inner, strict=True)
            )
            key_cast, value_cast = part_casts
            pair_struct = f"named_struct('key', {key_cast}, 'value', {value_cast})"
            return f"map_from_entries(transform(map_entries({text}), {item} -> {pair_struct}))"
    kinds_by_name = dict(zip(kind.names, kind.inner, strict=True))
    member_texts = [
        f"{literal(name)}, "
        + (
            cast(Sql(f"{text}.{name_text(name)}", kinds_by_name[name]), inner_kind, position).text
            if name in kinds_by_name
            else f"cast(NULL AS {inner_kind.spark})"
        )
        for name, inner_kind in zip(target_kind.names, target_kind.inner, strict=True)
    ]
    return f"CASE WHEN {text} IS NOT NULL THEN named_struct({', '.join(member_texts)}) END"


def _kind_depth(kind: Kind) -> int:
    """Return how deep a type is nested: each level needs a name of its own for its items."""
    return 1 + max(map(_kind_depth, kind.inner), default=0)


def as_moment(position: int, value: Sql, kind: Kind) -> Sql:
    """Return a text as the moment that a function takes. Raises SqlError for a literal that is no moment."""
    return cast(value, kind, position) if value.literal is None else moment_literal(value.literal, kind, position)


def as_times(left_node: t.Expr, right_node: t.Expr, left: Sql, right: Sql) -> tuple[Sql, Sql]:
    """Return two values to compare; a text literal beside ROWTIME or a window's bound becomes a time."""
    return _as_time(left, left_node.position, right_node), _as_time(right, right_node.position, left_node)


def _as_time(value: Sql, position: int, other_node: t.Expr) -> Sql:
    """Return a value, in milliseconds if it is a text beside a column that holds times."""
    if (
        value.literal is None
        or value.kind != k.STRING
        or not isinstance(other_node, t.Name)
        or other_node.name not in TIMES
    ):
        return value
    return Sql(f"unix_millis({moment_literal(value.literal, k.TIMESTAMP, position).text})", k.BIGINT)
