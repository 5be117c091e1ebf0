"""Expressions, types and names out of lark's tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from lark import Token, Tree

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.likely import meant_type
from lakehouse.plan.names.field import column_name
from lakehouse.plan.schema import check_name

BIGINT_MAX = 2**63 - 1
DIGITS_MAX = 19  # a BIGINT has no more
TYPE_DEPTH_MAX, TYPE_SIZE_MAX = 50, 5_000
Part = Any  # a Tree or a Token; their contents are the grammar's


def at_of(part: Part) -> int:
    """Return where a part of the tree begins in the statement."""
    place = part.start_pos if isinstance(part, Token) else getattr(part.meta, "start_pos", 0)
    return int(place or 0)


def text_of(token: Part) -> str:
    """Return the text in a quoted literal."""
    return str(token)[1:-1].replace("''", "'")


def name_of(part: Part) -> str:
    """Return a name: in upper case without quotes, as it is in them. What no column can be called is escaped."""
    token = part
    while not isinstance(token, Token):
        token = token.children[0]
    if token.type != "QUOTED":
        return column_name(str(token).upper())
    quote = token[0]
    return column_name(str(token)[1:-1].replace(quote * 2, quote))


class ExpressionReader:
    """Reads expressions. types: those that CREATE TYPE has made."""

    def __init__(self, types: Mapping[str, Kind]) -> None:
        self.types = types

    def expression(self, part: Part) -> t.Expr:
        """Return an expression."""
        read: Callable[[Part, int], t.Expr] = getattr(self, f"_{part.data}".rstrip("_"))
        return read(part, at_of(part))

    def _all(self, parts: list[Part]) -> tuple[t.Expr, ...]:
        return tuple(self.expression(part) for part in parts if isinstance(part, Tree))

    def _any_of(self, part: Part, at: int) -> t.Expr:
        items = self._all(part.children)
        return items[0] if len(items) == 1 else t.Junction("OR", items, at=at)

    def _all_of(self, part: Part, at: int) -> t.Expr:
        items = self._all(part.children)
        return items[0] if len(items) == 1 else t.Junction("AND", items, at=at)

    def _not(self, part: Part, at: int) -> t.Expr:
        return t.Not(self.expression(part.children[-1]), at=at)

    def _compare(self, part: Part, at: int) -> t.Expr:
        left, sign, right = part.children
        word = str(sign.children[0]).replace("!=", "<>")
        return t.Binary(word, self.expression(left), self.expression(right), at=at)

    def _is_null(self, part: Part, at: int) -> t.Expr:
        return t.IsNull(self.expression(part.children[0]), _negated(part), at=at)

    def _distinct(self, part: Part, at: int) -> t.Expr:
        left, right = self._all(part.children)
        return t.Distinct(left, right, _negated(part), at=at)

    def _between(self, part: Part, at: int) -> t.Expr:
        of, low, high = self._all(part.children)
        return t.Between(of, low, high, _negated(part), at=at)

    def _in(self, part: Part, at: int) -> t.Expr:
        of, *items = self._all(part.children)
        return t.In(of, tuple(items), _negated(part), at=at)

    def _like(self, part: Part, at: int) -> t.Expr:
        escapes = [c for c in part.children if isinstance(c, Tree) and c.data == "escape"]
        of, pattern = self._all([c for c in part.children if c not in escapes])
        escape = text_of(escapes[0].children[0]) if escapes else None
        if escape is not None and len(escape) != 1:
            raise SqlError("ESCAPE takes one character", at_of(escapes[0]), found=repr(escape))
        return t.Like(of, pattern, escape, _negated(part), at=at)

    def _binary(self, part: Part, at: int) -> t.Expr:
        left, sign, right = part.children
        word = str(sign if isinstance(sign, Token) else sign.children[0])
        return t.Binary(word, self.expression(left), self.expression(right), at=at)

    def _sign(self, part: Part, at: int) -> t.Expr:
        sign, inner = str(part.children[0]), part.children[1]
        if sign == "-" and inner.data == "integer":
            return t.Value(_bigint(f"-{inner.children[0]}", at), at=at)
        of = self.expression(inner)
        if isinstance(of, t.Value) and isinstance(of.value, int | float | Decimal) and not isinstance(of.value, bool):
            return t.Value(_minus(of.value) if sign == "-" else of.value, at=at)
        return t.Sign(sign, of, at=at)

    def _integer(self, part: Part, at: int) -> t.Expr:
        return t.Value(_bigint(str(part.children[0]), at), at=at)

    def _decimal(self, part: Part, at: int) -> t.Expr:
        value = Decimal(str(part.children[0]))
        if len(value.as_tuple().digits) > k.DIGITS_MAX:
            raise SqlError(f"a DECIMAL has at most {k.DIGITS_MAX} digits", at)
        return t.Value(value, at=at)

    def _double(self, part: Part, at: int) -> t.Expr:
        value = float(part.children[0])
        if math.isinf(value):
            raise SqlError(f"a number beyond the largest DOUBLE: {part.children[0]}", at)
        return t.Value(value, at=at)

    def _string(self, part: Part, at: int) -> t.Expr:
        return t.Value(text_of(part.children[0]), at=at)

    def _true(self, part: Part, at: int) -> t.Expr:
        return t.Value(True, at=at)

    def _false(self, part: Part, at: int) -> t.Expr:
        return t.Value(False, at=at)

    def _null(self, part: Part, at: int) -> t.Expr:
        return t.Value(None, at=at)

    def _column(self, part: Part, at: int) -> t.Expr:
        *of, name = map(name_of, part.children)
        if name in ("WINDOWSTART", "WINDOWEND"):  # a query has one window, whatever source they are given with
            of = []
        return t.Name(name, of[0] if of else None, at=at)

    def _call(self, part: Part, at: int) -> t.Expr:
        name, *arguments = part.children
        return t.Call(name_of(name), self._all(arguments), at=at)

    def _call_all(self, part: Part, at: int) -> t.Expr:
        return t.Call(name_of(part.children[0]), every=True, at=at)

    def _group(self, part: Part, at: int) -> t.Expr:
        items = self._all(part.children)
        if len(items) > 1:
            raise SqlError("several expressions stand in parentheses where one is expected", items[1].at)
        return items[0]

    def _lambda(self, part: Part, at: int) -> t.Expr:
        given, body = part.children
        names = []
        parts = given.children if given.data == "group" else [given]
        for one in parts:
            column = self.expression(one)
            if not isinstance(column, t.Name) or column.of is not None:
                raise SqlError("names are expected before =>, such as x => x + 1 or (x, y) => x + y", at)
            names.append(column.name)
        if len(set(names)) != len(names):
            raise SqlError("the names before => must be different", at)
        return t.Lambda(tuple(names), self.expression(body), at=at)

    def _field(self, part: Part, at: int) -> t.Expr:
        of, name = part.children
        return t.FieldOf(self.expression(of), name_of(name), at=at)

    def _all_fields(self, part: Part, at: int) -> t.Expr:
        return t.FieldOf(self.expression(part.children[0]), None, at=at)

    def _element(self, part: Part, at: int) -> t.Expr:
        of, index = self._all(part.children)
        return t.ElementOf(of, index, at=at)

    def _case(self, part: Part, at: int) -> t.Expr:
        return self._cases(None, part.children, at)

    def _case_of(self, part: Part, at: int) -> t.Expr:
        return self._cases(self.expression(part.children[0]), part.children[1:], at)

    def _cases(self, of: t.Expr | None, parts: list[Part], at: int) -> t.Expr:
        branches = [self._all(part.children) for part in parts if part.data == "branch"]
        defaults = [self.expression(part.children[0]) for part in parts if part.data == "default"]
        return t.CaseOf(of, tuple((when, then) for when, then in branches), defaults[0] if defaults else None, at=at)

    def _cast(self, part: Part, at: int) -> t.Expr:
        return t.Cast(self.expression(part.children[0]), self.kind(part.children[1]), at=at)

    def _array(self, part: Part, at: int) -> t.Expr:
        return t.ArrayOf(self._all(part.children), at=at)

    def _map(self, part: Part, at: int) -> t.Expr:
        pairs = [self._all(pair.children) for pair in part.children]
        return t.MapOf(tuple((key, value) for key, value in pairs), at=at)

    def _struct(self, part: Part, at: int) -> t.Expr:
        members = [(name_of(m.children[0]), self.expression(m.children[1])) for m in part.children]
        _check_names([name for name, _ in members], at)
        return t.StructOf(tuple(members), at=at)

    def kind(self, part: Part) -> Kind:
        """Return a type. Raises SqlError for one that does not exist, or is made of too many others."""
        kind = self._kind(part, 0)
        if kind.size > TYPE_SIZE_MAX:  # types of types of CREATE TYPE grow by powers
            raise SqlError(f"a type is made of at most {TYPE_SIZE_MAX} others", at_of(part), found=str(kind.size))
        return kind

    def _kind(self, part: Part, depth: int) -> Kind:
        if depth > TYPE_DEPTH_MAX:
            raise SqlError(f"types stand at most {TYPE_DEPTH_MAX} deep in each other", at_of(part))
        inner = [self._kind(c, depth + 1) for c in part.children if isinstance(c, Tree) and c.data.endswith("_type")]
        match part.data:
            case "array_type":
                return k.array(inner[0])
            case "map_type":
                return k.map_of(*inner)
            case "struct_type":
                members = [(name_of(m.children[0]), self._kind(m.children[1], depth + 1)) for m in part.children]
                _check_names([name for name, _ in members], at_of(part))
                return k.struct(dict(members))
        name, *digits = part.children
        if part.data == "twice_named_type":  # VARCHAR(STRING), as ksqlDB shows types
            kind, again = (self._plain_kind(word, [], at_of(part)) for word in (name_of(name), str(digits[0]).upper()))
            if kind != again:
                raise SqlError(f"{kind} has no length of {again}", at_of(part))
            return kind
        return self._plain_kind(name_of(name), [_digits(d) for d in digits], at_of(part))

    def _plain_kind(self, word: str, digits: list[int], at: int) -> Kind:
        name = k.OTHER_NAMES.get(word, word)
        if name == "DECIMAL":
            precision, scale = digits if len(digits) == 2 else (*digits, 0) if digits else (10, 0)
            if not (1 <= precision <= k.DIGITS_MAX and 0 <= scale <= precision):
                raise SqlError(
                    "DECIMAL(precision, scale) has a precision from 1 to 38, and a scale up to it", at,
                    found=f"DECIMAL({precision}, {scale})",
                )  # fmt: skip
            return k.decimal(precision, scale)
        if word in self.types:
            return self.types[word]
        if name not in k.SPARK or name == "NULL":
            known = [*k.SPARK, *k.OTHER_NAMES, "ARRAY", "MAP", "STRUCT", *self.types]
            raise SqlError(f"unknown type {word}.{meant_type(word, known)}".rstrip("."), at, expected=", ".join(known))
        return Kind(name)


def _bigint(text: str, at: int) -> int:
    if len(text.lstrip("-0")) > DIGITS_MAX or not -BIGINT_MAX - 1 <= int(text) <= BIGINT_MAX:
        raise SqlError(f"{text[:40]} is larger than a BIGINT, which ends at {BIGINT_MAX}", at)
    return int(text)


def _digits(token: Part) -> int:
    if len(token) > DIGITS_MAX:
        raise SqlError("expected a shorter number", at_of(token), found=str(token))
    return int(token)


def _minus(number: float | Decimal) -> float | Decimal:
    """A number below zero; Python's own minus rounds a Decimal to 28 digits."""
    return number.copy_negate() if isinstance(number, Decimal) and number else -number


def _negated(part: Part) -> bool:
    return any(isinstance(child, Token) and child.type == "NOT" for child in part.children)


def _check_names(names: list[str], at: int) -> None:
    for name in names:
        try:
            check_name(name, "field")
        except PlanError as error:
            raise SqlError(str(error), at) from None
        if names.count(name) > 1:
            raise SqlError(f"the field {name} is named twice", at)
