"""Expressions in Python, for the model: the common part of Spark SQL, with its nulls; for the rest, `NeedsSpark`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from sqlglot import exp

from lakehouse.errors import NeedsSpark
from lakehouse.model.decimals import DECIMALS, long_arithmetic, negation, to_decimal
from lakehouse.model.function.json_text import Variant, cast_variant
from lakehouse.model.function.pattern import like
from lakehouse.model.functions import SAME, STRICT, WITH_NULLS
from lakehouse.model.logic import (
    BITS,
    ColumnValues,
    Evaluator,
    as_one_type,
    boolean,
    both,
    column,
    either,
    literal,
    null_beyond,
    null_safe,
    strict,
)
from lakehouse.model.scalar import (
    CASTS,
    TRIED,
    among,
    arithmetic,
    as_long,
    at_place,
    comparison,
    divide,
    modulo,
    other_cast,
    substring,
    to_string,
    whole_division,
)
from lakehouse.plan.aggregation import decimal_digits
from lakehouse.plan.expression import Expression
from lakehouse.plan.schema import Column
from lakehouse.plan.written.parse import name_of


def evaluate(item: Expression, values: ColumnValues) -> Any:
    """Return an expression's value over columns by lower-case name; NeedsSpark if Python can't tell."""
    try:
        return _compiled(item.text, item.types)(values)
    except (TypeError, ValueError, ArithmeticError) as error:  # arguments that Spark casts, other forms of a function
        raise NeedsSpark(f"{item.text}: the model can't compute it ({error}); run this on Spark.") from error


@lru_cache(maxsize=4096)
def _compiled(text: str, types: tuple[Column, ...]) -> Evaluator:
    try:
        return _at_top(as_one_type(Expression(text).written, types))
    except NeedsSpark as error:
        return partial(_silent, str(error))  # kept as the others are: a record more costs nothing


def _silent(message: str, values: ColumnValues) -> Any:
    raise NeedsSpark(message)


def _at_top(node: exp.Expression) -> Evaluator:
    """A whole expression: a moment beyond the years 1 to 9999 is null there, and only there."""
    if not isinstance(node, exp.Anonymous) or name_of(node) not in _MOVED:
        return _compile(node)
    return strict(null_beyond(STRICT[name_of(node)]), *map(_compile, node.expressions))


def _compile(node: exp.Expression) -> Evaluator:
    if (build := _BUILDERS.get(type(node))) is not None:
        return build(node)
    if (binary := _BINARY.get(type(node))) is not None:
        return strict(long_arithmetic(node, binary), _compile(node.this), _compile(node.expression))
    if isinstance(node, exp.Anonymous):
        return _function(node)
    raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")


def _function(node: exp.Anonymous) -> Evaluator:
    name = SAME.get(name_of(node), name_of(node))
    if (build := _CALLS.get(name)) is not None:
        return build(node)
    parts = [_lambda(item) if isinstance(item, exp.Lambda) else _compile(item) for item in node.expressions]
    if (work := WITH_NULLS.get(name)) is not None:
        return lambda values: work(*(part(values) for part in parts))
    if name == "abs" and (bits := node.meta.get(BITS)):
        return strict(lambda value: as_long(abs(value), bits), *parts)
    if name not in STRICT:
        raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")
    return strict(STRICT[name], *parts)


def _lambda(node: exp.Expression) -> Evaluator:
    """A function over the values: of its own arguments."""
    names, body = [item.name.lower() for item in node.expressions], _compile(node.this)
    return lambda values: lambda *given: body({**values, **dict(zip(names, given, strict=True))})


def _dot(node: exp.Expression) -> Evaluator:
    of, name = _compile(node.this), node.expression.name.lower()
    return strict(lambda row: next((v for k, v in row.items() if k.lower() == name), None), of)


def _bracket(node: exp.Expression) -> Evaluator:
    """of[place], counted from 0, or of[key]."""
    return strict(at_place, _compile(node.this), _compile(node.expressions[0]))


def _like(node: exp.Expression, escape: str = "\\") -> Evaluator:
    """LIKE, and NOT LIKE, which sqlglot has as one node."""
    wanted = not node.args.get("negate")
    work = lambda text, pattern: like(text, pattern, escape) is wanted  # noqa: E731
    return strict(work, _compile(node.this), _compile(node.expression))


def _escape(node: exp.Expression) -> Evaluator:
    if not isinstance(node.this, exp.Like) or not isinstance(node.expression, exp.Literal):
        raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")
    return _like(node.this, node.expression.name)


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


def _both(join: Callable[[Evaluator, Evaluator], Evaluator]) -> Callable[[exp.Expression], Evaluator]:
    return lambda node: join(_compile(node.this), _compile(node.expression))


def _is(node: exp.Expression) -> Evaluator:
    left, right = _compile(node.this), _compile(node.expression)
    return lambda values: left(values) is right(values)


def _coalesce(node: exp.Expression) -> Evaluator:
    parts = [_compile(item) for item in node.expressions]
    return lambda values: next((v for part in parts if (v := part(values)) is not None), None)


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
    for number, item in enumerate(node.expressions, 1):
        name = item.alias_or_name if isinstance(item, exp.Alias | exp.Column | exp.Identifier | exp.Dot) else ""
        fields.append((name or f"col{number}", _compile(item)))
    return lambda values: {name: field(values) for name, field in fields}


def _named_struct(node: exp.Expression) -> Evaluator:
    names, parts = node.expressions[::2], [_compile(item) for item in node.expressions[1::2]]
    if not all(isinstance(name, exp.Literal) for name in names) or len(names) != len(parts):
        raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")
    return lambda values: {name.name: part(values) for name, part in zip(names, parts, strict=True)}


def _cast(node: exp.Expression) -> Evaluator:
    kind = node.args["to"].sql("spark").lower()
    tried = bool(node.args.get("safe"))
    if kind.startswith("decimal("):
        return strict(to_decimal(*decimal_digits(kind)), _exact(node.this))
    if tried and kind in TRIED:
        return strict(TRIED[kind], _compile(node.this))
    if tried and kind.startswith("array<"):
        raise NeedsSpark(f"{node.sql('spark')!r} has no Python form in the model; run this on Spark.")
    plain, of_variant = CASTS.get(kind) or other_cast(kind), cast_variant(kind)
    return strict(lambda value: (of_variant if isinstance(value, Variant) else plain)(value), _compile(node.this))


def _exact(node: exp.Expression) -> Evaluator:
    inner = node.this if isinstance(node, exp.Paren) else node
    work = DECIMALS.get(type(inner))
    return _compile(node) if work is None else strict(work, _compile(inner.this), _compile(inner.expression))


def _between(node: exp.Expression) -> Evaluator:
    # Two comparisons, not one: 5 BETWEEN NULL AND 3 is false, whatever the null would be.
    low = exp.GTE(this=node.this, expression=node.args["low"])
    return both(_compile(low), _compile(exp.LTE(this=node.this, expression=node.args["high"])))


def _trim(node: exp.Expression) -> Evaluator:
    if node.args.get("position") or node.args.get("expression"):
        raise NeedsSpark(f"{node.sql('spark')!r}: the model trims blanks on both sides only; run this on Spark.")
    return strict(lambda text: text.strip(" "), _compile(node.this))


def _position(node: exp.Expression) -> Evaluator:
    if node.args.get("position") is None:
        return strict(STRICT["position"], _compile(node.args["substr"]), _compile(node.this))
    parts = [_compile(part) for part in (node.args["substr"], node.this, node.args["position"])]
    return lambda values: WITH_NULLS["locate"](*(part(values) for part in parts))


def _substring(node: exp.Expression) -> Evaluator:
    parts = [node.this, node.args["start"], node.args.get("length")]
    return strict(substring, *[_compile(part) for part in parts if part is not None])


# Functions of which a moment far away may come.
_MOVED = ("timestamp_millis", "date_from_unix_date", "add_months", "date_add")
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
    exp.Column: column,
    exp.Identifier: lambda node: lambda values: values.get(node.name.lower()),
    exp.Dot: _dot,
    exp.Bracket: _bracket,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.If: _if,
    exp.NullSafeEQ: _both(null_safe),
    exp.Literal: literal,
    exp.Boolean: boolean,
    exp.Null: lambda node: lambda values: None,
    exp.Paren: lambda node: _compile(node.this),
    exp.Alias: lambda node: _compile(node.this),
    exp.And: _both(both),
    exp.Or: _both(either),
    exp.Not: lambda node: strict(operator.not_, _compile(node.this)),
    exp.Neg: lambda node: strict(negation(node), _compile(node.this)),
    exp.Is: _is,
    exp.In: _in,
    exp.Case: _case,
    exp.Between: _between,
    exp.Cast: _cast,
    exp.TryCast: _cast,  # sqlglot's node for both of Spark's; `safe` is TRY_CAST's
    exp.StrPosition: _position,
    exp.Trim: _trim,
    exp.RegexpLike: lambda node: strict(STRICT["rlike"], _compile(node.this), _compile(node.expression)),
    exp.Substring: _substring,
}  # fmt: skip

_CALLS: dict[str, Callable[[exp.Expression], Evaluator]] = {
    "array": _array,
    "coalesce": _coalesce,
    "struct": _struct,
    "named_struct": _named_struct,
    "%": lambda node: strict(modulo, *map(_compile, node.expressions)),
    "-": lambda node: strict(negation(node), *map(_compile, node.expressions)),
    "<=>": lambda node: null_safe(*map(_compile, node.expressions)),
}
