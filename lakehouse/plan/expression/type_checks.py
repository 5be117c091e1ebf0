"""Refuse comparisons that an expression may not make, and moments that it may not read, by the types of its columns.

An unknown type is accepted; Spark checks all expressions before the first tick (`lakehouse.spark.table.checked`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.typing import EXPRESSION_METADATA

from lakehouse.errors import ExpressionError
from lakehouse.plan.expression.schema import PSEUDO_COLUMNS, Column, find_field
from lakehouse.plan.refused.casts import check_cast
from lakehouse.plan.refused.constants import is_readable
from lakehouse.plan.refused.types import check_cast_type
from lakehouse.plan.spark_functions.record import word_set
from lakehouse.plan.spark_functions.table import function_named
from lakehouse.plan.written.parse import OTHER_ARGUMENTS, SQLGLOT_FAULTS, name_of_call
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX

COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|nan|inf|infinity)\s*", re.IGNORECASE)
# Texts that Spark reads as a moment relative to the present: words, and times without a day.
CLOCK_TEXT = re.compile(r"\s*((now|today|tomorrow|yesterday)\b.*|t?\s*\d{1,2}:.*)", re.IGNORECASE | re.DOTALL)
# sqlglot's names of parsers of moments; the others are casts.
TIME_FUNCTIONS = word_set(
    """
    convert_timezone date_part datediff datepart day dayname extract hour last_day minute month monthname
    months_between quarter second time_str_to_time timestamp_add timestamp_trunc timestampdiff to_timestamp_ltz
    to_timestamp_ntz try_to_timestamp ts_or_ds_to_date unix_date unix_micros unix_millis unix_seconds weekday
    year
    """
)
TIMESTAMP = re.compile(r"\btimestamp(_ltz)?\b", re.IGNORECASE)
# Functions that convert a text and a moment to one type.
ONE_OF_MANY = (exp.Coalesce, exp.If, exp.Case, exp.Nvl2, exp.Nullif)
# sqlglot widens the result type of these, an INT to a BIGINT; Spark does not.
_SPARK: dict[type[exp.Expr], dict[str, Any]] = Dialect.get_or_raise("spark").EXPRESSION_METADATA
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1


def _annotate_number(annotator: Any, node: exp.Expr) -> None:
    """Give a literal its type: to sqlglot each whole number is an INT, to Spark a long one is a BIGINT or a DECIMAL."""
    _SPARK[type(node)]["annotator"](annotator, node)
    literal, most = (node.this, 1) if isinstance(node, exp.Neg) else (node, 0)  # -2147483648 is one INT to Spark
    if not isinstance(literal, exp.Literal) or literal.is_string or not literal.name.isdecimal():
        return
    number = int(literal.name) - most
    type_name = "int" if number <= _INT_MAX else "bigint" if number <= _LONG_MAX else f"decimal({len(str(number))}, 0)"
    node.type = exp.DataType.build(type_name, dialect="spark")


_METADATA = _SPARK | {
    exp.Coalesce: EXPRESSION_METADATA[exp.Coalesce],
    exp.If: EXPRESSION_METADATA[exp.If],
    exp.Literal: {"annotator": _annotate_number},
    exp.Neg: {"annotator": _annotate_number},
}


def annotate_tree(tree: exp.Expression, columns: Iterable[Column]) -> exp.Expr:
    """Return a copy of the tree with the types of its nodes, as far as known. The copy is shared: do not change it."""
    return _annotate_cached(_TreeKey(tree), tuple((column.name.lower(), column.type) for column in columns))


@dataclass(frozen=True, slots=True, eq=False)
class _TreeKey:
    """A tree as a cache key, compared by identity, since sqlglot would compare every node."""

    tree: exp.Expression

    def __hash__(self) -> int:
        return id(self.tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TreeKey) and self.tree is other.tree


@lru_cache(maxsize=256)  # several checks need the same expression; a copy of long lists takes seconds
def _annotate_cached(tree_key: _TreeKey, columns: tuple[tuple[str, str], ...]) -> exp.Expr:
    types_by_name = dict(columns) | PSEUDO_COLUMNS
    tree_copy: exp.Expression = tree_key.tree.copy()
    schema: dict[str, exp.DataType] = {}  # only of the columns that are read: parsing a type takes 0.1 ms
    for column in tree_copy.find_all(exp.Column):
        name = column.name.lower()
        if len(column.parts) == 1 and (column_type := types_by_name.get(name)):
            schema[name] = exp.DataType.build(column_type, dialect="spark")
            column.set("this", exp.to_identifier(name))
            column.set("table", exp.to_identifier("t"))
    query = exp.select(tree_copy, copy=False).from_("t", copy=False)
    annotate_types(query, schema={"t": schema} if schema else None, expression_metadata=_METADATA, dialect="spark")
    return query.selects[0]


def kind_of(node: exp.Expr) -> str:
    """Return "number", "string", "boolean", "moment" (a date or a timestamp) or "nested"; "" if it is unknown."""
    node_type = node.type
    if isinstance(node_type, exp.DataType):
        for kind_name, types in _KINDS.items():
            if node_type.this in types:
                return kind_name
    return ""


_TYPE = exp.DataType.Type
_MOMENTS = exp.DataType.TEMPORAL_TYPES - {_TYPE.TIME, _TYPE.TIMETZ}
_KINDS: Mapping[str, Iterable[object]] = {
    "number": exp.DataType.NUMERIC_TYPES,
    "string": exp.DataType.TEXT_TYPES,
    "boolean": (_TYPE.BOOLEAN,),
    "moment": _MOMENTS,
    "nested": exp.DataType.NESTED_TYPES,
}


def is_mistyped_by_sqlglot(tree: exp.Expression) -> bool:
    """Say whether sqlglot may give another type than Spark's for a tree, as it is written."""
    return any(
        (isinstance(node, exp.Extract) and node.name.upper() == "SECOND")
        or (isinstance(node, exp.Anonymous) and function_named(name_of_call(node)).mistyped)
        or (
            isinstance(node, exp.Anonymous) and name_of_call(node) == "sequence" and node.find(exp.Interval) is not None
        )
        for node in tree.walk()
    )


