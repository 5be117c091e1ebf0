"""Lists of values that have one type together: those of ARRAY, MAP and IN; and values as they are compared."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from lakehouse.errors import SqlError
from lakehouse.ksql.function.sql import Sql, literal
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind

_TRUE = ("true", "tru", "tr", "t", "yes", "ye", "y")
_FALSE = ("false", "fals", "fal", "fa", "f", "no", "n")


def coerced(items: list[Sql], at: int) -> list[Sql]:
    """Return values with texts in quotes as what the first one is: a number, true or false. Raises SqlError."""
    first = next((of for of in items if not of.kind.is_null), None)
    if first is None:
        return items
    if first.kind.is_number:
        return [_number(of, first.kind, at) for of in items]
    if first.kind == k.BOOLEAN:
        return [_boolean(of, at) for of in items]
    if first.kind == k.STRING:
        return [literal(of.literal) if of.kind.is_number and of.literal is not None else of for of in items]
    return items


def _number(of: Sql, kind: Kind, at: int) -> Sql:
    if of.kind != k.STRING or of.literal is None:
        return of
    try:
        value = Decimal(of.literal.strip())
    except InvalidOperation:
        raise SqlError(f"invalid input syntax for type {kind}: {of.literal!r}", at) from None
    whole = value == value.to_integral_value() and "." not in of.literal
    return literal(int(value)) if whole else literal(value)


def _boolean(of: Sql, at: int) -> Sql:
    if of.kind != k.STRING or of.literal is None:
        return of
    word = of.literal.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise SqlError(f"invalid input syntax for type BOOLEAN: {of.literal!r}", at)
    return literal(word in _TRUE)


def common(items: list[Sql], what: str, at: int) -> Kind:
    """Return the type that values have together; SqlError if there is none."""
    kind = k.common([of.kind for of in items])
    if kind is None or not items:
        kinds = ", ".join(dict.fromkeys(str(of.kind) for of in items)) or "nothing"
        raise SqlError(f"{what} needs values of one type, found {kinds}", at)
    if kind.is_null:
        raise SqlError(f"{what} needs a value that is not NULL. Give a NULL a type: CAST(NULL AS ...)", at)
    return kind


def has_map_inside(kind: Kind) -> bool:
    """Say whether there is a map in the type, below its top: Spark can't compare that."""
    return any(of.name == "MAP" or has_map_inside(of) for of in kind.inner)


def check_key_type(kind: Kind, what: str, at: int) -> None:
    """Raise SqlError for a type that no key has: the entries of a map have no order."""
    if kind.name == "MAP" or has_map_inside(kind):
        raise SqlError(f"{what}: a key can't be a {kind} here", at)


def comparable(of: Sql) -> Sql:
    """Return a value as Spark can compare it: of a map its entries, in order."""
    return of if of.kind.name != "MAP" else Sql(f"array_sort(map_entries({of.text}))", of.kind)
