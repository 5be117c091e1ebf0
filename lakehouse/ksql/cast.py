"""CAST, and texts that are read as moments."""

from __future__ import annotations

from dataclasses import replace

from lakehouse.errors import SqlError
from lakehouse.ksql.function.moment import time_text
from lakehouse.ksql.function.moment_literal import moment_literal
from lakehouse.ksql.function.sql import Sql, copied
from lakehouse.ksql.function.sql import text as literal
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan.expression import name_text
from lakehouse.plan.names.field import field_name

# Columns of times in milliseconds.
TIMES = ("ROWTIME", "WINDOWSTART", "WINDOWEND")
TRUE_WORDS = "('true', 'tru', 'tr', 't', 'yes', 'ye', 'y')"  # as ksqlDB reads them; every other text is false
# A time as ksqlDB reads it; Spark reads more, such as a zone behind it.
_CLOCK = "^[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?(?!.|\\\\n)"
# Digits behind the point of a DECIMAL that Java writes as they are; beyond, 0 is 0E-7.
_NO_EXPONENT = 6
ISO = "yyyy-MM-dd\\'T\\'HH:mm:ss.SSS"


def cast(of: Sql, to: Kind, at: int) -> Sql:
    """Return a cast; what fails is null. Raises SqlError for types between which there is none."""
    text, name = of.text, of.kind.name
    plain = Sql(f"cast({text} AS {to.spark})", to)
    if of.kind == to:  # a key that is cast is no longer the key
        return of if of.literal is not None else replace(of, text=copied(text))
    if of.kind.is_null:
        return plain
    if name == to.name and of.kind.inner:
        return Sql(_inside(text, of.kind, to, at), to)
    match name, to.name:
        case ("STRING", "BOOLEAN"):
            return Sql(f"CASE WHEN {text} IS NOT NULL THEN lower(trim({text})) IN {TRUE_WORDS} END", to)
        case ("TIMESTAMP", "STRING"):
            return Sql(f"date_format({text}, '{ISO}')", to)
        case ("TIME", "STRING"):
            return Sql(time_text(text), to)
        case ("STRING", "TIME"):
            read = f"cast(unix_millis(cast(concat('1970-01-01 ', trim({text})) AS timestamp)) AS int)"
            return Sql(f"CASE WHEN trim({text}) RLIKE '{_CLOCK}' THEN {read} END", to)
        case ("DECIMAL", "STRING") if of.kind.digits[1] > _NO_EXPONENT:
            return Sql(f"try_cast({text} AS string)", to)  # without an exponent, unlike cast
        case ("TIMESTAMP", "TIME"):
            return Sql(f"cast(pmod(unix_millis({text}), 86400000) AS int)", to)
        case ("DATE", "STRING") | ("DATE", "TIMESTAMP") | ("TIMESTAMP", "DATE") | ("BOOLEAN", "STRING"):
            return plain
        case ("STRING", "DATE" | "TIMESTAMP" | "INTEGER" | "BIGINT" | "DOUBLE" | "DECIMAL"):
            if of.literal is not None and to.name in k.MOMENTS:
                return moment_literal(of.literal, to, at)
            if to.is_whole:
                # Spark cuts '1.5' off.
                return Sql(f"CASE WHEN {text} NOT LIKE '%.%' THEN {plain.text} END", to)
            return plain
    if of.kind.is_number and (to.is_number or to == k.STRING):
        return plain
    if to == k.STRING and name in ("ARRAY", "MAP", "STRUCT"):
        return Sql(_written(text, of.kind), to)
    raise SqlError(f"cast of {of.kind} to {to} is not supported", at)


def _written(text: str, kind: Kind, depth: int = 0) -> str:
    """An array, a map or a struct as Java writes it: [1, null], {a=1}, Struct{A=1}."""
    item = f"item{depth}"
    match kind.name:
        case "ARRAY":
            inner = _written(item, kind.inner[0], depth + 1)
            return f"concat('[', array_join(transform({text}, {item} -> {inner}), ', ', 'null'), ']')"
        case "MAP":
            value = f"coalesce({_written(f'{item}.value', kind.inner[1], depth + 1)}, 'null')"
            pairs = f"transform(map_entries({text}), {item} -> concat({item}.key, '=', {value}))"
            return f"concat('{{', array_join({pairs}, ', '), '}}')"
        case "STRUCT":
            members = [
                f"concat({literal(f'{field_name(name)}=')}, {_written(f'{text}.`{name}`', of, depth)})"
                for name, of in zip(kind.names, kind.inner, strict=True)
            ]
            return (
                f"CASE WHEN {text} IS NOT NULL THEN concat('Struct{{', concat_ws(',', {', '.join(members)}), '}}') END"
            )
    if kind.name == "DECIMAL":
        return f"cast({text} AS string)"
    return cast(Sql(text, kind), k.STRING, 0).text


def _inside(text: str, kind: Kind, to: Kind, at: int) -> str:
    """An array, a map or a struct with what is inside of it cast; a field that a struct does not have is null."""
    item = f"item{_depth(to)}"
    match kind.name:
        case "ARRAY":
            return f"transform({text}, {item} -> {cast(Sql(item, kind.inner[0]), to.inner[0], at).text})"
        case "MAP":
            parts = (cast(Sql(f"{item}.{part}", of), inner, at).text
                     for part, of, inner in zip(("key", "value"), kind.inner, to.inner, strict=True))  # fmt: skip
            key, value = parts
            pair = f"named_struct('key', {key}, 'value', {value})"
            return f"map_from_entries(transform(map_entries({text}), {item} -> {pair}))"
    known = dict(zip(kind.names, kind.inner, strict=True))
    members = [
        f"{literal(name)}, "
        + (cast(Sql(f"{text}.{name_text(name)}", known[name]), inner, at).text if name in known
           else f"cast(NULL AS {inner.spark})")
        for name, inner in zip(to.names, to.inner, strict=True)
    ]  # fmt: skip
    return f"CASE WHEN {text} IS NOT NULL THEN named_struct({', '.join(members)}) END"


def _depth(kind: Kind) -> int:
    """How deep types are nested in a type: what stands inside has another name."""
    return 1 + max(map(_depth, kind.inner), default=0)


def as_moment(at: int, of: Sql, kind: Kind) -> Sql:
    """Return a text as the moment that a function takes. Raises SqlError for a text in quotes that is none."""
    return cast(of, kind, at) if of.literal is None else moment_literal(of.literal, kind, at)


def as_times(one: t.Expr, other: t.Expr, left: Sql, right: Sql) -> tuple[Sql, Sql]:
    """Return two values that are compared: a text in quotes beside ROWTIME or a window's bound is read as a time."""
    return _time(left, one.at, other), _time(right, other.at, one)


def _time(of: Sql, at: int, beside: t.Expr) -> Sql:
    """A value, in milliseconds if it is a text beside a column of times."""
    if of.literal is None or of.kind != k.STRING or not isinstance(beside, t.Name) or beside.name not in TIMES:
        return of
    return Sql(f"unix_millis({moment_literal(of.literal, k.TIMESTAMP, at).text})", k.BIGINT)
