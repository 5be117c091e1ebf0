"""How values of different types, and nulls, are put together: the casts that Spark adds, and three-valued logic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from sqlglot import exp

from lakehouse.errors import NeedsSpark
from lakehouse.model.scalar import equal
from lakehouse.plan.schema import Column
from lakehouse.plan.written.parse import name_of

# A mark at a node that computes whole numbers of a known type: how many bits they have.
BITS = "bits"
_BITS = {"int": 32, "bigint": 64}

ColumnValues = Mapping[str, Any]
Evaluator = Callable[[ColumnValues], Any]


def strict(function: Callable[..., Any], *parts: Evaluator) -> Evaluator:
    """Return null in, null out: the rule of nearly every SQL function."""

    def run(values: ColumnValues) -> Any:
        arguments = [part(values) for part in parts]
        return None if any(argument is None for argument in arguments) else function(*arguments)

    return run


def null_beyond(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of moments that is null for one beyond the years 1 to 9999."""

    def run(*arguments: Any) -> Any:
        try:
            return work(*arguments)
        except (OverflowError, ValueError):
            return None

    return run


def column(node: exp.Expression) -> Evaluator:
    """Return a column, or a field of one."""
    name, *fields = [part.name for part in node.parts]  # type: ignore[attr-defined]

    def run(values: ColumnValues) -> Any:
        value = values.get(name.lower())
        for item in fields:
            if value is None:
                return None
            value = [_field(one, item) for one in value] if isinstance(value, list) else _field(value, item)
        return value

    return run


def _field(of: Mapping[str, Any] | None, name: str) -> Any:
    return None if of is None else next((v for k, v in of.items() if k.lower() == name.lower()), None)


def literal(node: exp.Expression) -> Evaluator:
    """Return a text or a number that is written."""
    text = node.name
    value: Any = text
    if not node.is_string:
        value = int(text) if text.isdigit() else Decimal(text) if "e" not in text.lower() else float(text)
    return lambda values: value


def boolean(node: exp.Expression) -> Evaluator:
    """Return true or false."""
    value = bool(node.this)
    return lambda values: value


def both(left: Evaluator, right: Evaluator) -> Evaluator:
    """Return left AND right: false if one is, whatever the other is."""

    def run(values: ColumnValues) -> bool | None:
        a, b = left(values), right(values)
        return False if a is False or b is False else None if a is None or b is None else True

    return run


def either(left: Evaluator, right: Evaluator) -> Evaluator:
    """Return left OR right: true if one is, whatever the other is."""

    def run(values: ColumnValues) -> bool | None:
        a, b = left(values), right(values)
        return True if a is True or b is True else None if a is None or b is None else False

    return run


def null_safe(left: Evaluator, right: Evaluator) -> Evaluator:
    """Return left <=> right: true for two nulls."""

    def run(values: ColumnValues) -> bool | None:
        a, b = left(values), right(values)
        return a is b if a is None or b is None else equal(a, b)

    return run


def as_one_type(tree: exp.Expression, columns: Iterable[Column]) -> exp.Expression:
    """Return a tree with the casts by which Spark gives the branches of a choice one type.

    Raises NeedsSpark where values of different types meet for which the model has no such cast, and for arithmetic in
    types that are narrower than Python's.
    """
    types = {column.name.lower(): column.type.lower() for column in columns}
    if not types:
        return tree
    tree = tree.copy()
    _add_names(tree, types)
    for node in list(tree.walk()):
        computes = isinstance(node, _ARITHMETIC) or _is_call(node, ("abs", "negative"))
        if computes and any(_kind(part, types) in _NARROW for part in node.iter_expressions()):
            raise NeedsSpark(f"{node.sql('spark')!r} is computed in a narrow type; run this on Spark.")
        if computes and (bits := _BITS.get(_kind(node, types) or "")):
            node.meta[BITS] = bits
        if isinstance(node, exp.Cast) and _kind(node.this, types) == "float" and not node.is_type(*_OF_FLOAT):
            raise NeedsSpark(f"{node.sql('spark')!r} is of a FLOAT; run this on Spark.")
        branches = [part for part in _branches(node) if not isinstance(part, exp.Null)]
        kinds = {_kind(part, types) for part in branches}
        if len(kinds) < 2 or None in kinds or kinds <= {"tinyint", "smallint", "int", "bigint"}:
            continue
        if not kinds <= {"tinyint", "smallint", "int", "bigint", "double"}:
            shown = ", ".join(sorted(map(str, kinds)))
            raise NeedsSpark(f"{node.sql('spark')!r} has values of the types {shown}; run this on Spark.")
        for part in branches:
            if _kind(part, types) != "double":
                part.replace(exp.cast(part.copy(), "double"))
    return tree


