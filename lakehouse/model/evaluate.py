"""Expressions in Python, for the model: the common part of Spark SQL, nulls included; the rest raises `NeedsSpark`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from sqlglot import exp

from lakehouse.errors import NeedsSpark
from lakehouse.model.decimals import DECIMALS, long_arithmetic, negation_for_type, to_decimal
from lakehouse.model.function.json_text import Variant, cast_variant
from lakehouse.model.function.pattern import matches_like
from lakehouse.model.function.scalar import (
    CASTS,
    TRY_CASTS,
    arithmetic_operator,
    cast_to_other_type,
    condition_value,
    divide,
    element_at,
    is_in,
    java_modulo,
    strict_comparison,
    substring_of_text,
    to_string,
    whole_division,
    wrap_around,
)
from lakehouse.model.function.table import FUNCTIONS
from lakehouse.model.logic import (
    BITS,
    ColumnValues,
    Evaluator,
    and_evaluator,
    cast_to_one_type,
    compile_boolean,
    compile_column,
    compile_literal,
    null_beyond_years,
    null_safe_equality,
    or_evaluator,
    strict_function,
)
from lakehouse.plan.aggregation import decimal_digits
from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.spark_functions.table import function_named
from lakehouse.plan.written.parse import name_of_call
from lakehouse.semantics.aggregate.aggregate import LONG_MIN


def evaluate(expression: Expression, values: ColumnValues) -> Any:
    """Return an expression's value over columns by lower-case name. Raises NeedsSpark if Python can't tell."""
    try:
        return _compile_text(expression.text, expression.types)(values)
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:  # Spark may cast arguments
        raise NeedsSpark(f"{expression.text}: the model can't compute it ({error}); run this on Spark.") from error


@lru_cache(maxsize=4096)
def _compile_text(expression_text: str, column_types: tuple[Column, ...]) -> Evaluator:
    try:
        return _compile_top(cast_to_one_type(Expression(expression_text).written_tree, column_types))
    except NeedsSpark as error:
        return partial(_raise_needs_spark, str(error))  # cached like the others, so that further records cost nothing


def _raise_needs_spark(message: str, values: ColumnValues) -> Any:
    raise NeedsSpark(message)


def _compile_top(node: exp.Expression) -> Evaluator:
    """Compile a whole expression: only its final value becomes null for a moment beyond the years 1 to 9999."""
    if not isinstance(node, exp.Anonymous) or not function_named(name_of_call(node)).leaves_years:
        return _compile_node(node)
    return strict_function(null_beyond_years(FUNCTIONS[name_of_call(node)]), *map(_compile_node, node.expressions))


def _compile_node(node: exp.Expression) -> Evaluator:
    if (builder := _BUILDERS.get(type(node))) is not None:
        return builder(node)
    if (binary_function := _BINARY.get(type(node))) is not None:
        return strict_function(
            long_arithmetic(node, binary_function), _compile_node(node.this), _compile_node(node.expression)
        )
    if isinstance(node, exp.Anonymous):
        return _compile_call(node)
    raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")


def _compile_call(node: exp.Anonymous) -> Evaluator:
    record = function_named(name_of_call(node))
    function_name = record.same_as or record.name
    if (builder := _CALLS.get(function_name)) is not None:
        return builder(node)
    evaluators = [
        _compile_lambda(argument) if isinstance(argument, exp.Lambda) else _compile_node(argument)
        for argument in node.expressions
    ]
    if not record.model:
        raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")
    if function_name == "abs" and (bits := node.meta.get(BITS)):
        return strict_function(lambda value: wrap_around(abs(value), bits), *evaluators)
    function = FUNCTIONS[function_name]
    if record.model == "strict":
        return strict_function(function, *evaluators)
    return lambda values: function(*(evaluator(values) for evaluator in evaluators))


def _compile_lambda(node: exp.Expression) -> Evaluator:
    """Compile a lambda: its evaluator gives a function of the lambda's own arguments."""
    parameter_names, body = [parameter.name.lower() for parameter in node.expressions], _compile_node(node.this)
    return lambda values: lambda *arguments: body({**values, **dict(zip(parameter_names, arguments, strict=True))})


def _compile_dot(node: exp.Expression) -> Evaluator:
    struct, field_name = _compile_node(node.this), node.expression.name.lower()
    return strict_function(lambda row: next((v for k, v in row.items() if k.lower() == field_name), None), struct)


def _compile_bracket(node: exp.Expression) -> Evaluator:
    """Compile collection[index], counted from 0, or collection[key]."""
    return strict_function(element_at, _compile_node(node.this), _compile_node(node.expressions[0]))


