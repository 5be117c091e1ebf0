"""Expressions: Spark SQL text, parsed once, and refused if a replay could give another result.

An expression that fails on a record (a division by zero, a text that is not a number) is null for that record, as in
ksqlDB; it never stops the job. So functions that raise on purpose, or read a clock, a dice or the machine, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from lakehouse.errors import ExpressionError, PlanError
from lakehouse.plan import typed
from lakehouse.plan.refused.near import near
from lakehouse.plan.refused.place import Place, here
from lakehouse.plan.refused.spark_functions import ALLOWED, OWN, WORDS, is_refused, similar
from lakehouse.plan.schema import PSEUDO_COLUMNS, Column, base_type, check_name
from lakehouse.plan.written.canonical import canonical
from lakehouse.plan.written.parse import parsed, where

REFUSED_NODES = (
    exp.Query, exp.Window, exp.AggFunc, exp.Star, exp.Placeholder, exp.Parameter, exp.Command, exp.DDL, exp.DML,
    exp.Rand, exp.Randn, exp.Uuid, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentUser,
    exp.UDTF, exp.Explode,
)  # fmt: skip


SQL = "$sql"  # marks SQL text in a fingerprint; no column has such a name

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Expression:
    """One Spark SQL expression over a record's columns.

    text: the text for Spark. types: of the columns that it reads, as far as they are known. place: where it was
    declared, for messages; two expressions of one text are equal.
    """

    text: str
    types: tuple[Column, ...] = field(default=(), compare=False, repr=False)
    place: Place | None = field(default_factory=here, compare=False, repr=False)

    @property
    def tree(self) -> exp.Expression:
        """The tree by which types are told; functions that differ may be one in it."""
        return _parse(self.text)

    @property
    def written(self) -> exp.Expression:
        """The tree that has every function under its own name, and all that is written."""
        return _written(self.text)

    @property
    def is_column(self) -> bool:
        """True for a plain column, or a field of one."""
        return isinstance(self.tree, exp.Column)

    def columns(self) -> list[str]:
        """Return the names of the columns that it reads, as written."""
        return list(dict.fromkeys(root_name(column) for column in self.written.find_all(exp.Column)))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the name of the column that it makes."""

    name: str
    expression: Expression

    @property
    def is_plain(self) -> bool:
        """True for a column under its own name, in backticks or not."""
        return self.expression.text.strip("`").lower() == self.name.lower()

    def __str__(self) -> str:
        return self.name if self.expression.text == self.name else f"{self.expression} AS {self.name}"


def root_name(column: exp.Column) -> str:
    """Return the column at the beginning of a reference such as `a.b.c`: `a`."""
    return str(column.parts[0].name)


@lru_cache(maxsize=4096)
def _parse(text: str) -> exp.Expression:
    if not isinstance(text, str) or not text.strip():
        raise ExpressionError(f'expression {text!r}: expected Spark SQL text such as "upper(city)".')
    try:
        trees = [tree for tree in sqlglot.parse(f"SELECT {text}", read="spark") if tree is not None]
    except RecursionError as error:
        raise ExpressionError(
            f"expression {text[:80]!r}... is nested too deeply. Split it into several columns."
        ) from error
    except sqlglot.errors.SqlglotError as error:
        raise ExpressionError(f"expression {text!r} can't be parsed as Spark SQL{where(error)}.") from error
    select = trees[0] if trees else None
    extra = [
        key for key, value in (select.args if select else {}).items() if value and key not in ("expressions", "kind")
    ]
    if len(trees) != 1 or not isinstance(select, exp.Select) or extra or len(select.expressions) != 1:
        raise ExpressionError(f"expression {text!r}: expected one expression and nothing else.")
    tree: exp.Expression = select.expressions[0]
    for node in tree.walk():
        if isinstance(node, REFUSED_NODES):
            raise _not_kept(text, node.sql("spark"))
    _check_functions(text)
    return tree


def _written(text: str) -> exp.Expression:
    _parse(text)
    try:
        return parsed(text)
    except sqlglot.errors.SqlglotError as error:
        raise ExpressionError(f"expression {text!r} can't be parsed as Spark SQL{where(error)}.") from error