def corrected_type(tree: exp.Expression, argument_type: str | None = None) -> str | None:
    """Return Spark's type for a tree that is itself such a call; None if the call is inside another expression.

    argument_type: the type of the call's first argument.
    """
    if not isinstance(tree, exp.Anonymous):
        return None
    function_name = name_of_call(tree)
    if function_name in ("datediff", "date_diff") and len(tree.expressions) == 3:
        return "bigint"
    if function_name in ("round", "bround") and argument_type in (
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
    ):
        return argument_type
    function = function_named(function_name)
    return (function.type or None) if function.mistyped else None


def is_interval(tree: exp.Expression, columns: Iterable[Column]) -> bool:
    """Say whether a tree is the difference of two moments."""
    typed_tree = annotate_tree(tree, columns)
    return isinstance(typed_tree, exp.Sub) and kind_of(typed_tree.this) == kind_of(typed_tree.expression) == "moment"


def check_types(tree: exp.Expression, columns: Iterable[Column], subject: str, sql_text: str) -> None:
    """Raise ExpressionError for a comparison that is never true, a clock-dependent moment, or a cast that may wrap.

    Also for a condition of another type than BOOLEAN, a number of more than 38 digits, and a wrong ESCAPE.
    """
    if isinstance(tree, exp.Column | exp.Identifier):
        return
    try:
        _check_nodes(annotate_tree(tree, columns), subject, sql_text)
    except SQLGLOT_FAULTS as error:  # of the types, or of a part's text for a message
        raise ExpressionError(f"{subject}: {sql_text!r}: {OTHER_ARGUMENTS}") from error


def _check_nodes(typed_tree: exp.Expr, subject: str, sql_text: str) -> None:
    for node in typed_tree.walk():
        if isinstance(node, exp.Cast):
            check_cast_type(node.args["to"], f"{subject}: {sql_text!r}")
        for condition in _conditions_in(node):
            _check_condition(condition, subject, sql_text)
        if isinstance(node, exp.Literal):
            _check_digits(node, subject, sql_text)
        if isinstance(node, exp.Escape):
            _check_escape(node, subject, sql_text)
        if isinstance(node, exp.Bracket):
            _check_place(node, subject, sql_text)
        if isinstance(node, COMPARED):
            _check_pair(node.this, node.expression, subject, sql_text)
        elif isinstance(node, exp.In):
            for list_item in node.expressions:
                _check_pair(node.this, list_item, subject, sql_text)
        elif isinstance(node, exp.Between):
            _check_pair(node.this, node.args["low"], subject, sql_text)
            _check_pair(node.this, node.args["high"], subject, sql_text)
        elif isinstance(node, ONE_OF_MANY):
            _check_branches(node, subject, sql_text)
        elif isinstance(node, exp.Func) and function_named(_function_name(node)).parses:
            _check_parser(node, subject, sql_text)
        elif isinstance(node, exp.Cast) and node.is_type(*exp.DataType.NESTED_TYPES):
            check_cast(node, _spark_sql(node.this), subject, sql_text)
        elif isinstance(node, exp.Cast) and node.is_type(*_MOMENTS):
            _check_moment(node.this, subject, sql_text)
        elif isinstance(node, exp.Func) and _function_name(node) in TIME_FUNCTIONS:
            for argument in node.iter_expressions():
                _check_moment(argument, subject, sql_text)


