"""Expressions in Python, for the model: the common part of Spark SQL, with its nulls; for the rest, `NeedsSpark`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sqlglot import exp

from lakehouse.errors import NeedsSpark
from lakehouse.model.decimals import DECIMALS, to_decimal
from lakehouse.model.functions import STRICT, WITH_NULLS, plain_call
from lakehouse.model.scalar import (
    CASTS,
    among,
    arithmetic,
    comparison,
    divide,
    equal,
    like,
    modulo,
    negated,
    other_cast,
    substring,
    to_string,
    whole_division,
)
from lakehouse.plan.aggregation import decimal_digits
from lakehouse.plan.expression import Expression

ColumnValues = Mapping[str, Any]
Evaluator = Callable[[ColumnValues], Any]


def evaluate(item: Expression, values: ColumnValues) -> Any:
    """Return an expression's value over columns by lower-case name; NeedsSpark if Python can't tell."""
    try:
        return _compiled(item.text)(values)
    except (TypeError, ValueError, OverflowError) as error:  # arguments that Spark casts, other forms of a function
        raise NeedsSpark(f"{item.text}: the model can't compute it ({error}); run this on Spark.") from error


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Evaluator:
    return _compile(Expression(text).tree)


def _strict(function: Callable[..., Any], *parts: Evaluator) -> Evaluator:
    """Null in, null out: the rule of nearly every SQL function."""

    def run(values: ColumnValues) -> Any:
        arguments = [part(values) for part in parts]
        return None if any(argument is None for argument in arguments) else function(*arguments)

    return run


def _compile(node: exp.Expression) -> Evaluator:
    if (build := _BUILDERS.get(type(node))) is not None:
        return build(node)
    if (binary := _BINARY.get(type(node))) is not None:
        return _strict(binary, _compile(node.this), _compile(node.expression))
    if isinstance(node, exp.Func):
        return _function(node)
    raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")


def _function(node: exp.Expression) -> Evaluator:
    name, arguments = plain_call(node)
    parts = [_lambda(item) if isinstance(item, exp.Lambda) else _compile(item) for item in arguments]
    if (work := WITH_NULLS.get(name)) is not None:
        return lambda values: work(*(part(values) for part in parts))
    if name not in STRICT:
        raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")
    return _strict(STRICT[name], *parts)


def _lambda(node: exp.Expression) -> Evaluator:
    """A function over the values: of its own arguments."""
    names, body = [item.name.lower() for item in node.expressions], _compile(node.this)
    return lambda values: lambda *given: body({**values, **dict(zip(names, given, strict=True))})


def _dot(node: exp.Expression) -> Evaluator:
    of, name = _compile(node.this), node.expression.name.lower()
    return _strict(lambda row: next((v for k, v in row.items() if k.lower() == name), None), of)


def _bracket(node: exp.Expression) -> Evaluator:
    """try_element_at(of, key), in sqlglot's form; of[place], counted from 0."""
    if not node.args.get("offset") and not node.args.get("safe"):
        return _strict(STRICT["get"], _compile(node.this), _compile(node.expressions[0]))
    if node.args.get("offset") != 1 or not node.args.get("safe"):
        raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")
    return _strict(STRICT["try_element_at"], _compile(node.this), _compile(node.expressions[0]))


def _like(node: exp.Expression) -> Evaluator:
    """LIKE, and NOT LIKE, which sqlglot has as one node."""
    wanted = not node.args.get("negate")
    return _strict(lambda text, pattern: like(text, pattern) is wanted, _compile(node.this), _compile(node.expression))


def _array(node: exp.Expression) -> Evaluator:
    parts = [_compile(item) for item in node.expressions]

    def run(values: ColumnValues) -> list[Any]:
        items = [part(values) for part in parts]
        if len({type(item) for item in items if item is not None}) > 1:
            raise NeedsSpark(f"the model does not cast {items!r} to one type; run this on Spark.")
        return items

    return run


def _if(node: exp.Expression) -> Evaluator:
    default = node.args.get("false")
    when, then = _compile(node.this), _compile(node.args["true"])
    other = _compile(default) if default is not None else lambda values: None
    return lambda values: then(values) if when(values) is True else other(values)


def _column(node: exp.Expression) -> Evaluator:
    name, *fields = [part.name for part in node.parts]  # type: ignore[attr-defined]

    def run(values: ColumnValues) -> Any:
        value = values.get(name.lower())
        for item in fields:
            if value is None:
                return None
            value = next((v for k, v in value.items() if k.lower() == item.lower()), None)
        return value

    return run


def _literal(node: exp.Expression) -> Evaluator:
    text = node.name
    value: Any = text
    if not node.is_string:
        value = int(text) if text.isdigit() else Decimal(text) if "e" not in text.lower() else float(text)
    return lambda values: value


def _boolean(node: exp.Expression) -> Evaluator:
    value = bool(node.this)
    return lambda values: value


def _and(node: exp.Expression) -> Evaluator:
    left, right = _compile(node.this), _compile(node.expression)

    def run(values: ColumnValues) -> bool | None:
        a, b = left(values), right(values)
        return False if a is False or b is False else None if a is None or b is None else True

    return run


def _or(node: exp.Expression) -> Evaluator:
    left, right = _compile(node.this), _compile(node.expression)

    def run(values: ColumnValues) -> bool | None:
        a, b = left(values), right(values)
        return True if a is True or b is True else None if a is None or b is None else False

    return run


def _is(node: exp.Expression) -> Evaluator:
    left, right = _compile(node.this), _compile(node.expression)
    return lambda values: left(values) is right(values)