def _not_kept(text: str, part: str) -> ExpressionError:
    return ExpressionError(
        f"expression {text!r} uses {part!r}. A step sees one record and must give the same result on every replay, "
        "without stopping the job: no clock, no random number, no aggregate, no subquery, no call to another system. "
        "Use the record's own columns (ROWTIME is its time)."
    )


def _check_functions(text: str) -> None:
    """Raise ExpressionError for a function that does not exist, or may not be used.

    The names come from the text: sqlglot's own names would be those of any dialect that it knows.
    """
    tokens = sqlglot.tokenize(text, read="spark")
    for before, token, after in zip([None, *tokens], tokens, tokens[1:], strict=False):
        if after.token_type is not TokenType.L_PAREN or not _is_word(token):
            continue
        name = token.text.lower()
        if name in ("all", "any", "some") and before is not None and before.text.lower().endswith("like"):
            continue  # LIKE ANY ('a%', 'b%')
        if before is not None and before.token_type is TokenType.DOT:
            raise ExpressionError(f"expression {text!r}: found {token.text}() after a dot; expected {token.text}(...).")
        if is_refused(name) or (name == "unix_timestamp" and tokens[tokens.index(after) + 1].token_type is _CLOSES):
            raise _not_kept(text, f"{token.text}()")
        if name not in ALLOWED and name not in WORDS and name not in OWN:
            raise ExpressionError(f"expression {text!r}: Spark has no function {token.text!r}.{similar(name)}")


_CLOSES = TokenType.R_PAREN


def _is_word(token: Token) -> bool:
    return token.token_type is not TokenType.STRING and re.fullmatch(r"\w+", token.text) is not None


def name_text(name: str) -> str:
    """Return a column's name as an expression: in backticks if it is an SQL word with another meaning."""
    try:
        tree = _parse(name)
    except ExpressionError:
        return f"`{name}`"
    return name if isinstance(tree, exp.Column) else f"`{name}`"


def _parsed(text: str, what: str) -> exp.Expression:
    try:
        return _parse(text)
    except ExpressionError as error:
        raise ExpressionError(f"{what}: {error}") from error


def expression(text: str, columns: Iterable[Column], what: str) -> Expression:
    """Return `text` as an expression over `columns` (and the pseudo columns); ExpressionError if it is not one."""
    columns, tree = list(columns), _parsed(text, what)
    if isinstance(tree, exp.Alias):
        raise ExpressionError(f"{what}: {text!r} names a column with AS, where only a value is expected.")
    _check(tree, columns, what, text)
    return Expression(text, _read(text, columns))


def predicate(text: str, columns: Iterable[Column], what: str) -> Expression:
    """Return `text` as a condition over `columns`; ExpressionError if it is not one."""
    columns = list(columns)
    made = expression(text, columns, what)
    typed.check_predicate(made.tree, columns, what, text)
    return made


def named(text: str, columns: Iterable[Column], what: str) -> Named:
    """Return "expression AS name" as a named expression; a plain column keeps its name."""
    columns, tree = list(columns), _parsed(text, what)
    _check(tree, columns, what, text)
    types = _read(text, columns)
    if isinstance(tree, exp.Alias):
        return Named(check_name(tree.alias, what), Expression(_unnamed(text), types))
    if isinstance(tree, exp.Column):
        return Named(check_name(str(tree.parts[-1].name), what), Expression(text, types))
    raise ExpressionError(f"{what}: {text!r} is a column without a name. Write {text + ' AS name'!r}.")


def _read(text: str, columns: list[Column]) -> tuple[Column, ...]:
    read = {root_name(column).lower() for column in _written(text).find_all(exp.Column)}
    return tuple(column for column in columns if column.name.lower() in read and column.type)


def _unnamed(text: str) -> str:
    """An expression without its name at the end, as written: sqlglot would write it in its own way."""
    *_, before, name = sqlglot.tokenize(text, read="spark")
    return text[: before.start if before.token_type is TokenType.ALIAS else name.start].strip()


