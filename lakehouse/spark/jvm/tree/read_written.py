"""Reads the text of an expression in Python, by sqlglot, to a `WrittenTree`: one method for each kind of node.

A node that is not in the tables below is refused: every text that Spark gets was written here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

from lakehouse.errors import PlanError
from lakehouse.plan.names.field import in_backticks
from lakehouse.plan.written.parse import WITH_UNIT, name_of_call, parse_as_written
from lakehouse.spark.jvm.tree.tree import FUNCTION, LAMBDA, LITERAL, Tree
from lakehouse.spark.jvm.tree.written_tree import (
    ADVICE,
    WrittenTree,
    attribute,
    field_of,
    literal,
    name_tree,
    text_literal,
)

BINARY: dict[type[exp.Expression], tuple[str, str]] = {
    exp.Add: ("Add", "+"), exp.Sub: ("Subtract", "-"), exp.Mul: ("Multiply", "*"), exp.Div: ("Divide", "/"),
    exp.IntDiv: ("IntegralDivide", "DIV"), exp.Mod: ("Remainder", "%"), exp.And: ("And", "AND"), exp.Or: ("Or", "OR"),
    exp.EQ: ("EqualTo", "="), exp.NEQ: ("Not", "<>"), exp.LT: ("LessThan", "<"), exp.LTE: ("LessThanOrEqual", "<="),
    exp.GT: ("GreaterThan", ">"), exp.GTE: ("GreaterThanOrEqual", ">="), exp.NullSafeEQ: ("EqualNullSafe", "<=>"),
    exp.NullSafeNEQ: ("EqualNullSafe", "IS DISTINCT FROM"), exp.BitwiseAnd: ("BitwiseAnd", "&"),
    exp.BitwiseOr: ("BitwiseOr", "|"), exp.BitwiseXor: ("BitwiseXor", "^"),
    exp.BitwiseLeftShift: ("ShiftLeft", "<<"), exp.BitwiseRightShift: ("ShiftRight", ">>"),
    exp.DPipe: ("Concat", "||"), exp.RegexpLike: ("RLike", "RLIKE"), exp.Like: ("Like", "LIKE"),
    exp.ILike: ("ILike", "ILIKE"),
}  # fmt: skip
UNARY: dict[type[exp.Expression], tuple[str, str]] = {
    exp.Neg: ("UnaryMinus", "-"), exp.Not: ("Not", "NOT"), exp.BitwiseNot: ("BitwiseNot", "~"),
}  # fmt: skip
TYPES = {
    "TIMESTAMPTZ": "timestamp", "TIMESTAMPLTZ": "timestamp", "TIMESTAMPNTZ": "timestamp_ntz", "TEXT": "string",
    "DECIMAL": "decimal(10,0)",
}  # fmt: skip


@lru_cache(maxsize=4096)
def parse_written(text: str) -> WrittenTree:
    """Return the tree of an expression. Raises PlanError for one that needs Spark's internals."""
    return _Reader(text).read(parse_as_written(text))


@lru_cache(maxsize=1)
def can_catch() -> bool:
    """Say whether this Spark catches failures as this module needs it."""
    session = SparkSession.builder.getOrCreate()
    try:
        tried_call = parse_written("element_at(array(id), cast(id AS int))").try_eval().column()
        rows = session.range(2).select(tried_call.alias("x")).collect()
    except PySparkException:
        return False
    return [row["x"] for row in rows] == [None, 1]


def _number_tree(text: str) -> WrittenTree:
    is_whole = text.removeprefix("-").isdigit()
    sql_text = f"({text})" if text.startswith("-") else text  # two signs would begin a comment
    return literal(int(text) if is_whole else text, "int" if is_whole else "decimal", sql_text)


