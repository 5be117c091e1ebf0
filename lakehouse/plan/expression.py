"""Expressions: Spark SQL text, parsed once, and refused when a replay would not give the same again.

An expression that fails on a record (a division by zero, a text that is no number) is null for that record, as in
ksqlDB; it never stops the job. So what can raise on purpose, ask a clock, a dice or the machine is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types

from lakehouse.errors import ExpressionError
from lakehouse.plan.schema import PSEUDO_COLUMNS, Column, check_name

# Functions that would make a rebuild differ, stop the job on a record's content, or reach outside of the record.
REFUSED_FUNCTIONS = frozenset(
    [
        *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle"),
        *("now", "curdate", "current_timestamp", "current_date", "current_time", "current_timezone", "localtimestamp"),
        *("current_user", "user", "session_user", "current_catalog", "current_database", "current_schema", "version"),
        *("monotonically_increasing_id", "spark_partition_id"),
        *("input_file_name", "input_file_block_start", "input_file_block_length"),
        *("raise_error", "assert_true", "reflect", "java_method", "try_reflect", "ai_query", "http_request"),
        *("from_avro", "to_avro", "from_protobuf", "to_protobuf", "schema_of_json", "schema_of_csv"),
        *("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack"),
        *("json_tuple", "variant_explode"),
    ]
)
REFUSED_NODES = (
    exp.Query, exp.Window, exp.AggFunc, exp.Star, exp.Placeholder, exp.Parameter, exp.Command, exp.DDL, exp.DML,
    exp.Rand, exp.Randn, exp.Uuid, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentUser,
    exp.UDTF, exp.Explode,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expression:
    """One Spark SQL expression over a record's columns. `text` is what Spark is given."""

    text: str

    @property
    def tree(self) -> exp.Expression:
        return _parse(self.text)

    def columns(self) -> list[str]:
        """Return the names of the columns that it reads, as written."""
        return list(dict.fromkeys(root_name(column) for column in self.tree.find_all(exp.Column)))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the name of the column that it makes."""

    name: str
    expression: Expression

    def __str__(self) -> str:
        return self.name if self.expression.text == self.name else f"{self.expression} AS {self.name}"


def root_name(column: exp.Column) -> str:
    """Return the column that a reference such as `a.b.c` begins with: `a`."""
    return str(column.parts[0].name)


@lru_cache(maxsize=4096)
def _parse(text: str) -> exp.Expression:
    if not isinstance(text, str) or not text.strip():
        raise ExpressionError(f'expression {text!r}: expected Spark SQL text such as "upper(city)".')
    try:
        trees = [tree for tree in sqlglot.parse(f"SELECT {text}", read="spark") if tree is not None]
    except sqlglot.errors.SqlglotError as error:
        raise ExpressionError(
            f"expression {text!r} can't be parsed as Spark SQL: {str(error).splitlines()[0]}"
        ) from error
    select = trees[0] if trees else None
    extra = [
        key for key, value in (select.args if select else {}).items() if value and key not in ("expressions", "kind")
    ]
    if len(trees) != 1 or not isinstance(select, exp.Select) or extra or len(select.expressions) != 1:
        raise ExpressionError(f"expression {text!r}: expected one expression and nothing else.")
    tree: exp.Expression = select.expressions[0]
    for node in tree.walk():
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if isinstance(node, REFUSED_NODES) or name in REFUSED_FUNCTIONS or _sql_name(node) in REFUSED_FUNCTIONS:
            raise ExpressionError(
                f"expression {text!r} uses {node.sql('spark')!r}. A step sees one record and must give the same again "
                "on every replay, without stopping the job: no clock, no dice, no aggregate, no subquery, no call "
                "outside. Use the record's own columns (ROWTIME is its time)."
            )
    return tree


def _sql_name(node: exp.Expr) -> str:
    """The SQL name of a function that sqlglot knows; "" for what is no function."""
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def expression(text: str, columns: Iterable[Column], what: str) -> Expression:
    """Return `text` as an expression over `columns` (and the pseudo columns); ExpressionError if it can't be one."""
    tree = _parse(text)
    if isinstance(tree, exp.Alias):
        raise ExpressionError(f"{what}: {text!r} names a column with AS, where only a value is expected.")
    _check_columns(tree, columns, what, text)
    return Expression(text)


def named(text: str, columns: Iterable[Column], what: str) -> Named:
    """Return "expression AS name" as a named expression; a plain column keeps its name."""
    tree = _parse(text)
    _check_columns(tree, columns, what, text)
    if isinstance(tree, exp.Alias):
        return Named(check_name(tree.alias, what), Expression(tree.this.sql("spark")))
    if isinstance(tree, exp.Column):
        return Named(check_name(str(tree.parts[-1].name), what), Expression(text))
    raise ExpressionError(f"{what}: {text!r} makes a column without a name. Write {text + ' AS name'!r}.")


def _check_columns(tree: exp.Expression, columns: Iterable[Column], what: str, text: str) -> None:
    known = [column.name for column in columns]
    lowered = {name.lower() for name in known} | set(PSEUDO_COLUMNS)
    lowered |= {item.name.lower() for function in tree.find_all(exp.Lambda) for item in function.expressions}
    for column in tree.find_all(exp.Column):
        if root_name(column).lower() not in lowered:
            raise ExpressionError(
                f"{what}: {text!r} reads {root_name(column)!r}, which does not exist. There are: "
                f"{', '.join([*known, *PSEUDO_COLUMNS])}."
            )


def expression_type(item: Expression, columns: Iterable[Column]) -> str | None:
    """Return the type of an expression as Spark SQL text where it can be told without Spark, else None."""
    types = {column.name.lower(): column.type for column in columns} | PSEUDO_COLUMNS
    tree = item.tree.copy()
    if isinstance(tree, exp.Cast) and not tree.args["to"].args.get("nested"):
        return str(tree.args["to"].sql("spark")).lower()  # whatever it is that is cast
    for column in tree.find_all(exp.Column):
        if len(column.parts) > 1 or not types.get(root_name(column).lower()):
            return None
    if isinstance(tree, exp.Column):
        return types[tree.name.lower()]
    schema: dict[str, object] = {
        "t": {name: exp.DataType.build(kind, dialect="spark") for name, kind in types.items() if kind}
    }
    for column in tree.find_all(exp.Column):
        column.set("this", exp.to_identifier(column.name.lower()))
        column.set("table", exp.to_identifier("t"))
    query = annotate_types(exp.select(tree).from_("t"), schema=schema, dialect="spark")
    kind = query.selects[0].type
    if any("." in literal.name for literal in tree.find_all(exp.Literal) if not literal.is_string):
        return None  # 1.5 is a DECIMAL to Spark, a DOUBLE to sqlglot
    if kind is None or kind.this in (exp.DataType.Type.UNKNOWN, exp.DataType.Type.NULL):
        return None
    text = kind.sql("spark").lower()
    # A width can't be told for computed decimals: sqlglot does not follow Spark's rules for them.
    return None if text.startswith("decimal") else text