def check_predicate(tree: exp.Expression, columns: Iterable[Column], subject: str, sql_text: str) -> None:
    """Raise ExpressionError for a predicate whose type is known and not boolean."""
    predicate_type = annotate_tree(tree, columns).type
    if isinstance(predicate_type, exp.DataType) and predicate_type.this not in (
        _TYPE.BOOLEAN,
        _TYPE.UNKNOWN,
        _TYPE.NULL,
    ):
        raise ExpressionError(
            f"{subject}: {sql_text!r} is a {predicate_type.sql('spark').lower()}; expected a condition, such as "
            f'"{sql_text} IS NOT NULL".'
        )


def _conditions_in(node: exp.Expr) -> Iterable[exp.Expr]:
    """Return the parts of a node that have to be BOOLEAN: Spark casts nothing to it."""
    if isinstance(node, exp.Not):
        return [node.this]
    if isinstance(node, exp.And | exp.Or):
        return [node.this, node.expression]
    if isinstance(node, exp.If):
        has_operand = isinstance(node.parent, exp.Case) and node.parent.this is not None
        return [] if has_operand else [node.this]
    return []


def _check_condition(node: exp.Expr, subject: str, sql_text: str) -> None:
    if (kind := kind_of(node)) not in ("", "boolean") and node.type is not None:
        condition_text = _spark_sql(node)
        advice = f"{condition_text} <> 0" if kind == "number" else f"{condition_text} IS NOT NULL"
        raise ExpressionError(
            f"{subject}: {sql_text!r} takes {condition_text}, a {node.type.sql('spark').lower()}, for a condition. "
            f"Write one, such as {advice}."
        )


def _check_digits(node: exp.Literal, subject: str, sql_text: str) -> None:
    if not node.is_string and node.name.isdecimal() and len(node.name.lstrip("0")) > DECIMAL_DIGITS_MAX:
        raise ExpressionError(
            f"{subject}: {sql_text!r}: a number of {len(node.name):,} digits; a DECIMAL has at most "
            f"{DECIMAL_DIGITS_MAX}."
        )


def _check_escape(node: exp.Escape, subject: str, sql_text: str) -> None:
    if isinstance(node.expression, exp.Literal) and len(node.expression.name.encode("utf-16-le")) != 2:
        raise ExpressionError(
            f"{subject}: {sql_text!r}: ESCAPE {node.expression.sql('spark')}: expected one character, such as '!'."
        )


def _check_place(node: exp.Bracket, subject: str, sql_text: str) -> None:
    """Refuse a constant place that no array has, and elements of what has none; a map may have any key."""
    if len(node.expressions) != 1:
        return
    if kind_of(node.this) not in ("", "nested"):
        value_type = node.this.type.sql("spark").lower()
        raise ExpressionError(
            f"{subject}: {sql_text!r}: found {_spark_sql(node.this)} of type {value_type}; expected an array or a map."
        )
    if node.this.is_type(_TYPE.STRUCT):
        _check_field(node, subject, sql_text)
    if not node.this.is_type(_TYPE.ARRAY):
        return
    items, place = _spark_sql(node.this), _spark_sql(node.expressions[0])
    counts_from_one = node.args.get("offset") == 1  # as element_at does
    if counts_from_one and place == "0":
        raise ExpressionError(
            f"{subject}: {sql_text!r}: found place 0, element_at counts from 1. Write {items}[0], or "
            f"element_at({items}, 1)."
        )
    if not counts_from_one and re.fullmatch(r"-\d+", place):
        raise ExpressionError(
            f"{subject}: {sql_text!r}: found place {place}, {items}[...] counts from 0. Write "
            f"element_at({items}, {place}), which counts from the end."
        )


def _check_field(node: exp.Bracket, subject: str, sql_text: str) -> None:
    """Refuse a constant name that no field of a struct has."""
    (name,) = node.expressions
    field_names = [item.name for item in node.this.type.expressions]
    if isinstance(name, exp.Literal) and name.is_string and find_field(field_names, name.name) is not None:
        return
    raise ExpressionError(
        f"{subject}: {sql_text!r}: found {_spark_sql(name)} as a field of {_spark_sql(node.this)}; expected one of "
        f"{', '.join(field_names)}, as in {_spark_sql(node.this)}.{field_names[0]}."
    )


def _function_name(node: exp.Func) -> str:
    return node.name.lower() if isinstance(node, exp.Anonymous) else node.sql_name().lower()


