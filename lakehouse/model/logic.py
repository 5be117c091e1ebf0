"""The casts that Spark adds where types differ, and three-valued logic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from sqlglot import exp

from lakehouse.errors import ExpressionError, NeedsSpark
from lakehouse.model.function.scalar import condition_value, is_equal
from lakehouse.plan.expression.expression import Expression, expression_type
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.spark_functions.record import SparkFunction
from lakehouse.plan.spark_functions.table import NO_FUNCTION, function_named
from lakehouse.plan.written.parse import name_of_call
from lakehouse.semantics.aggregate.aggregate import LONG_MAX

# A mark at a node that computes whole numbers of a known type: how many bits they have.
BITS = "bits"
_BITS = {"int": 32, "bigint": 64}

ColumnValues = Mapping[str, Any]
Evaluator = Callable[[ColumnValues], Any]


def strict_function(function: Callable[..., Any], *evaluators: Evaluator) -> Evaluator:
    """Return the function's evaluator: null in, null out, the rule of nearly every SQL function."""

    def run(values: ColumnValues) -> Any:
        arguments = [evaluator(values) for evaluator in evaluators]
        return None if any(argument is None for argument in arguments) else function(*arguments)

    return run


def null_beyond_years(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of moments that gives null beyond the years 1 to 9999."""

    def run(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (OverflowError, ValueError):
            return None

    return run


def compile_column(node: exp.Expression) -> Evaluator:
    """Return the evaluator of a column, or of a field inside a column."""
    column_name, *field_names = [part.name for part in node.parts]  # type: ignore[attr-defined]

    def run(values: ColumnValues) -> Any:
        column_value = values.get(column_name.lower())
        for field_name in field_names:
            if column_value is None:
                return None
            column_value = (
                [_field_of_struct(element, field_name) for element in column_value]
                if isinstance(column_value, list)
                else _field_of_struct(column_value, field_name)
            )
        return column_value

    return run


def _field_of_struct(struct_value: Mapping[str, Any] | None, name: str) -> Any:
    return (
        None if struct_value is None else next((v for k, v in struct_value.items() if k.lower() == name.lower()), None)
    )


def compile_literal(node: exp.Expression) -> Evaluator:
    """Return the evaluator of a literal text or number."""
    literal_text = node.name
    literal_value: Any = literal_text
    if not node.is_string:
        literal_value = (
            int(literal_text)
            if literal_text.isdigit() and int(literal_text) <= LONG_MAX
            else Decimal(literal_text)
            if "e" not in literal_text.lower()
            else float(literal_text)
        )
    return lambda values: literal_value


def compile_boolean(node: exp.Expression) -> Evaluator:
    """Return the evaluator of true or false."""
    literal_value = bool(node.this)
    return lambda values: literal_value


def junction_evaluator(decisive: bool, left: Evaluator, right: Evaluator) -> Evaluator:
    """Return left AND right, or left OR right: the decisive value if one side has it, whatever the other is.

    decisive: false for AND, true for OR.
    """

    def run(values: ColumnValues) -> bool | None:
        left_value, right_value = condition_value(left(values)), condition_value(right(values))
        if any(side is decisive for side in (left_value, right_value)):
            return decisive
        return None if left_value is None or right_value is None else not decisive

    return run


and_evaluator = partial(junction_evaluator, False)
or_evaluator = partial(junction_evaluator, True)


def null_safe_equality(left: Evaluator, right: Evaluator) -> Evaluator:
    """Return left <=> right: true for two nulls."""

    def run(values: ColumnValues) -> bool | None:
        left_value, right_value = left(values), right(values)
        return (
            left_value is right_value
            if left_value is None or right_value is None
            else is_equal(left_value, right_value)
        )

    return run


def cast_to_one_type(tree: exp.Expression, columns: Iterable[Column]) -> exp.Expression:
    """Return a tree with the casts that give the branches of a choice one type, as in Spark.

    Raises NeedsSpark where types meet for which the model has no cast, and for arithmetic in types that are narrower
    than Python's.
    """
    column_types = {column.name.lower(): column.type.lower() for column in columns}
    if not column_types:
        return tree
    tree = tree.copy()
    _add_parameter_types(tree, column_types)
    for node in list(tree.walk()):
        is_arithmetic = isinstance(node, _ARITHMETIC) or _called_function(node).name in ("abs", "negative")
        if is_arithmetic and any(_plain_type(part, column_types) in _NARROW for part in node.iter_expressions()):
            raise NeedsSpark(f"{node.sql('spark')!r} is computed in a narrow type; run this on Spark.")
        if is_arithmetic and (bits := _BITS.get(_plain_type(node, column_types) or "")):
            node.meta[BITS] = bits
        if (
            isinstance(node, exp.Cast)
            and _plain_type(node.this, column_types) == "float"
            and not node.is_type(*_CASTS_OF_FLOAT)
        ):
            raise NeedsSpark(f"{node.sql('spark')!r} is of a FLOAT; run this on Spark.")
        branches = [part for part in _choice_branches(node) if not isinstance(part, exp.Null)]
        types = [_plain_type(part, column_types) for part in branches]
        if None in types and {None, *_NUMBERS}.issuperset(types):
            types = [_branch_type(part, column_types) for part in branches]
        branch_types = set(types)
        if len(branch_types) < 2 or None in branch_types or branch_types <= {"tinyint", "smallint", "int", "bigint"}:
            continue
        if not branch_types <= {"tinyint", "smallint", "int", "bigint", "double"}:
            type_names = ", ".join(sorted(map(str, branch_types)))
            raise NeedsSpark(f"{node.sql('spark')!r} has values of the types {type_names}; run this on Spark.")
        for part, branch_type in zip(branches, types, strict=True):
            if branch_type != "double":
                part.replace(exp.cast(part.copy(), "double"))
    return tree


def _add_parameter_types(tree: exp.Expression, types: dict[str, str]) -> None:
    """Add the types of parameters of lambdas over array columns, except for a name with two types."""
    for call in tree.find_all(exp.Anonymous):
        last_argument = call.expressions[-1] if call.expressions else None
        array_type = _plain_type(call.expressions[0], types) or "" if isinstance(last_argument, exp.Lambda) else ""
        if not isinstance(last_argument, exp.Lambda) or not array_type.startswith("array<"):
            continue
        parameter_types = [_plain_type(call.expressions[1], types)] if _called_function(call).folds else []
        for parameter_name, element_type in zip(
            [item.name.lower() for item in last_argument.expressions],
            [*parameter_types, array_type[6:-1]],
            strict=False,
        ):
            types[parameter_name] = (
                element_type or "" if types.get(parameter_name, element_type) == element_type else ""
            )


_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg)
_CASTS_OF_FLOAT = ("double", "bigint", "int")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_NARROW = ("tinyint", "smallint", "float")


def _called_function(node: exp.Expr) -> SparkFunction:
    return function_named(name_of_call(node)) if isinstance(node, exp.Anonymous) else NO_FUNCTION


def _choice_branches(node: exp.Expr) -> list[exp.Expr]:
    """Return the values among which an expression chooses, or which it puts into one list."""
    if isinstance(node, exp.If) and not isinstance(node.parent, exp.Case):
        return [part for part in (node.args["true"], node.args.get("false")) if part is not None]
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        return [*(branch.args["true"] for branch in node.args["ifs"]), *([default] if default is not None else [])]
    return list(node.expressions) if _called_function(node).chooses else []


def _branch_type(node: exp.Expr, column_types: Mapping[str, str]) -> str | None:
    """Return the type of a value among others, also that of a computed number, if it is certain, else None."""
    if (plain_type := _plain_type(node, column_types)) is not None:
        return plain_type
    columns = [Column(name, column_type) for name, column_type in column_types.items() if column_type]
    try:
        computed_type = expression_type(Expression(node.sql("spark")), columns)
    except ExpressionError:
        return None
    return computed_type if computed_type in _NUMBERS else None


def _plain_type(node: exp.Expr, column_types: Mapping[str, str]) -> str | None:
    """Return a value's type if it is certain, else None."""
    match node:
        case exp.Column() if len(node.parts) == 1:
            return column_types.get(node.name.lower()) or None
        case exp.Identifier():
            return column_types.get(node.name.lower()) or None
        case exp.Neg(this=exp.Literal() as literal) if literal.name == str(1 << 31):
            return "int"  # with its sign it is the smallest one
        case exp.Paren() | exp.Neg():
            return _plain_type(node.this, column_types)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
            return _wider_type([node.this, node.expression], column_types)
        case exp.IntDiv():
            return "bigint"
        case exp.Anonymous():
            function_type = _called_function(node).type
            return _wider_type(node.expressions, column_types) if function_type == "widest" else function_type or None
        case exp.Case() | exp.If():
            return _wider_type(_choice_branches(node), column_types)
        case exp.Boolean():
            return "boolean"
        case exp.Cast():
            return str(node.args["to"].sql("spark")).lower()
        case exp.Literal():
            return "string" if node.is_string else _number_type(node.name)
    return None


def _wider_type(nodes: Iterable[exp.Expr], types: Mapping[str, str]) -> str | None:
    """Return the common type of whole numbers; None for other values, and if a type is unknown."""
    plain_types = {_plain_type(node, types) for node in nodes if not isinstance(node, exp.Null)}
    return (
        ("bigint" if "bigint" in plain_types else "int") if plain_types and plain_types <= {"int", "bigint"} else None
    )


def _number_type(digits: str) -> str:
    if "e" in digits.lower():
        return "double"
    if "." in digits or int(digits) > LONG_MAX:
        return "decimal"
    return "int" if int(digits) < 1 << 31 else "bigint"