def _compile_like(node: exp.Expression, escape: str = "\\") -> Evaluator:
    """Compile LIKE and NOT LIKE, which sqlglot has as one node."""
    expected = not node.args.get("negate")
    matches = lambda text, pattern: matches_like(text, pattern, escape) is expected  # noqa: E731
    return strict_function(matches, _compile_node(node.this), _compile_node(node.expression))


def _compile_escape(node: exp.Expression) -> Evaluator:
    if not isinstance(node.this, exp.Like) or not isinstance(node.expression, exp.Literal):
        raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")
    return _compile_like(node.this, node.expression.name)


def _compile_array(node: exp.Expression) -> Evaluator:
    evaluators = [_compile_node(item) for item in node.expressions]

    def run(values: ColumnValues) -> list[Any]:
        element_values = [evaluator(values) for evaluator in evaluators]
        if len({type(item) for item in element_values if item is not None}) > 1:
            raise NeedsSpark(f"the model does not cast {element_values!r} to one type; run this on Spark.")
        return element_values

    return run


def _compile_if(node: exp.Expression) -> Evaluator:
    default_node = node.args.get("false")
    condition, then_value = _compile_node(node.this), _compile_node(node.args["true"])
    else_value = _compile_node(default_node) if default_node is not None else lambda values: None
    return lambda values: then_value(values) if condition_value(condition(values)) else else_value(values)


def _compile_negation(node: exp.Expression) -> Evaluator:
    if isinstance(node.this, exp.Literal) and node.this.name == str(-LONG_MIN):
        return lambda values: LONG_MIN  # without its sign it would be a DECIMAL
    return strict_function(negation_for_type(node), _compile_node(node.this))


def _compile_operands(combine: Callable[[Evaluator, Evaluator], Evaluator]) -> Callable[[exp.Expression], Evaluator]:
    return lambda node: combine(_compile_node(node.this), _compile_node(node.expression))


def _compile_is(node: exp.Expression) -> Evaluator:
    # IS TRUE of another type than BOOLEAN is a comparison, for which Spark casts.
    return null_safe_equality(_compile_node(node.this), _compile_node(node.expression))


def _compile_coalesce(node: exp.Expression) -> Evaluator:
    evaluators = [_compile_node(item) for item in node.expressions]
    return lambda values: next((v for evaluator in evaluators if (v := evaluator(values)) is not None), None)


def _compile_in(node: exp.Expression) -> Evaluator:
    operand, option_evaluators = _compile_node(node.this), [_compile_node(item) for item in node.expressions]
    return lambda values: is_in(operand(values), [evaluator(values) for evaluator in option_evaluators])


def _compile_case(node: exp.Expression) -> Evaluator:
    branches = [(_compile_node(branch.this), _compile_node(branch.args["true"])) for branch in node.args["ifs"]]
    default_value = _compile_node(node.args["default"]) if node.args.get("default") else lambda values: None
    if node.this is not None:
        raise NeedsSpark(f"{node.sql('spark')!r}: the model knows CASE WHEN only; run this on Spark.")
    return lambda values: next(
        (result for condition, result in branches if condition_value(condition(values))), default_value
    )(values)


def _compile_struct(node: exp.Expression) -> Evaluator:
    field_evaluators = []
    for number, field_node in enumerate(node.expressions, 1):
        field_name = (
            field_node.alias_or_name
            if isinstance(field_node, exp.Alias | exp.Column | exp.Identifier | exp.Dot)
            else ""
        )
        field_evaluators.append((field_name or f"col{number}", _compile_node(field_node)))
    return lambda values: {field_name: evaluator(values) for field_name, evaluator in field_evaluators}


def _compile_named_struct(node: exp.Expression) -> Evaluator:
    name_literals, value_evaluators = node.expressions[::2], [_compile_node(item) for item in node.expressions[1::2]]
    if not all(isinstance(name_literal, exp.Literal) for name_literal in name_literals) or len(name_literals) != len(
        value_evaluators
    ):
        raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")
    return lambda values: {
        name_literal.name: evaluator(values)
        for name_literal, evaluator in zip(name_literals, value_evaluators, strict=True)
    }


def _compile_cast(node: exp.Expression) -> Evaluator:
    target_type = node.args["to"].sql("spark").lower()
    is_tried = bool(node.args.get("safe"))
    if target_type.startswith("decimal("):
        return strict_function(to_decimal(*decimal_digits(target_type)), _compile_exact(node.this))
    if is_tried and target_type in TRY_CASTS:
        return strict_function(TRY_CASTS[target_type], _compile_node(node.this))
    if is_tried and target_type.startswith("array<"):
        raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")
    plain_cast, variant_cast = CASTS.get(target_type) or cast_to_other_type(target_type), cast_variant(target_type)
    return strict_function(
        lambda value: (variant_cast if isinstance(value, Variant) else plain_cast)(value), _compile_node(node.this)
    )


