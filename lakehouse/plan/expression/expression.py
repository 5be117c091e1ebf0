"""Expressions: Spark SQL text, parsed once, and refused if a replay could give another result.

An expression that fails on a record (a division by zero, a text that is not a number) is null for that record, as in
ksqlDB; it never stops the job. Functions that raise on purpose, or that read a clock, a random number or the machine,
are refused.
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
from lakehouse.plan.expression import type_checks
from lakehouse.plan.expression.schema import (
    PRIMITIVE_TYPES,
    PSEUDO_COLUMNS,
    Column,
    base_type,
    check_name,
    field_types,
    find_field,
    is_same_type,
    item_type,
    sql_type,
)
from lakehouse.plan.refused.constants import check_constants
from lakehouse.plan.refused.near import suggest_near
from lakehouse.plan.refused.place import Place, calling_place
from lakehouse.plan.refused.type_words import fault_of_types
from lakehouse.plan.spark_functions.record import word_set
from lakehouse.plan.spark_functions.table import NO_FUNCTION, WORDS, function_named, suggest_function
from lakehouse.plan.written.canonical import canonical_sql
from lakehouse.plan.written.parse import OTHER_ARGUMENTS, SQLGLOT_FAULTS, error_place, name_of_call, parse_as_written
from lakehouse.semantics.surrogates import replace_surrogates

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

    text: the text for Spark. types: the columns that it reads, with their types as far as known. place: where it was
    declared, for messages. Two expressions with the same text are equal. Half of a surrogate pair in the text is ?, as
    Java writes it.
    """

    text: str
    types: tuple[Column, ...] = field(default=(), compare=False, repr=False)
    place: Place | None = field(default_factory=calling_place, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.text, str):  # anything else is refused where it is parsed, with the place of its declaration
            object.__setattr__(self, "text", replace_surrogates(self.text))

    @property
    def tree(self) -> exp.Expression:
        """The tree for finding types; different functions may look alike in it."""
        return _parse_tree(self.text)

    @property
    def written_tree(self) -> exp.Expression:
        """The tree with every function under its own name, and everything else as written."""
        return _tree_as_written(self.text)

    @property
    def is_column(self) -> bool:
        """True for a plain column, or a field of a column."""
        return isinstance(self.tree, exp.Column)

    def columns(self) -> list[str]:
        """Return the names of the columns that the expression reads, as written, in their order."""
        return list(dict.fromkeys(root_name(column) for column in self.written_tree.find_all(exp.Column, bfs=False)))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Named:
    """An expression with the name of its column."""

    name: str
    expression: Expression

    @property
    def is_plain(self) -> bool:
        """True for a column under its own name, in backticks or not."""
        return self.expression.text.strip("`").lower() == self.name.lower()

    def __str__(self) -> str:
        return self.name if self.expression.text == self.name else f"{self.expression} AS {self.name}"


def root_name(column: exp.Column) -> str:
    """Return the column of a reference such as `a.b.c`: `a`."""
    return str(column.parts[0].name)


def _parse_tree(sql_text: Any) -> exp.Expression:
    if not isinstance(sql_text, str) or not sql_text.strip():
        advice = " Several are given one by one, without brackets." if isinstance(sql_text, list | tuple) else ""
        raise ExpressionError(f'expression {sql_text!r}: expected Spark SQL text such as "upper(city)".{advice}')
    return _parse_text(sql_text)


@lru_cache(maxsize=4096)
def _parse_text(sql_text: str) -> exp.Expression:
    try:
        trees = [tree for tree in sqlglot.parse(f"SELECT {sql_text}", read="spark") if tree is not None]
    except RecursionError as error:
        raise ExpressionError(
            f"expression {sql_text[:80]!r}... is nested too deeply. Split it into several columns."
        ) from error
    except sqlglot.errors.SqlglotError as error:
        raise ExpressionError(f"expression {sql_text!r} can't be parsed as Spark SQL{error_place(error)}.") from error
    except SQLGLOT_FAULTS as error:
        raise ExpressionError(f"expression {sql_text!r}: {OTHER_ARGUMENTS}") from error
    select = trees[0] if trees else None
    extra_arguments = [
        argument_name
        for argument_name, value in (select.args if select else {}).items()
        if value and argument_name not in ("expressions", "kind")
    ]
    if len(trees) != 1 or not isinstance(select, exp.Select) or extra_arguments or len(select.expressions) != 1:
        raise ExpressionError(f"expression {sql_text!r}: expected one expression and nothing else.")
    tree: exp.Expression = select.expressions[0]
    for node in tree.walk():
        if isinstance(node, REFUSED_NODES):
            raise _refusal_error(sql_text, node.sql("spark"))
    _check_functions(sql_text)
    if (fault := fault_of_types(sql_text, is_schema=False)) is not None:
        raise ExpressionError(f"expression {sql_text!r}: {fault}")
    return tree