class _Reader:
    """Makes the tree of one expression of its tree in sqlglot."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read(self, node: exp.Expression) -> WrittenTree:
        for kinds, read_node in self._readers:
            if isinstance(node, kinds):
                return read_node(self, node)
        if (binary := BINARY.get(type(node))) is not None:
            return self._read_binary(node, *binary)
        if (unary := UNARY.get(type(node))) is not None:
            return self._read_unary(node, *unary)
        raise self._refusal(node)

    def _refusal(self, node: exp.Expression) -> PlanError:
        return PlanError(f"{self._text!r}: {node.sql('spark')!r} can't be read for {ADVICE}")

    def _read_all(self, nodes: Sequence[Any]) -> list[Tree]:
        return [self.read(node) for node in nodes if node is not None]

    def _refuse_further_parts(self, node: exp.Expression, *names: str) -> None:
        """Raise PlanError for a node with further parts."""
        if any(value for name, value in node.args.items() if name not in names):
            raise self._refusal(node)

    def _read_binary(self, node: exp.Expression, kind: str, sign: str) -> WrittenTree:
        self._refuse_further_parts(node, "this", "expression", "safe", "typed", "negate")
        if isinstance(node.expression, exp.Any | exp.All):
            raise self._refusal(node)
        children = self._read_all([node.this, node.expression])
        sign = f"NOT {sign}" if node.args.get("negate") else sign
        return WrittenTree(kind, children, lambda left, right: f"({left} {sign} {right})")

    def _read_unary(self, node: exp.Expression, kind: str, sign: str) -> WrittenTree:
        child = self.read(node.this)
        if kind == "UnaryMinus" and child.kind == LITERAL and child.type_text in ("int", "decimal"):
            number = str(child.literal)
            return _number_tree(number[1:] if number.startswith("-") else f"-{number}")
        return WrittenTree(kind, [child], lambda text: f"({sign} {text})")

    def _read_paren(self, node: exp.Expression) -> WrittenTree:
        return self.read(node.this)

    def _read_constant(self, node: exp.Expression) -> WrittenTree:
        match node:
            case exp.Null():
                return literal(None, "void", "NULL")
            case exp.Boolean():
                return literal(bool(node.this), "boolean", str(node.this))
            case exp.HexString():
                return literal(str(node.this), "binary", f"X'{node.this}'")
            case exp.RawString():
                return literal(str(node.this), "string", text_literal(node.this))
            case exp.Literal(is_string=True):
                return literal(str(node.this), "string", text_literal(node.this))
        return _number_tree(str(node.this))

    def _read_texts(self, node: exp.Expression) -> WrittenTree:
        """Texts side by side are one text."""
        parts = self._read_all(node.expressions)
        if not all(part.kind == LITERAL and part.type_text == "string" for part in parts):
            raise self._refusal(node)
        text = "".join(str(part.literal) for part in parts)
        return literal(text, "string", text_literal(text))

    def _read_interval(self, node: exp.Expression) -> WrittenTree:
        if not isinstance(node.this, exp.Literal) or node.args.get("unit") is None:
            raise self._refusal(node)
        sql_text = f"INTERVAL {text_literal(node.this.this)} {node.args['unit'].sql('spark')}"
        return literal(sql_text, "interval", sql_text)

    def _read_column(self, node: exp.Expression) -> WrittenTree:
        assert isinstance(node, exp.Column)
        return attribute(*(part.name for part in node.parts))

    def _read_variable(self, node: exp.Expression) -> WrittenTree:
        return name_tree("UnresolvedNamedLambdaVariable", node.name)

    def _read_field(self, node: exp.Expression) -> WrittenTree:
        assert isinstance(node, exp.Dot)
        if not isinstance(node.expression, exp.Identifier):
            raise self._refusal(node)
        return field_of(self.read(node.this), node.expression.name)

    def _read_element(self, node: exp.Expression) -> WrittenTree:
        self._refuse_further_parts(node, "this", "expressions")
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            raise self._refusal(node)
        children = self._read_all([node.this, node.expressions[0]])
        return WrittenTree("UnresolvedExtractValue", children, lambda text, place: f"{text}[{place}]")

    def _read_alias(self, node: exp.Expression) -> WrittenTree:
        name = in_backticks(node.alias)
        return WrittenTree("Alias", [self.read(node.this)], lambda text: f"{text} AS {name}")

    def _read_is(self, node: exp.Expression) -> WrittenTree:
        child, right = self.read(node.this), node.expression
        if isinstance(right, exp.Null):
            return WrittenTree("IsNull", [child], lambda text: f"({text} IS NULL)")
        if not isinstance(right, exp.Boolean):
            raise self._refusal(node)
        return WrittenTree("EqualNullSafe", [child], lambda text: f"({text} IS {right.this})")

    def _read_in(self, node: exp.Expression) -> WrittenTree:
        self._refuse_further_parts(node, "this", "expressions")
        return WrittenTree(
            "In",
            self._read_all([node.this, *node.expressions]),
            lambda text, *items: f"({text} IN ({', '.join(items)}))",
        )

    def _read_between(self, node: exp.Expression) -> WrittenTree:
        self._refuse_further_parts(node, "this", "low", "high")
        children = self._read_all([node.this, node.args["low"], node.args["high"]])
        return WrittenTree("Between", children, lambda text, low, high: f"({text} BETWEEN {low} AND {high})")

    def _read_escape(self, node: exp.Expression) -> WrittenTree:
        like, sign = self.read(node.this), text_literal(node.expression.name)
        return replace(like, render=lambda *texts: f"{like.render(*texts)[:-1]} ESCAPE {sign})")

    def _read_case(self, node: exp.Expression) -> WrittenTree:
        self._refuse_further_parts(node, "this", "ifs", "default")
        branches = [part for branch in node.args["ifs"] for part in (branch.this, branch.args["true"])]
        has_subject, has_default = node.this is not None, node.args.get("default") is not None
        children = self._read_all([node.this, *branches, node.args.get("default")])

        def render(*texts: str) -> str:
            subject = f" {texts[0]}" if has_subject else ""
            inner_texts = texts[int(has_subject) : len(texts) - int(has_default)]
            pairs = zip(inner_texts[::2], inner_texts[1::2], strict=True)
            cases = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
            return f"(CASE{subject} {cases}{f' ELSE {texts[-1]}' if has_default else ''} END)"

        return WrittenTree("CaseWhen", children, render)

    def _read_if(self, node: exp.Expression) -> WrittenTree:
        self._refuse_further_parts(node, "this", "true", "false")
        children = self._read_all([node.this, node.args["true"], node.args.get("false") or exp.Null()])
        return WrittenTree(FUNCTION, children, lambda *texts: f"if({', '.join(texts)})", function="if")

    def _read_cast(self, node: exp.Expression) -> WrittenTree:
        self._refuse_further_parts(node, "this", "to", "safe")
        type_text = self._type_text(node.args["to"])
        is_try = bool(node.args.get("safe"))
        word = "try_cast" if is_try else "cast"
        return WrittenTree(
            "Cast",
            [self.read(node.this)],
            lambda text: f"{word}({text} AS {type_text})",
            type_text=type_text,
            is_try_cast=is_try,
        )

    def _type_text(self, node: exp.Expression) -> str:
        """Return a type as Spark writes it, in lower case."""
        if isinstance(node, exp.Interval):
            return f"interval {node.args['unit'].sql('spark')}".lower()
        assert isinstance(node, exp.DataType)
        if isinstance(node.this, exp.Interval):
            return f"interval {node.this.args['unit'].sql('spark')}".lower()
        kind = str(node.this.value)
        inner = node.expressions
        if kind in ("ARRAY", "MAP"):
            return f"{kind.lower()}<{', '.join(map(self._type_text, inner))}>"
        if kind == "STRUCT":
            fields = ", ".join(f"{in_backticks(field.name)}: {self._type_text(field.args['kind'])}" for field in inner)
            return f"struct<{fields}>"
        if kind == "DECIMAL" and inner:
            digits = [part.name for part in inner]
            return f"decimal({digits[0]},{digits[1] if len(digits) > 1 else 0})"
        return TYPES.get(kind, node.sql("spark").lower())

    def _read_lambda(self, node: exp.Expression) -> WrittenTree:
        children = self._read_all([node.this, *node.expressions])
        is_single = len(node.expressions) == 1

        def render(body: str, *names: str) -> str:
            return f"{names[0]} -> {body}" if is_single else f"({', '.join(names)}) -> {body}"

        return WrittenTree(LAMBDA, children, render)

    def _read_call(self, node: exp.Expression) -> WrittenTree:
        assert isinstance(node, exp.Anonymous)
        name = name_of_call(node)
        first = node.expressions[0] if node.expressions else None
        if name in WITH_UNIT and isinstance(first, exp.Var):
            kind = "TimestampAdd" if name in ("timestampadd", "dateadd", "date_add") else "TimestampDiff"
            children, unit = self._read_all(node.expressions[1:]), first.name
            return WrittenTree(kind, children, lambda left, right: f"{name}({unit}, {left}, {right})")
        return self._call_tree(name, self._read_all(node.expressions))

    @staticmethod
    def _call_tree(name: str, children: list[Tree]) -> WrittenTree:
        if not re.fullmatch(r"\w+", name):
            raise PlanError(f"the function {name!r} can't be called by {ADVICE}")
        return WrittenTree(FUNCTION, children, lambda *texts: f"{name}({', '.join(texts)})", function=name)

    def _read_extract(self, node: exp.Expression) -> WrittenTree:
        unit = node.this.name
        children: list[Tree] = [literal(unit, "string", text_literal(unit)), self.read(node.expression)]
        return WrittenTree(FUNCTION, children, lambda _, text: f"extract({unit} FROM {text})", function="extract")

    def _read_trim(self, node: exp.Expression) -> WrittenTree:
        self._refuse_further_parts(node, "this", "expression", "position")
        side = str(node.args.get("position") or "BOTH")
        if node.args.get("expression") is None:
            return self._call_tree(
                {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[side], self._read_all([node.this])
            )
        children = self._read_all([node.this, node.expression])
        return WrittenTree(FUNCTION, children, lambda text, signs: f"trim({side} {signs} FROM {text})", function="trim")

    def _read_substring(self, node: exp.Expression) -> WrittenTree:
        self._refuse_further_parts(node, "this", "start", "length")
        return self._call_tree(
            "substring", self._read_all([node.this, node.args.get("start"), node.args.get("length")])
        )

    def _read_position(self, node: exp.Expression) -> WrittenTree:
        self._refuse_further_parts(node, "this", "substr", "position")
        return self._call_tree("position", self._read_all([node.args["substr"], node.this, node.args.get("position")]))

    def _read_overlay(self, node: exp.Expression) -> WrittenTree:
        self._refuse_further_parts(node, "this", "expression", "from_", "for_")
        parts = [node.this, node.expression, node.args["from_"], node.args.get("for_")]
        return self._call_tree("overlay", self._read_all(parts))

    _readers: tuple[tuple[Any, Callable[[_Reader, exp.Expression], WrittenTree]], ...] = (
        (exp.Paren, _read_paren),
        (exp.Literal | exp.Null | exp.Boolean | exp.HexString | exp.RawString, _read_constant),
        (exp.Concat, _read_texts),
        (exp.Interval, _read_interval),
        (exp.Column, _read_column),
        (exp.Identifier, _read_variable),
        (exp.Dot, _read_field),
        (exp.Bracket, _read_element),
        (exp.Alias, _read_alias),
        (exp.Is, _read_is),
        (exp.In, _read_in),
        (exp.Between, _read_between),
        (exp.Escape, _read_escape),
        (exp.Case, _read_case),
        (exp.If, _read_if),
        (exp.Cast, _read_cast),  # TRY_CAST too
        (exp.Lambda, _read_lambda),
        (exp.Anonymous, _read_call),
        (exp.Extract, _read_extract),
        (exp.Trim, _read_trim),
        (exp.Substring, _read_substring),
        (exp.StrPosition, _read_position),
        (exp.Overlay, _read_overlay),
    )