def _compile_exact(node: exp.Expression) -> Evaluator:
    inner_node = node.this if isinstance(node, exp.Paren) else node
    decimal_function = DECIMALS.get(type(inner_node))
    return (
        _compile_node(node)
        if decimal_function is None
        else strict_function(decimal_function, _compile_node(inner_node.this), _compile_node(inner_node.expression))
    )


def _compile_between(node: exp.Expression) -> Evaluator:
    # Two comparisons, not one: 5 BETWEEN NULL AND 3 is false, whatever the null stands for.
    lower_bound = exp.GTE(this=node.this, expression=node.args["low"])
    return and_evaluator(
        _compile_node(lower_bound), _compile_node(exp.LTE(this=node.this, expression=node.args["high"]))
    )


def _compile_trim(node: exp.Expression) -> Evaluator:
    if node.args.get("position") or node.args.get("expression"):
        raise NeedsSpark(f"{node.sql('spark')!r}: the model trims blanks on both sides only; run this on Spark.")
    return strict_function(lambda text: text.strip(" "), _compile_node(node.this))


def _compile_position(node: exp.Expression) -> Evaluator:
    arguments = (node.args["substr"], node.this, node.args.get("position"))
    evaluators = [_compile_node(argument) for argument in arguments if argument is not None]
    return lambda values: FUNCTIONS["locate"](*(evaluator(values) for evaluator in evaluators))


def _compile_substring(node: exp.Expression) -> Evaluator:
    argument_nodes = [node.this, node.args["start"], node.args.get("length")]
    return strict_function(
        substring_of_text, *[_compile_node(argument) for argument in argument_nodes if argument is not None]
    )


_BINARY: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.EQ: strict_comparison(operator.eq),
    exp.NEQ: strict_comparison(operator.ne),
    exp.GT: strict_comparison(operator.gt),
    exp.GTE: strict_comparison(operator.ge),
    exp.LT: strict_comparison(operator.lt),
    exp.LTE: strict_comparison(operator.le),
    exp.Add: arithmetic_operator(operator.add),
    exp.Sub: arithmetic_operator(operator.sub),
    exp.Mul: arithmetic_operator(operator.mul),
    exp.Div: divide,
    exp.Mod: java_modulo,
    exp.IntDiv: whole_division,
    exp.DPipe: lambda a, b: to_string(a) + to_string(b),
}

_BUILDERS: dict[type[exp.Expression], Callable[[exp.Expression], Evaluator]] = {
    exp.Column: compile_column,
    exp.Identifier: lambda node: lambda values: values.get(node.name.lower()),
    exp.Dot: _compile_dot,
    exp.Bracket: _compile_bracket,
    exp.Like: _compile_like,
    exp.Escape: _compile_escape,
    exp.If: _compile_if,
    exp.NullSafeEQ: _compile_operands(null_safe_equality),
    exp.Literal: compile_literal,
    exp.Boolean: compile_boolean,
    exp.Null: lambda node: lambda values: None,
    exp.Paren: lambda node: _compile_node(node.this),
    exp.Alias: lambda node: _compile_node(node.this),
    exp.And: _compile_operands(and_evaluator),
    exp.Or: _compile_operands(or_evaluator),
    exp.Not: lambda node: strict_function(lambda value: not condition_value(value), _compile_node(node.this)),
    exp.Neg: _compile_negation,
    exp.Is: _compile_is,
    exp.In: _compile_in,
    exp.Case: _compile_case,
    exp.Between: _compile_between,
    exp.Cast: _compile_cast,
    exp.TryCast: _compile_cast,  # sqlglot's node for CAST and TRY_CAST; `safe` marks TRY_CAST
    exp.StrPosition: _compile_position,
    exp.Trim: _compile_trim,
    exp.RegexpLike: lambda node: strict_function(
        FUNCTIONS["rlike"], _compile_node(node.this), _compile_node(node.expression),
    ),
    exp.Substring: _compile_substring,
}  # fmt: skip

_CALLS: dict[str, Callable[[exp.Expression], Evaluator]] = {
    "array": _compile_array,
    "coalesce": _compile_coalesce,
    "struct": _compile_struct,
    "named_struct": _compile_named_struct,
    "mod": lambda node: strict_function(java_modulo, *map(_compile_node, node.expressions)),
    "negative": lambda node: strict_function(negation_for_type(node), *map(_compile_node, node.expressions)),
    "equal_null": lambda node: null_safe_equality(*map(_compile_node, node.expressions)),
}