def _tree_as_written(sql_text: str) -> exp.Expression:
    _parse_tree(sql_text)
    try:
        return parse_as_written(sql_text)
    except sqlglot.errors.SqlglotError as error:
        raise ExpressionError(f"expression {sql_text!r} can't be parsed as Spark SQL{error_place(error)}.") from error
    except SQLGLOT_FAULTS as error:
        raise ExpressionError(f"expression {sql_text!r}: {OTHER_ARGUMENTS}") from error


def _refusal_error(sql_text: str, refused_part: str) -> ExpressionError:
    return ExpressionError(
        f"expression {sql_text!r} uses {refused_part!r}. A step sees one record and must give the same result on every "
        "replay, "
        "without stopping the job: no clock, no random number, no aggregate, no subquery, no call to another system. "
        "Use the record's own columns (ROWTIME is its time)."
    )


def _check_functions(sql_text: str) -> None:
    """Raise ExpressionError for a function that does not exist, or may not be used.

    The names come from the text, since sqlglot's names are those of all dialects that it knows.
    """
    tokens = sqlglot.tokenize(sql_text, read="spark")
    for previous_token, token, next_token in zip([None, *tokens], tokens, tokens[1:], strict=False):
        if next_token.token_type is not TokenType.L_PAREN or not _is_word(token):
            continue
        function_name = token.text.lower()
        if (
            function_name in ("all", "any", "some")
            and previous_token is not None
            and previous_token.text.lower().endswith("like")
        ):
            continue  # LIKE ANY ('a%', 'b%')
        if previous_token is not None and previous_token.token_type is TokenType.DOT:
            raise ExpressionError(
                f"expression {sql_text!r}: found {token.text}() after a dot; expected {token.text}(...)."
            )
        function = function_named(function_name)
        if function is NO_FUNCTION and function_name not in WORDS:
            raise ExpressionError(
                f"expression {sql_text!r}: Spark has no function {token.text!r}.{suggest_function(function_name)}"
            )
        if function is not NO_FUNCTION and (
            function.refused or (function.refused_empty and tokens[tokens.index(next_token) + 1].token_type is _CLOSES)
        ):
            raise _refusal_error(sql_text, f"{token.text}()")


_CLOSES = TokenType.R_PAREN


def _is_word(token: Token) -> bool:
    return token.token_type is not TokenType.STRING and re.fullmatch(r"\w+", token.text) is not None


# Words that are names to sqlglot where they stand alone, and something else before `<`, before `+` or in a function;
# and a function of Spark. No other word needs backticks: with them, some texts are other declarations.
_NAMES_ONLY_ALONE = word_set("all array current_path describe if interval list map nullable object range struct")


def name_text(name: str) -> str:
    """Return a column's name as an expression: in backticks if it is an SQL word with another meaning."""
    if name.lower() in _NAMES_ONLY_ALONE:
        return f"`{name}`"
    try:
        tree = _parse_tree(name)
    except ExpressionError:
        return f"`{name}`"
    return name if isinstance(tree, exp.Column) else f"`{name}`"


def _parse_for_subject(sql_text: str, subject: str) -> exp.Expression:
    try:
        return _parse_tree(sql_text)
    except ExpressionError as error:
        raise ExpressionError(f"{subject}: {error}") from error


def parse_expression(sql_text: str, columns: Iterable[Column], subject: str) -> Expression:
    """Parse an expression over `columns` and the pseudo columns. Raises ExpressionError for other texts."""
    columns, tree = list(columns), _parse_for_subject(sql_text, subject)
    if isinstance(tree, exp.Alias):
        raise ExpressionError(f"{subject}: {sql_text!r} names a column with AS, where only a value is expected.")
    _check_columns(tree, columns, subject, sql_text)
    return Expression(sql_text, _columns_read(sql_text, columns))


