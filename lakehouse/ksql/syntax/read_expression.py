"""Read expressions, types and names from lark's tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from lark import Token, Tree

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.hints import likely_type
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan.expression.schema import check_name
from lakehouse.plan.names.field import column_name
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX
from lakehouse.semantics.surrogates import replace_surrogates

BIGINT_MAX = 2**63 - 1
DIGITS_MAX = 19  # a BIGINT has no more
TYPE_DEPTH_MAX, TYPE_SIZE_MAX = 50, 5_000
Part = Any  # a Tree or a Token; their contents are the grammar's


def position_of(part: Part) -> int:
    """Return the place in the statement at which a part of the tree begins."""
    start_position = part.start_pos if isinstance(part, Token) else getattr(part.meta, "start_pos", 0)
    return int(start_position or 0)


def text_of(token: Part) -> str:
    """Return the text in a quoted literal. Half of a surrogate pair is ?, as Java writes it."""
    return replace_surrogates(str(token)[1:-1].replace("''", "'"))


def name_of(part: Part) -> str:
    """Return a name: in upper case if unquoted, else as written. A name that no column can have is escaped."""
    name = written_name(part)
    return column_name(name if _name_token(part).type == "QUOTED" else name.upper())


def written_name(part: Part) -> str:
    """Return a name as it is written, without quotes around it."""
    name_token = _name_token(part)
    if name_token.type != "QUOTED":
        return str(name_token)
    quote_mark = name_token[0]
    return str(name_token)[1:-1].replace(quote_mark * 2, quote_mark)


def _name_token(part: Part) -> Token:
    while not isinstance(part, Token):
        part = part.children[0]
    return part


class ExpressionReader:
    """A reader of expressions. types: those that CREATE TYPE has declared."""

    def __init__(self, types: Mapping[str, Kind]) -> None:
        self.types = types

    def expression(self, part: Part) -> t.Expr:
        """Return an expression."""
        read_part: Callable[[Part, int], t.Expr] = getattr(self, f"_read_{part.data}".rstrip("_"))
        return read_part(part, position_of(part))

    def _all(self, parts: list[Part]) -> tuple[t.Expr, ...]:
        return tuple(self.expression(part) for part in parts if isinstance(part, Tree))

    def _read_any_of(self, part: Part, position: int) -> t.Expr:
        items = self._all(part.children)
        return items[0] if len(items) == 1 else t.Junction("OR", items, position=position)

    def _read_all_of(self, part: Part, position: int) -> t.Expr:
        items = self._all(part.children)
        return items[0] if len(items) == 1 else t.Junction("AND", items, position=position)

    def _read_not(self, part: Part, position: int) -> t.Expr:
        return t.Not(self.expression(part.children[-1]), position=position)

    def _read_compare(self, part: Part, position: int) -> t.Expr:
        left, sign, right = part.children
        word = str(sign.children[0]).replace("!=", "<>")
        return t.Binary(word, self.expression(left), self.expression(right), position=position)

    def _read_is_null(self, part: Part, position: int) -> t.Expr:
        return t.IsNull(self.expression(part.children[0]), _has_not(part), position=position)

    def _read_distinct(self, part: Part, position: int) -> t.Expr:
        left, right = self._all(part.children)
        return t.Distinct(left, right, _has_not(part), position=position)

    def _read_between(self, part: Part, position: int) -> t.Expr:
        operand, low, high = self._all(part.children)
        return t.Between(operand, low, high, _has_not(part), position=position)

    def _read_in(self, part: Part, position: int) -> t.Expr:
        operand, *items = self._all(part.children)
        return t.In(operand, tuple(items), _has_not(part), position=position)

    def _read_like(self, part: Part, position: int) -> t.Expr:
        escapes = [child for child in part.children if isinstance(child, Tree) and child.data == "escape"]
        operand, pattern = self._all([child for child in part.children if child not in escapes])
        escape_text = text_of(escapes[0].children[0]) if escapes else None
        if escape_text is not None and len(escape_text) != 1:
            raise SqlError("ESCAPE takes one character", position_of(escapes[0]), found=repr(escape_text))
        return t.Like(operand, pattern, escape_text, _has_not(part), position=position)

    def _read_binary(self, part: Part, position: int) -> t.Expr:
        left, sign, right = part.children
        word = str(sign if isinstance(sign, Token) else sign.children[0])
        return t.Binary(word, self.expression(left), self.expression(right), position=position)

    def _read_sign(self, part: Part, position: int) -> t.Expr:
        sign, inner_part = str(part.children[0]), part.children[1]
        if sign == "-" and inner_part.data == "integer":
            return t.Value(_parse_bigint(f"-{inner_part.children[0]}", position), position=position)
        operand = self.expression(inner_part)
        if (
            isinstance(operand, t.Value)
            and isinstance(operand.value, int | float | Decimal)
            and not isinstance(operand.value, bool)
        ):
            return t.Value(_minus(operand.value) if sign == "-" else operand.value, position=position)
        return t.Sign(sign, operand, position=position)

    def _read_integer(self, part: Part, position: int) -> t.Expr:
        return t.Value(_parse_bigint(str(part.children[0]), position), position=position)

    def _read_decimal(self, part: Part, position: int) -> t.Expr:
        value = Decimal(str(part.children[0]))
        if max(len(value.as_tuple().digits), -int(value.as_tuple().exponent)) > DECIMAL_DIGITS_MAX:
            raise SqlError(f"a DECIMAL has at most {DECIMAL_DIGITS_MAX} digits", position)
        return t.Value(value, position=position)

    def _read_double(self, part: Part, position: int) -> t.Expr:
        value = float(part.children[0])
        if math.isinf(value):
            raise SqlError(f"a number beyond the largest DOUBLE: {part.children[0]}", position)
        return t.Value(value, position=position)

    def _read_string(self, part: Part, position: int) -> t.Expr:
        return t.Value(text_of(part.children[0]), position=position)

    def _read_true(self, part: Part, position: int) -> t.Expr:
        return t.Value(True, position=position)

    def _read_false(self, part: Part, position: int) -> t.Expr:
        return t.Value(False, position=position)

    def _read_null(self, part: Part, position: int) -> t.Expr:
        return t.Value(None, position=position)

    def _read_column(self, part: Part, position: int) -> t.Expr:
        *source_names, name = map(name_of, part.children)
        if name in ("WINDOWSTART", "WINDOWEND"):  # a query has one window, whatever source qualifies them
            source_names = []
        return t.Name(name, source_names[0] if source_names else None, position=position)

    def _read_call(self, part: Part, position: int) -> t.Expr:
        name, *arguments = part.children
        return t.Call(name_of(name), self._all(arguments), position=position)

    def _read_call_all(self, part: Part, position: int) -> t.Expr:
        return t.Call(name_of(part.children[0]), every=True, position=position)

    def _read_group(self, part: Part, position: int) -> t.Expr:
        items = self._all(part.children)
        if len(items) > 1:
            raise SqlError("several expressions stand in parentheses where one is expected", items[1].position)
        return items[0]

    def _read_lambda(self, part: Part, position: int) -> t.Expr:
        name_part, body_part = part.children
        lambda_names = []
        name_parts = name_part.children if name_part.data == "group" else [name_part]
        for name_node in name_parts:
            name_value = self.expression(name_node)
            if not isinstance(name_value, t.Name) or name_value.source is not None:
                raise SqlError("names are expected before =>, such as x => x + 1 or (x, y) => x + y", position)
            lambda_names.append(name_value.name)
        if len(set(lambda_names)) != len(lambda_names):
            raise SqlError("the names before => must be different", position)
        return t.Lambda(tuple(lambda_names), self.expression(body_part), position=position)

    def _read_field(self, part: Part, position: int) -> t.Expr:
        struct_part, name_part = part.children
        return t.FieldOf(self.expression(struct_part), name_of(name_part), position=position)

    def _read_all_fields(self, part: Part, position: int) -> t.Expr:
        return t.FieldOf(self.expression(part.children[0]), None, position=position)

    def _read_element(self, part: Part, position: int) -> t.Expr:
        container, index = self._all(part.children)
        return t.ElementOf(container, index, position=position)

    def _read_case(self, part: Part, position: int) -> t.Expr:
        return self._case_branches(None, part.children, position)

    def _read_case_of(self, part: Part, position: int) -> t.Expr:
        return self._case_branches(self.expression(part.children[0]), part.children[1:], position)

    def _case_branches(self, compared: t.Expr | None, parts: list[Part], position: int) -> t.Expr:
        branches = [self._all(part.children) for part in parts if part.data == "branch"]
        defaults = [self.expression(part.children[0]) for part in parts if part.data == "default"]
        return t.CaseOf(
            compared,
            tuple((branch_condition, branch_value) for branch_condition, branch_value in branches),
            defaults[0] if defaults else None,
            position=position,
        )

    def _read_cast(self, part: Part, position: int) -> t.Expr:
        return t.Cast(self.expression(part.children[0]), self.kind(part.children[1]), position=position)

    def _read_array(self, part: Part, position: int) -> t.Expr:
        return t.ArrayOf(self._all(part.children), position=position)

    def _read_map(self, part: Part, position: int) -> t.Expr:
        pairs = [self._all(pair.children) for pair in part.children]
        return t.MapOf(tuple((key, value) for key, value in pairs), position=position)

    def _read_struct(self, part: Part, position: int) -> t.Expr:
        members = [(name_of(member.children[0]), self.expression(member.children[1])) for member in part.children]
        _check_names([name for name, _ in members], position)
        return t.StructOf(tuple(members), position=position)

    def kind(self, part: Part) -> Kind:
        """Return a type. Raises SqlError for a type that does not exist, or consists of too many others."""
        kind = self._kind(part, 0)
        if kind.size > TYPE_SIZE_MAX:  # types made of other CREATE TYPEs grow exponentially
            raise SqlError(f"a type is made of at most {TYPE_SIZE_MAX} others", position_of(part), found=str(kind.size))
        return kind

    def _kind(self, part: Part, depth: int) -> Kind:
        if depth > TYPE_DEPTH_MAX:
            raise SqlError(f"types stand at most {TYPE_DEPTH_MAX} deep in each other", position_of(part))
        inner_kinds = [
            self._kind(child, depth + 1)
            for child in part.children
            if isinstance(child, Tree) and child.data.endswith("_type")
        ]
        match part.data:
            case "array_type":
                return k.array_of(inner_kinds[0])
            case "map_type":
                return k.map_of(*inner_kinds)
            case "struct_type":
                members = [
                    (name_of(member.children[0]), self._kind(member.children[1], depth + 1)) for member in part.children
                ]
                _check_names([name_part for name_part, _ in members], position_of(part))
                return k.struct_of(dict(members))
        name_part, *digits = part.children
        if part.data == "twice_named_type":  # VARCHAR(STRING), as ksqlDB shows types
            kind, repeated_kind = (
                self._plain_kind(word, [], position_of(part)) for word in (name_of(name_part), str(digits[0]).upper())
            )
            if kind != repeated_kind:
                raise SqlError(f"{kind} has no length of {repeated_kind}", position_of(part))
            return kind
        return self._plain_kind(
            name_of(name_part), [_parse_digits(digit_token) for digit_token in digits], position_of(part)
        )

    def _plain_kind(self, word: str, digits: list[int], position: int) -> Kind:
        type_name = k.OTHER_NAMES.get(word, word)
        if type_name == "DECIMAL":
            precision, scale = digits if len(digits) == 2 else (*digits, 0) if digits else (10, 0)
            if not (1 <= precision <= DECIMAL_DIGITS_MAX and 0 <= scale <= precision):
                raise SqlError(
                    f"DECIMAL(precision, scale) has a precision from 1 to {DECIMAL_DIGITS_MAX}, and a scale up to it",
                    position,
                    found=f"DECIMAL({precision}, {scale})",
                )
            return k.decimal_of(precision, scale)
        if word in self.types:
            return self.types[word]
        if type_name not in k.SPARK or type_name == "NULL":
            known_types = [*(name for name in k.SPARK if name != "NULL"), *k.OTHER_NAMES]
            known_types += ["DECIMAL", "ARRAY", "MAP", "STRUCT", *self.types]
            raise SqlError(
                f"unknown type {word}.{likely_type(word, known_types)}".rstrip("."),
                position,
                expected=", ".join(known_types),
            )
        return Kind(type_name)


def _parse_bigint(text: str, position: int) -> int:
    if len(text.lstrip("-0")) > DIGITS_MAX or not -BIGINT_MAX - 1 <= int(text) <= BIGINT_MAX:
        raise SqlError(f"{text[:40]} is larger than a BIGINT, which ends at {BIGINT_MAX}", position)
    return int(text)


def _parse_digits(token: Part) -> int:
    if len(token) > DIGITS_MAX:
        raise SqlError("expected a shorter number", position_of(token), found=str(token))
    return int(token)


def _minus(number: float | Decimal) -> float | Decimal:
    """Return the negative number; Python's own minus rounds a Decimal to 28 digits."""
    return number.copy_negate() if isinstance(number, Decimal) and number else -number


def _has_not(part: Part) -> bool:
    return any(isinstance(child, Token) and child.type == "NOT" for child in part.children)


def _check_names(names: list[str], position: int) -> None:
    for name in names:
        try:
            check_name(name, "field")
        except PlanError as error:
            raise SqlError(str(error), position) from None
        if names.count(name) > 1:
            raise SqlError(f"the field {name} is named twice", position)