def _coalesce(node: exp.Expression) -> Evaluator:
    parts = [_compile(item) for item in (node.this, *node.expressions)]
    return lambda values: next((v for part in parts if (v := part(values)) is not None), None)


def _null_safe(left: Evaluator, right: Evaluator) -> Evaluator:
    def run(values: ColumnValues) -> bool | None:
        a, b = left(values), right(values)
        return a is b if a is None or b is None else equal(a, b)

    return run


def _in(node: exp.Expression) -> Evaluator:
    value, options = _compile(node.this), [_compile(item) for item in node.expressions]
    return lambda values: among(value(values), [option(values) for option in options])


def _case(node: exp.Expression) -> Evaluator:
    branches = [(_compile(item.this), _compile(item.args["true"])) for item in node.args["ifs"]]
    default = _compile(node.args["default"]) if node.args.get("default") else lambda values: None
    if node.this is not None:
        raise NeedsSpark(f"{node.sql('spark')!r}: the model knows CASE WHEN only; run this on Spark.")
    return lambda values: next((then for when, then in branches if when(values) is True), default)(values)


def _struct(node: exp.Expression) -> Evaluator:
    fields = []
    for item in node.expressions:
        value = item.expression if isinstance(item, exp.PropertyEQ) else item
        fields.append((item.this.name if isinstance(item, exp.PropertyEQ) else item.name, _compile(value)))
    return lambda values: {name: field(values) for name, field in fields}


def _cast(node: exp.Expression) -> Evaluator:
    kind = node.args["to"].sql("spark").lower()
    if kind.startswith("decimal("):
        return _strict(to_decimal(*decimal_digits(kind)), _exact(node.this))
    return _strict(CASTS.get(kind) or other_cast(kind), _compile(node.this))


def _exact(node: exp.Expression) -> Evaluator:
    inner = node.this if isinstance(node, exp.Paren) else node
    work = DECIMALS.get(type(inner))
    return _compile(node) if work is None else _strict(work, _compile(inner.this), _compile(inner.expression))


def _between(node: exp.Expression) -> Evaluator:
    # Two comparisons, not one: 5 BETWEEN NULL AND 3 is false, whatever the null would be.
    low, high = node.args["low"], node.args["high"]
    return _and(
        exp.And(this=exp.GTE(this=node.this, expression=low), expression=exp.LTE(this=node.this, expression=high))
    )


def _trim(node: exp.Expression) -> Evaluator:
    if node.args.get("position") or node.args.get("expression"):
        raise NeedsSpark(f"{node.sql('spark')!r}: the model trims blanks on both sides only; run this on Spark.")
    return _strict(lambda text: text.strip(" "), _compile(node.this))


def _substring(node: exp.Expression) -> Evaluator:
    parts = [node.this, node.args["start"], node.args.get("length")]
    return _strict(substring, *[_compile(part) for part in parts if part is not None])


_BINARY: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.EQ: comparison(operator.eq),
    exp.NEQ: comparison(operator.ne),
    exp.GT: comparison(operator.gt),
    exp.GTE: comparison(operator.ge),
    exp.LT: comparison(operator.lt),
    exp.LTE: comparison(operator.le),
    exp.Add: arithmetic(operator.add),
    exp.Sub: arithmetic(operator.sub),
    exp.Mul: arithmetic(operator.mul),
    exp.Div: divide,
    exp.Mod: modulo,
    exp.IntDiv: whole_division,
    exp.DPipe: lambda a, b: to_string(a) + to_string(b),
}

_BUILDERS: dict[type[exp.Expression], Callable[[exp.Expression], Evaluator]] = {
    exp.Column: _column,
    exp.Identifier: lambda node: lambda values: values.get(node.name.lower()),
    exp.Dot: _dot,
    exp.Bracket: _bracket,
    exp.Like: _like,
    exp.Array: _array,
    exp.If: _if,
    exp.NullSafeEQ: lambda node: _null_safe(_compile(node.this), _compile(node.expression)),
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: lambda node: lambda values: None,
    exp.Paren: lambda node: _compile(node.this),
    exp.Alias: lambda node: _compile(node.this),
    exp.And: _and,
    exp.Or: _or,
    exp.Not: lambda node: _strict(operator.not_, _compile(node.this)),
    exp.Neg: lambda node: _strict(negated, _compile(node.this)),
    exp.Is: _is,
    exp.Coalesce: _coalesce,
    exp.In: _in,
    exp.Case: _case,
    exp.Between: _between,
    exp.Struct: _struct,
    exp.Cast: _cast,
    exp.TryCast: _cast,  # sqlglot's form of Spark's CAST, which is null on failure
    exp.Upper: lambda node: _strict(str.upper, _compile(node.this)),
    exp.Lower: lambda node: _strict(str.lower, _compile(node.this)),
    exp.Trim: _trim,
    exp.Length: lambda node: _strict(len, _compile(node.this)),
    exp.RegexpLike: lambda node: _strict(STRICT["rlike"], _compile(node.this), _compile(node.expression)),
    exp.LowerHex: lambda node: _strict(lambda value: STRICT["hex"](value).lower(), _compile(node.this)),
    exp.UnixDate: lambda node: _strict(STRICT["unix_date"], _compile(node.this)),
    exp.Abs: lambda node: _strict(lambda value: negated(value) if value < 0 else value, _compile(node.this)),
    exp.Substring: _substring,
    exp.Concat: lambda node: _strict(STRICT["concat"], *[_compile(item) for item in node.expressions]),
}  # fmt: skip