def parse_predicate(sql_text: str, columns: Iterable[Column], subject: str) -> Expression:
    """Parse a condition over `columns`. Raises ExpressionError for other texts."""
    columns = list(columns)
    condition = parse_expression(sql_text, columns, subject)
    type_checks.check_predicate(condition.tree, columns, subject, sql_text)
    return condition


def parse_named(sql_text: str, columns: Iterable[Column], subject: str) -> Named:
    """Parse "expression AS name"; a plain column keeps its name."""
    columns, tree = list(columns), _parse_for_subject(sql_text, subject)
    _check_columns(tree, columns, subject, sql_text)
    typed_columns = _columns_read(sql_text, columns)
    if isinstance(tree, exp.Alias):
        return Named(check_name(tree.alias, subject), Expression(_text_without_alias(sql_text), typed_columns))
    if isinstance(tree, exp.Column):
        return Named(check_name(str(tree.parts[-1].name), subject), Expression(sql_text, typed_columns))
    raise ExpressionError(f"{subject}: {sql_text!r} is a column without a name. Write {sql_text + ' AS name'!r}.")


def _columns_read(sql_text: str, columns: list[Column]) -> tuple[Column, ...]:
    names_read = {root_name(column).lower() for column in _tree_as_written(sql_text).find_all(exp.Column)}
    return tuple(column for column in columns if column.name.lower() in names_read and column.type)


def _text_without_alias(sql_text: str) -> str:
    """Return an expression as written, without the name at its end: sqlglot would rewrite the text."""
    *_, token_before, name_token = sqlglot.tokenize(sql_text, read="spark")
    return sql_text[: token_before.start if token_before.token_type is TokenType.ALIAS else name_token.start].strip()


def _check_columns(tree: exp.Expression, columns: list[Column], subject: str, sql_text: str) -> None:
    known_names = [column.name for column in columns]
    lowered_names = {name.lower() for name in known_names} | set(PSEUDO_COLUMNS)
    parameters = {
        parameter.name.lower() for lambda_node in tree.find_all(exp.Lambda) for parameter in lambda_node.expressions
    }
    lowered_names |= parameters
    types_by_name = {column.name.lower(): column.type for column in columns if column.name.lower() not in parameters}
    written = _tree_as_written(sql_text)
    for column in written.find_all(exp.Column):
        if (name := root_name(column)).lower() not in lowered_names:
            raise ExpressionError(
                f"{subject}: {sql_text!r} reads {name!r}, which does not "
                f"exist.{suggest_near(name, [*known_names, *PSEUDO_COLUMNS])} "
                f"There are: {', '.join([*known_names, *PSEUDO_COLUMNS])}."
            )
        if (fault := _fault_of_fields(column, types_by_name.get(name.lower(), ""))) is not None:
            raise ExpressionError(f"{subject}: {sql_text!r} {fault}")
    _check_lambdas(subject, sql_text)
    check_constants(written, subject, sql_text)
    type_checks.check_types(tree, columns, subject, sql_text)


def _fault_of_fields(column: exp.Column, column_type: str) -> str | None:
    """Return what is wrong with a reference such as `a.b.c`; None if nothing is. column_type: of `a`; "" if unknown."""
    known_part, known_type = root_name(column), column_type
    for part in column.parts[1:]:
        base_name = base_type(known_type)
        if base_name == "array":  # the field of each element
            known_type = item_type(known_type)
            base_name = base_type(known_type)
        if base_name == "map":
            known_type = item_type(known_type)
        elif base_name == "struct":
            types_by_name = field_types(known_type)
            own_name = find_field(types_by_name, part.name)
            if own_name is None:
                return (
                    f"reads the field {part.name!r} of {known_part}, which does not exist."
                    f"{suggest_near(part.name, types_by_name)} There are: {', '.join(types_by_name)}."
                )
            known_type = types_by_name[own_name]
        elif base_name in PRIMITIVE_TYPES:
            return f"reads the field {part.name!r} of {known_part}, whose type {known_type} has none."
        else:
            return None
        known_part += f".{part.name}"
    return None


