"""Lists of values that have one type together: those of ARRAY, MAP and IN; and values as they are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from lakehouse.errors import SqlError
from lakehouse.ksql.cast import cast
from lakehouse.ksql.function.moment_literal import moment_literal
from lakehouse.ksql.function.sql import Sql, literal
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.kind import Kind

_TRUE = ("true", "tru", "tr", "t", "yes", "ye", "y")
_FALSE = ("false", "fals", "fal", "fa", "f", "no", "n")


def coerced(nodes: Sequence[t.Expr], sql: Callable[[t.Expr], Sql], at: int) -> list[Sql]:
    """Return the values of a list. Raises SqlError.

    The first one that is not null leads: literals beside it are what it is, a number, true or false, or a text, also
    inside of ARRAY[...], MAP(...) and STRUCT(...). sql: what an expression is in Spark SQL.
    """
    made = [*map(sql, nodes)]
    first = next((of for of in made if not of.kind.is_null), None)
    if first is None:
        return made
    alike = [_alike(node, first.kind) for node in nodes]
    # Compiled again only where something has changed: lists may be deep in each other.
    again = (of if one == node else sql(one) for of, one, node in zip(made, alike, nodes, strict=True))
    return [_moment(of, first.kind, at) for of in again]


def _alike(node: t.Expr, kind: Kind) -> t.Expr:
    """An expression whose literals are of a type, where they are of another one and can be."""
    match node:
        case t.Value(value=str() as text) if kind.is_number:
            return replace(node, value=_number(text, kind, node.at))
        case t.Value(value=str() as text) if kind == k.BOOLEAN:
            return replace(node, value=_boolean(text, node.at))
        case t.Value(value=bool() | int() | float() | Decimal()) if kind == k.STRING:
            return replace(node, value=_shown(node))
        case t.ArrayOf() if kind.name == "ARRAY":
            return replace(node, items=tuple(_alike(item, kind.inner[0]) for item in node.items))
        case t.MapOf() if kind.name == "MAP":
            pairs = (tuple(map(_alike, pair, kind.inner)) for pair in node.pairs)
            return replace(node, pairs=tuple((key, value) for key, value in pairs))
        case t.StructOf() if kind.name == "STRUCT":
            kinds = dict(zip(kind.names, kind.inner, strict=True))
            members = ((name, _alike(of, kinds[name]) if name in kinds else of) for name, of in node.members)
            return replace(node, members=tuple(members))
    return node


def _shown(node: t.Value) -> str:
    made = literal(node.value)
    return made.text if made.literal is None else made.literal


def _number(text: str, kind: Kind, at: int) -> int | Decimal:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        raise SqlError(f"invalid input syntax for type {kind}: {text!r}", at) from None
    if not value.is_finite() or value.adjusted() >= k.DIGITS_MAX:
        raise SqlError(f"invalid input syntax for type {kind}: {text!r}", at)
    whole = value == value.to_integral_value() and "." not in text
    return int(value) if whole else value


def _boolean(text: str, at: int) -> bool:
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise SqlError(f"invalid input syntax for type BOOLEAN: {text!r}", at)
    return word in _TRUE


def _moment(of: Sql, kind: Kind, at: int) -> Sql:
    """A text in quotes beside a moment is one, too."""
    is_text = of.kind == k.STRING and of.literal is not None
    return moment_literal(str(of.literal), kind, at) if is_text and kind.name in k.MOMENTS else of


def together(kinds: Sequence[Kind]) -> Kind | None:
    """Return the type that the values of a list have together: of structs all their fields; None if there is none."""
    known = list(dict.fromkeys(kind for kind in kinds if not kind.is_null))
    if len(known) < 2 or {kind.name for kind in known} not in ({"ARRAY"}, {"MAP"}, {"STRUCT"}):
        return k.common(known)
    if known[0].name == "STRUCT":
        names = dict.fromkeys(name for kind in known for name in kind.names)
        fields = [[dict(zip(kind.names, kind.inner, strict=True)).get(name, k.NULL) for kind in known]
                  for name in names]  # fmt: skip
    else:
        fields = [list(inner) for inner in zip(*(kind.inner for kind in known), strict=True)]
    found = [together(of) for of in fields]
    inner = tuple(one for one in found if one is not None)
    if len(inner) < len(fields):
        return None
    return replace(known[0], inner=inner, names=tuple(names) if known[0].name == "STRUCT" else ())


def common(items: list[Sql], what: str, at: int) -> Kind:
    """Return the type that values have together; SqlError if there is none."""
    kind = together([of.kind for of in items])
    if kind is None or not items:
        kinds = ", ".join(dict.fromkeys(str(of.kind) for of in items)) or "nothing"
        raise SqlError(f"{what} needs values of one type, found {kinds}", at)
    if kind.is_null:
        raise SqlError(f"{what} needs a value that is not NULL. Give a NULL a type: CAST(NULL AS ...)", at)
    return kind


def fitted(of: Sql, kind: Kind, at: int) -> Sql:
    """Return a value as one of the type that a list has."""
    return of if of.kind in (kind, k.NULL) else cast(of, kind, at)


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