def _check_pair(left: exp.Expr, right: exp.Expr, subject: str, sql_text: str) -> None:
    for operand, counterpart in ((left, right), (right, left)):
        operand_kinds = kind_of(operand), kind_of(counterpart)
        if operand_kinds == ("string", "number") and not _is_number_text(operand):
            advice = _number_advice(operand, counterpart)
            raise _unequal_types_error(operand, counterpart, subject, sql_text, advice)
        if (
            operand_kinds == ("nested", "number")
            or operand_kinds == ("nested", "boolean")
            or operand_kinds == ("nested", "moment")
        ):
            raise _unequal_types_error(operand, counterpart, subject, sql_text, "one of its fields or elements")
        if operand_kinds == ("moment", "number"):
            raise _unequal_types_error(
                operand,
                counterpart,
                subject,
                sql_text,
                f"unix_millis({_spark_sql(operand)}) for the milliseconds since 1970",
            )
        if operand_kinds[0] == "moment":
            _check_moment(counterpart, subject, sql_text)
            if (
                operand_kinds[1] == "string"
                and isinstance(counterpart, exp.Literal)
                and isinstance(operand.type, exp.DataType)
                and not is_readable(counterpart.name, operand.type)
            ):
                raise _unequal_types_error(operand, counterpart, subject, sql_text, "a text such as '2026-01-31'")
        if (
            operand_kinds == ("moment", "string")
            and not isinstance(counterpart, exp.Literal)
            and not operand.is_type(_TYPE.DATE)
        ):
            # Spark would read a time without a day as a time of today.
            raise ExpressionError(
                f"{subject}: {sql_text!r} compares {_spark_sql(counterpart)}, a string, with a timestamp. Write "
                f"cast({_spark_sql(counterpart)} AS timestamp)."
            )


def _number_advice(text: exp.Expr, number: exp.Expr) -> str:
    """Return what to write in place of a text that is compared with a number."""
    if isinstance(text, exp.Literal) and re.match(r"\s*\d{4}-\d", text.name):
        return f"unix_millis(timestamp{_spark_sql(text)}) for its milliseconds since 1970"
    if isinstance(text, exp.Literal):
        return "a number"
    in_quotes = f", or '{_spark_sql(number)}' in quotes" if isinstance(number, exp.Literal) else ""
    return f"cast({_spark_sql(text)} AS double){in_quotes}"


def _check_branches(node: exp.Expr, subject: str, sql_text: str) -> None:
    """Check the values among which an expression chooses, and those that a CASE compares with its operand."""
    branch_values = list(node.iter_expressions())
    if isinstance(node, exp.If):
        branch_values.remove(node.this)
    elif isinstance(node, exp.Case):
        for branch in node.args["ifs"]:
            branch_values.append(branch.args["true"])
            if node.this:
                _check_pair(node.this, branch.this, subject, sql_text)
    if any(kind_of(branch_value) == "moment" for branch_value in branch_values):
        for branch_value in branch_values:
            _check_moment(branch_value, subject, sql_text)


def _check_parser(node: exp.Func, subject: str, sql_text: str) -> None:
    """Check a parser of JSON, CSV or XML: without a format, it reads timestamps in the same way as a cast."""
    text_literals = [literal for literal in node.find_all(exp.Literal) if literal.is_string]
    if any(TIMESTAMP.search(literal.name) for literal in text_literals) and not any(
        literal.name.lower() == "timestampformat" for literal in text_literals
    ):
        raise ExpressionError(
            f"{subject}: {sql_text!r} reads timestamps with {_function_name(node)}(), which reads '12:30' as a time on "
            "the day when it is read. Give the column the type string and cast it, or give a timestampFormat."
        )


def _is_number_text(node: exp.Expr) -> bool:
    """Say whether a text is a number: n = '5' is a valid comparison."""
    return isinstance(node, exp.Literal) and NUMBER.fullmatch(node.name) is not None


def _unequal_types_error(
    left_operand: exp.Expr, right_operand: exp.Expr, subject: str, sql_text: str, advice: str
) -> ExpressionError:
    type_names = [node.type.sql("spark").lower() if node.type else "?" for node in (left_operand, right_operand)]
    return ExpressionError(
        f"{subject}: {sql_text!r} compares {_spark_sql(left_operand)}, a {type_names[0]}, with "
        f"{_spark_sql(right_operand)}, a {type_names[1]}: that is null for nearly every record. Write {advice}."
    )


def _check_moment(node: exp.Expr, subject: str, sql_text: str) -> None:
    """Raise ExpressionError for a text that would mean another moment tomorrow."""
    if isinstance(node, exp.Literal) and node.is_string and CLOCK_TEXT.fullmatch(node.name):
        raise ExpressionError(
            f"{subject}: {sql_text!r} reads {_spark_sql(node)} as a moment, which depends on when it is read. Write "
            "the whole moment, such as timestamp'2026-01-31 12:30:00', or use ROWTIME, the record's own time."
        )


def _spark_sql(node: exp.Expr) -> str:
    node = node.copy()
    for column in node.find_all(exp.Column):
        column.set("table", None)
    return node.sql("spark")