def _add_names(tree: exp.Expression, types: dict[str, str]) -> None:
    """Add the types of the names in lambdas over a column that is an array; none for a name that has two."""
    for call in tree.find_all(exp.Anonymous):
        last = call.expressions[-1] if call.expressions else None
        kind = _kind(call.expressions[0], types) or "" if isinstance(last, exp.Lambda) else ""
        if not isinstance(last, exp.Lambda) or not kind.startswith("array<"):
            continue
        kinds = [_kind(call.expressions[1], types)] if name_of(call) in ("aggregate", "reduce") else []
        for name, of in zip([item.name.lower() for item in last.expressions], [*kinds, kind[6:-1]], strict=False):
            types[name] = of or "" if types.get(name, of) == of else ""


_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg)
_OF_FLOAT = ("double", "bigint", "int")
_NARROW = ("tinyint", "smallint", "float")


def _is_call(node: exp.Expr, names: Iterable[str]) -> bool:
    return isinstance(node, exp.Anonymous) and name_of(node) in names


def _branches(node: exp.Expr) -> list[exp.Expr]:
    """The values of which an expression gives one, or which it puts into one list."""
    if isinstance(node, exp.If) and not isinstance(node.parent, exp.Case):
        return [part for part in (node.args["true"], node.args.get("false")) if part is not None]
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        return [*(branch.args["true"] for branch in node.args["ifs"]), *([default] if default is not None else [])]
    return list(node.expressions) if _is_call(node, ("array", "coalesce", "greatest", "ifnull", "least", "nvl")) else []


def _kind(node: exp.Expr, types: Mapping[str, str]) -> str | None:
    """The type of a value, where it is plain to see."""
    match node:
        case exp.Column() if len(node.parts) == 1:
            return types.get(node.name.lower()) or None
        case exp.Identifier():
            return types.get(node.name.lower()) or None
        case exp.Paren() | exp.Neg():
            return _kind(node.this, types)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
            return _wider([node.this, node.expression], types)
        case exp.IntDiv():
            return "bigint"
        case exp.Anonymous() if name_of(node) in _INTS:
            return "int"
        case exp.Anonymous() if name_of(node) in _OF_ALL:
            return _wider(node.expressions, types)
        case exp.Case() | exp.If():
            return _wider(_branches(node), types)
        case exp.Boolean():
            return "boolean"
        case exp.Cast():
            return str(node.args["to"].sql("spark")).lower()
        case exp.Literal():
            return "string" if node.is_string else _number(node.name)
    return None


_INTS = ("length", "size", "ksql_length", "ksql_find", "unix_date", "year", "month")
_OF_ALL = ("abs", "negative", "coalesce", "greatest", "least", "ifnull", "nvl", "pmod")


def _wider(nodes: Iterable[exp.Expr], types: Mapping[str, str]) -> str | None:
    """The type of whole numbers together; None for others, and where one is not known."""
    kinds = {_kind(node, types) for node in nodes if not isinstance(node, exp.Null)}
    return ("bigint" if "bigint" in kinds else "int") if kinds and kinds <= {"int", "bigint"} else None


def _number(digits: str) -> str:
    if "e" in digits.lower():
        return "double"
    return "decimal" if "." in digits else "int" if int(digits) < 1 << 31 else "bigint"