def _check_lambdas(subject: str, sql_text: str) -> None:
    """Raise ExpressionError for a value in the place of a lambda: Spark would take it for each element, unmeasured."""
    for call in _tree_as_written(sql_text).find_all(exp.Anonymous):
        function = function_named(name_of_call(call))
        if len(call.expressions) < function.least or not (function.lambda_calls or function.folds):
            continue
        argument = call.expressions[2 if function.folds else -1]
        if not isinstance(argument, exp.Lambda):
            raise ExpressionError(
                f"{subject}: {sql_text!r} gives {argument.sql('spark')!r} to {function.name}(), which expects a "
                "lambda, such as x -> upper(x)."
            )


def expression_type(expression: Expression, columns: Iterable[Column]) -> str | None:
    """Return the type of an expression as Spark SQL text; None if only Spark can tell it."""
    columns = list(columns)
    types_by_name = {column.name.lower(): column.type for column in columns} | PSEUDO_COLUMNS
    tree = expression.tree
    if type_checks.is_mistyped_by_sqlglot(expression.written_tree):
        first_arguments = (
            expression.written_tree.expressions[:1] if isinstance(expression.written_tree, exp.Anonymous) else []
        )
        argument_types = [expression_type(Expression(part.sql("spark")), columns) for part in first_arguments]
        return type_checks.corrected_type(expression.written_tree, *argument_types)
    if isinstance(tree, exp.Cast) and not tree.args["to"].args.get("nested"):
        return str(tree.args["to"].sql("spark")).lower()  # the cast decides, whatever its argument
    for column in tree.find_all(exp.Column):
        if len(column.parts) > 1 or not types_by_name.get(root_name(column).lower()):
            return None
    if isinstance(tree, exp.Column):
        return types_by_name[tree.name.lower()]
    annotated_type = None if type_checks.is_interval(tree, columns) else type_checks.annotate_tree(tree, columns).type
    if any("." in literal.name for literal in tree.find_all(exp.Literal) if not literal.is_string):
        return None  # 1.5 is a DECIMAL to Spark, a DOUBLE to sqlglot
    if not isinstance(annotated_type, exp.DataType) or annotated_type.this in (
        exp.DataType.Type.UNKNOWN,
        exp.DataType.Type.NULL,
    ):
        return None
    type_text = sql_type(annotated_type)
    if isinstance(expression.written_tree, exp.Substring) and type_text != "binary":
        return "string"
    # The width of computed decimals is unknown: sqlglot does not follow Spark's rules for them.
    return None if type_text.startswith("decimal") else type_text


def parse_key_expressions(
    key_columns: Iterable[Column], key_texts: Sequence[str], columns: Iterable[Column], subject: str
) -> tuple[Expression, ...]:
    """Parse the expressions over `columns` that make a table's key, and check them against its types."""
    key_columns, columns = list(key_columns), list(columns)
    if len(key_texts) != len(key_columns):
        key_names = ", ".join(column.name for column in key_columns)
        raise PlanError(
            f"{subject}: found {len(key_texts)} expressions ({', '.join(key_texts)}) for its key {key_names}. Name one "
            "for each of the key's columns: on=..."
        )
    key_expressions = tuple(parse_expression(key_text, columns, subject) for key_text in key_texts)
    for key_expression, column in zip(key_expressions, key_columns, strict=True):
        expression_kind, key_type = expression_type(key_expression, columns), column.type
        if expression_kind and key_type and not is_same_type(expression_kind, key_type):
            raise PlanError(
                f"{subject}: {key_expression.text!r} is a {expression_kind}, and the table's key {column.name!r} a "
                f"{key_type}: they are never equal. Write cast({key_expression.text} AS {key_type})."
            )
    return key_expressions


def sql_part(expression: Expression) -> Json:
    """Return an expression in the form of a fingerprint."""
    return {SQL: canonical_sql(expression.text)}


def sql_parts(named_expressions: Iterable[Named]) -> Json:
    """Return named expressions in the form of a fingerprint."""
    return {named_expression.name: sql_part(named_expression.expression) for named_expression in named_expressions}


def columns_read_by(expressions: Iterable[Expression]) -> set[str]:
    """Return the columns that expressions read, in lower case; also names of lambdas' parameters, without harm."""
    return {name.lower() for expression in expressions for name in expression.columns()}


def indicator_part(indicator: str, read_columns: set[str]) -> Json:
    """Return the part of a join's indicator in its fingerprint, if later steps read it."""
    return {"indicator": indicator} if indicator.lower() in read_columns else {}