def _check(tree: exp.Expression, columns: list[Column], what: str, text: str) -> None:
    known = [column.name for column in columns]
    lowered = {name.lower() for name in known} | set(PSEUDO_COLUMNS)
    lowered |= {item.name.lower() for function in tree.find_all(exp.Lambda) for item in function.expressions}
    for column in _written(text).find_all(exp.Column):
        if (name := root_name(column)).lower() not in lowered:
            raise ExpressionError(
                f"{what}: {text!r} reads {name!r}, which does not exist.{near(name, [*known, *PSEUDO_COLUMNS])} "
                f"There are: {', '.join([*known, *PSEUDO_COLUMNS])}."
            )
    typed.check(tree, columns, what, text)


def expression_type(item: Expression, columns: Iterable[Column]) -> str | None:
    """Return the type of an expression as Spark SQL text if it can be told without Spark, else None."""
    columns = list(columns)
    types = {column.name.lower(): column.type for column in columns} | PSEUDO_COLUMNS
    tree = item.tree
    if typed.is_told_wrongly(item.written):
        given = item.written.expressions[:1] if isinstance(item.written, exp.Anonymous) else []
        of = [expression_type(Expression(part.sql("spark")), columns) for part in given]
        return typed.corrected(item.written, *of)
    if isinstance(tree, exp.Cast) and not tree.args["to"].args.get("nested"):
        return str(tree.args["to"].sql("spark")).lower()  # whatever is cast
    for column in tree.find_all(exp.Column):
        if len(column.parts) > 1 or not types.get(root_name(column).lower()):
            return None
    if isinstance(tree, exp.Column):
        return types[tree.name.lower()]
    kind = None if typed.is_interval(tree, columns) else typed.annotated(tree, columns).type
    if any("." in literal.name for literal in tree.find_all(exp.Literal) if not literal.is_string):
        return None  # 1.5 is a DECIMAL to Spark, a DOUBLE to sqlglot
    if not isinstance(kind, exp.DataType) or kind.this in (exp.DataType.Type.UNKNOWN, exp.DataType.Type.NULL):
        return None
    text = kind.sql("spark").lower()
    if isinstance(item.written, exp.Substring) and text != "binary":
        return "string"
    # A width can't be told for computed decimals: sqlglot does not follow Spark's rules for them.
    return None if text.startswith("decimal") else text


def for_key(key: Iterable[Column], on: Sequence[str], columns: Iterable[Column], what: str) -> tuple[Expression, ...]:
    """Return the expressions over `columns` that make a table's key, checked against its types."""
    key, columns = list(key), list(columns)
    if len(on) != len(key):
        names = ", ".join(column.name for column in key)
        raise PlanError(
            f"{what}: found {len(on)} expressions ({', '.join(on)}) for its key {names}. Name one for each of the "
            "key's columns: on=..."
        )
    by = tuple(expression(text, columns, what) for text in on)
    for item, column in zip(by, key, strict=True):
        mine, theirs = expression_type(item, columns), column.type
        if mine and theirs and base_type(mine) != base_type(theirs):
            raise PlanError(
                f"{what}: {item.text!r} is a {mine}, and the table's key {column.name!r} a {theirs}: they are never "
                f"equal. Write cast({item.text} AS {theirs})."
            )
    return by


def sql(item: Expression) -> Json:
    """Return an expression in the form of a fingerprint."""
    return {SQL: canonical(item.text)}


def sql_of(items: Iterable[Named]) -> Json:
    """Return named expressions in the form of a fingerprint."""
    return {item.name: sql(item.expression) for item in items}


def read_by(expressions: Iterable[Expression]) -> set[str]:
    """Return the columns that expressions read, in lower case. A lambda's own names are among them, without harm."""
    return {name.lower() for item in expressions for name in item.columns()}


def indicated(indicator: str, read: set[str]) -> Json:
    """Return a join's indicator as a part of its fingerprint, if it is read."""
    return {"indicator": indicator} if indicator.lower() in read else {}
