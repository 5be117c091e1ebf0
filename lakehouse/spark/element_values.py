"""Functions with a lambda: what all its calls make together is bounded, as the value of one call is.

`transform(xs, x -> doc)` has the document as often as there are elements, and `aggregate(xs, 'a', (all, x) ->
concat(all, all))` doubles a text for each. So a value is null where its elements would have more than MADE_MAX
characters in all, told before it is made: each element is made alone, measured, and let go.

Trees are Catalyst's, as its parser gives them; so no type is known here.
"""

from __future__ import annotations

from typing import Any

from lakehouse.plan.refused.sizes import MADE_MAX
from lakehouse.plan.refused.spark_functions import names

# By the place of the lambda, the last argument: its variables for one element, which `e` holds as v0, v1, ...
ENTRIES = {
    "transform": "transform(`0`, (x, i) -> named_struct('v0', x, 'v1', i))",
    "transform_keys": "transform(map_entries(`0`), x -> named_struct('v0', x.key, 'v1', x.value))",
    "transform_values": "transform(map_entries(`0`), x -> named_struct('v0', x.key, 'v1', x.value))",
    "zip_with": "zip_with(`0`, `1`, (x, y) -> named_struct('v0', x, 'v1', y))",
    "map_zip_with": "map_values(map_zip_with(`0`, `1`, (k, x, y) -> named_struct('v0', k, 'v1', x, 'v2', y)))",
}
# One call of a lambda with so many variables, for one element.
CALLS = {
    1: "element_at(transform(array({e}.v0), `{place}`), 1)",
    2: "element_at(zip_with(array({e}.v0), array({e}.v1), `{place}`), 1)",
    3: "element_at(map_values(map_zip_with(map({e}.v0, {e}.v1), map({e}.v0, {e}.v2), `{place}`)), 1)",
}
LENGTH = "coalesce(length(cast(`0` AS string)), 0) + 1D"
KEPT = f"element_at(filter(array(`0`), x -> coalesce(length(cast(x AS string)), 0) <= {MADE_MAX}), 1)"
FOLDS = ("aggregate", "reduce")

# What has a value of some bytes, whatever its arguments hold.
SMALL = names(
    """
    Add Subtract Multiply Divide IntegralDivide Remainder UnaryMinus UnaryPositive And Or Not IsNull IsNotNull EqualTo
    EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In RLike Like ILike
    abs array_contains array_position array_size bigint boolean cardinality ceil char_length contains datediff day
    double endswith exists floor float forall hour instr int isnotnull isnull len length like locate minute month pmod
    position regexp_count regexp_like rlike round second sign size smallint startswith tinyint year
    """
)
# What has the value of one of its arguments, or a few times what they hold.
LINEAR = names(
    """
    Literal If CaseWhen Cast Concat UnresolvedExtractValue CreateNamedStruct Alias NamePlaceholder
    array coalesce concat element_at get greatest if ifnull initcap least lower ltrim map named_struct nullif nvl nvl2
    rtrim string struct substr substring to_json trim upper
    """
)


def together(name: str, lambda_: Any, place: int) -> str | None:
    """Return the condition under which what a lambda's calls make is too much; None where it can't be.

    place: the placeholder that stands for the lambda which gives the LENGTH of the value instead of the value.
    """
    body, *arguments = _children(lambda_)
    of = [str(argument.nameParts().head()) for argument in arguments]
    if name not in ENTRIES or _is_bounded(body, of):
        return None
    # Names that no lambda around this one has.
    so_far, e = "_lakehouse_so_far", "_lakehouse_e"
    more = f"{so_far} + {CALLS[len(of)].format(e=e, place=place)}"
    step = f"({so_far}, {e}) -> if({so_far} > {MADE_MAX}, {so_far}, {more})"
    return f"aggregate({ENTRIES[name]}, 0D, {step}) > {MADE_MAX}"


def may_double(name: str, lambda_: Any) -> bool:
    """Say whether a fold's step may make more of what the steps before it made."""
    return name in FOLDS and _name(_children(lambda_)[0]) not in SMALL


def _is_bounded(body: Any, of: list[str]) -> bool:
    """Whether a lambda makes at most a few times what its own variables hold."""
    name = _name(body)
    if name == "UnresolvedNamedLambdaVariable":
        return str(body.nameParts().head()) in of
    return name in SMALL or (name in LINEAR and all(_is_bounded(child, of) for child in _children(body)))


def _name(tree: Any) -> str:
    kind = str(tree.getClass().getSimpleName())
    return str(tree.nameParts().last()).lower() if kind == "UnresolvedFunction" else kind


def _children(tree: Any) -> list[Any]:
    children = tree.children()
    return [children.apply(number) for number in range(children.size())]
