"""Common types of values: the items of ARRAY, MAP and IN, and the values of a comparison."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from lakehouse.errors import SqlError
from lakehouse.ksql.expression.cast import cast
from lakehouse.ksql.function.basic import comparable, has_map
from lakehouse.ksql.function.moment_literal import moment_literal
from lakehouse.ksql.function.sql import Sql, literal_sql
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.semantics.blanks import JAVA_BLANKS
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX

_TRUE = ("true", "tru", "tr", "t", "yes", "ye", "y")
# What Python reads in a number, and Java does not.
_NO_DIGIT = re.compile("[_\U00010000-\U0010ffff]")
_FALSE = ("false", "fals", "fal", "fa", "f", "no", "n")


def coerce_list(nodes: Sequence[t.Expr], compile_node: Callable[[t.Expr], Sql], position: int) -> list[Sql]:
    """Return the values of a list, its literals converted to the type of the others. Raises SqlError.

    The first value that is not null leads: literals beside it take its type (a number, true or false, or a text), also
    inside of ARRAY[...], MAP(...) and STRUCT(...). compile_node: called with an expression; gives its Spark SQL.
    """
    values = [*map(compile_node, nodes)]
    leading_value = next((value for value in values if not value.kind.is_null), None)
    if leading_value is None:
        return values
    coerced_nodes = [coerce_literal(node, leading_value.kind) for node in nodes]
    # Compile again only where something has changed: lists may be nested deeply.
    coerced_values = (
        value if coerced_node == node else compile_node(coerced_node)
        for value, coerced_node, node in zip(values, coerced_nodes, nodes, strict=True)
    )
    return [_moment_value(value, leading_value.kind, position) for value in coerced_values]


def coerce_literal(node: t.Expr, kind: Kind) -> t.Expr:
    """Return an expression with its literals converted to a type where that is possible."""
    match node:
        case t.Value(value=str() as text) if kind.is_number:
            return replace(node, value=_parse_literal_number(text, kind, node.position))
        case t.Value(value=str() as text) if kind == k.BOOLEAN:
            return replace(node, value=_parse_boolean(text, node.position))
        case t.Value(value=bool() | int() | float() | Decimal()) if kind == k.STRING:
            return replace(node, value=_literal_text(node))
        case t.ArrayOf() if kind.name == "ARRAY":
            return replace(node, items=tuple(coerce_literal(item, kind.inner[0]) for item in node.items))
        case t.MapOf() if kind.name == "MAP":
            pairs = (tuple(map(coerce_literal, pair, kind.inner)) for pair in node.pairs)
            return replace(node, pairs=tuple((key, value) for key, value in pairs))
        case t.StructOf() if kind.name == "STRUCT":
            kinds_by_name = dict(zip(kind.names, kind.inner, strict=True))
            members = (
                (name, coerce_literal(member_value, kinds_by_name[name]) if name in kinds_by_name else member_value)
                for name, member_value in node.members
            )
            return replace(node, members=tuple(members))
    return node


def _literal_text(node: t.Value) -> str:
    literal_sql_text = literal_sql(node.value)
    return literal_sql_text.text if literal_sql_text.literal is None else literal_sql_text.literal


def _parse_literal_number(text: str, kind: Kind, position: int) -> int | Decimal:
    try:
        if _NO_DIGIT.search(text):
            raise InvalidOperation
        value = Decimal(text.strip(JAVA_BLANKS))
    except InvalidOperation:
        raise SqlError(f"invalid input syntax for type {kind}: {text!r}", position) from None
    if not value.is_finite() or max(value.adjusted(), -int(value.as_tuple().exponent) - 1) >= DECIMAL_DIGITS_MAX:
        raise SqlError(f"invalid input syntax for type {kind}: {text!r}", position)
    is_whole = value == value.to_integral_value() and "." not in text
    return int(value) if is_whole else value


def _parse_boolean(text: str, position: int) -> bool:
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise SqlError(f"invalid input syntax for type BOOLEAN: {text!r}", position)
    return word in _TRUE


def _moment_value(value: Sql, kind: Kind, position: int) -> Sql:
    """Return a text literal beside a moment as a moment; other values as they are."""
    is_text = value.kind == k.STRING and value.literal is not None
    return moment_literal(str(value.literal), kind, position) if is_text and kind.name in k.MOMENTS else value


def common_list_kind(kinds: Sequence[Kind]) -> Kind | None:
    """Return the common type of a list's values, None if there is none; for structs it has all their fields."""
    distinct_kinds = list(dict.fromkeys(kind for kind in kinds if not kind.is_null))
    if len(distinct_kinds) < 2 or {kind.name for kind in distinct_kinds} not in ({"ARRAY"}, {"MAP"}, {"STRUCT"}):
        return k.common_kind(distinct_kinds)
    if distinct_kinds[0].name == "STRUCT":
        field_names = dict.fromkeys(name for kind in distinct_kinds for name in kind.names)
        field_kinds = [[dict(zip(kind.names, kind.inner, strict=True)).get(name, k.NULL) for kind in distinct_kinds]
                  for name in field_names]  # fmt: skip
    else:
        field_kinds = [list(inner_kinds) for inner_kinds in zip(*(kind.inner for kind in distinct_kinds), strict=True)]
    common_kinds = [common_list_kind(kind_group) for kind_group in field_kinds]
    inner_kinds = tuple(common_kind for common_kind in common_kinds if common_kind is not None)
    if len(inner_kinds) < len(field_kinds):
        return None
    return replace(
        distinct_kinds[0], inner=inner_kinds, names=tuple(field_names) if distinct_kinds[0].name == "STRUCT" else ()
    )


def require_common_kind(items: list[Sql], subject: str, position: int) -> Kind:
    """Return the common type of values. Raises SqlError if there is none."""
    kind = common_list_kind([item.kind for item in items])
    if kind is None or not items:
        kind_texts = ", ".join(dict.fromkeys(str(item.kind) for item in items)) or "nothing"
        raise SqlError(f"{subject} needs values of one type, found {kind_texts}", position)
    if kind.is_null:
        raise SqlError(f"{subject} needs a value that is not NULL. Give a NULL a type: CAST(NULL AS ...)", position)
    return kind


def cast_to_kind(value: Sql, kind: Kind, position: int) -> Sql:
    """Return a value, cast to a list's type if it has another."""
    return value if value.kind in (kind, k.NULL) else cast(value, kind, position)


def check_key_type(kind: Kind, subject: str, position: int) -> None:
    """Raise SqlError for a type that a key can't have: a map's entries have no order, a field of NULL has no type."""
    if kind.has_null and not kind.is_null:
        raise SqlError(f"{subject}: can't infer a type of NULL in {kind}. Give it one: CAST(NULL AS VARCHAR)", position)
    if has_map(kind):
        raise SqlError(f"{subject}: a key can't be a {kind} here", position)


def comparable_value(value: Sql) -> Sql:
    """Return a value in a form that Spark can compare."""
    return Sql(comparable(value.text, value.kind), value.kind) if has_map(value.kind) else value
