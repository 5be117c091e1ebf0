"""Functions with a lambda: bounds the size of all the lambda's values together, like the value of a single call.

`transform(xs, x -> doc)` has the document as often as there are elements, and `aggregate(xs, 'a', (all, x) ->
concat(all, all))` doubles a text for each. So a value is null where its elements would have more than MADE_MAX
characters in all. That is computed before the value: each element is made alone, measured, and dropped.

Trees come from Catalyst's parser, so their types are not known here.
"""

from __future__ import annotations

from lakehouse.plan.refused.sizes import MADE_MAX
from lakehouse.plan.refused.spark_functions import word_set
from lakehouse.spark.jvm.tree import Tree

# By function: an array with an element for each call of the lambda, its last argument: the variables as v0, v1, ...
ENTRIES = {
    "transform": "transform(`0`, (x, i) -> named_struct('v0', x, 'v1', i))",
    "transform_keys": "transform(map_entries(`0`), x -> named_struct('v0', x.key, 'v1', x.value))",
    "transform_values": "transform(map_entries(`0`), x -> named_struct('v0', x.key, 'v1', x.value))",
    "zip_with": "zip_with(`0`, `1`, (x, y) -> named_struct('v0', x, 'v1', y))",
    "map_zip_with": "map_values(map_zip_with(`0`, `1`, (k, x, y) -> named_struct('v0', k, 'v1', x, 'v2', y)))",
}
# By the number of a lambda's variables: one call of it, for an element `e` of ENTRIES.
CALLS = {
    1: "element_at(transform(array({e}.v0), `{place}`), 1)",
    2: "element_at(zip_with(array({e}.v0), array({e}.v1), `{place}`), 1)",
    3: "element_at(map_values(map_zip_with(map({e}.v0, {e}.v1), map({e}.v0, {e}.v2), `{place}`)), 1)",
}
LENGTH = "coalesce(length(cast(`0` AS string)), 0) + 1D"
KEPT = f"element_at(filter(array(`0`), x -> coalesce(length(cast(x AS string)), 0) <= {MADE_MAX}), 1)"
FOLDS = ("aggregate", "reduce")

# Nodes and functions whose value has a few bytes, whatever their arguments are.
SMALL = word_set(
    """
    Add Subtract Multiply Divide IntegralDivide Remainder UnaryMinus UnaryPositive And Or Not IsNull IsNotNull EqualTo
    EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In RLike Like ILike
    abs array_contains array_position array_size bigint boolean cardinality ceil char_length contains datediff day
    double endswith exists floor float forall hour instr int isnotnull isnull len length like locate minute month pmod
    position regexp_count regexp_like rlike round second sign size smallint startswith tinyint year
    """
)
# Nodes and functions whose value is one of their arguments, or at most a few times as large as these together.
LINEAR = word_set(
    """
    Literal If CaseWhen Cast Concat UnresolvedExtractValue CreateNamedStruct Alias NamePlaceholder
    array coalesce concat element_at get greatest if ifnull initcap least lower ltrim map named_struct nullif nvl nvl2
    rtrim string struct substr substring to_json trim upper
    """
)


def size_condition(name: str, lambda_: Tree, place: int) -> str | None:
    """Return the condition under which a lambda's values together are too large; None if they can't be.

    place: the placeholder of the lambda that gives the LENGTH of the value instead of the value.
    """
    body, *arguments = lambda_.children
    variable_names = [argument.first_name for argument in arguments]
    if name not in ENTRIES or _is_bounded(body, variable_names):
        return None
    # Names that no lambda around this lambda has.
    size_name, entry_name = "_lakehouse_so_far", "_lakehouse_e"
    next_size = f"{size_name} + {CALLS[len(variable_names)].format(e=entry_name, place=place)}"
    fold_step = f"({size_name}, {entry_name}) -> if({size_name} > {MADE_MAX}, {size_name}, {next_size})"
    return f"aggregate({ENTRIES[name]}, 0D, {fold_step}) > {MADE_MAX}"


def may_double(name: str, lambda_: Tree) -> bool:
    """Say whether a fold's step may enlarge the result of the steps before it."""
    return name in FOLDS and lambda_.children[0].name not in SMALL


def _is_bounded(body: Tree, variable_names: list[str]) -> bool:
    """Say whether a lambda's value is at most a few times as large as its own variables."""
    name = body.name
    if name == "UnresolvedNamedLambdaVariable":
        return body.first_name in variable_names
    return name in SMALL or (name in LINEAR and all(_is_bounded(child, variable_names) for child in body.children))
