"""Functions with a lambda: bounds the size of all the lambda's values together, like the value of a single call.

`transform(xs, x -> doc)` has the document as often as there are elements, and `aggregate(xs, 'a', (all, x) ->
concat(all, all))` doubles a text for each. So a value is null where its elements would have more than MADE_MAX
characters in all. That is computed before the value: each element is made alone, measured, and dropped.

Trees come from Catalyst's parser, so their types are not known here.
"""

from __future__ import annotations

from lakehouse.plan.spark_functions.guards import MADE_MAX
from lakehouse.plan.spark_functions.record import SparkFunction
from lakehouse.spark.expression.operators import record_of_node
from lakehouse.spark.jvm.tree.tree import Tree

# By the number of a lambda's variables: one call of it, for an element `e` of a record's `lambda_calls`.
CALLS = {
    1: "element_at(transform(array({e}.v0), `{place}`), 1)",
    2: "element_at(zip_with(array({e}.v0), array({e}.v1), `{place}`), 1)",
    3: "element_at(map_values(map_zip_with(map({e}.v0, {e}.v1), map({e}.v0, {e}.v2), `{place}`)), 1)",
}
LENGTH = "coalesce(length(cast(`0` AS string)), 0) + 1D"
KEPT = f"element_at(filter(array(`0`), x -> coalesce(length(cast(x AS string)), 0) <= {MADE_MAX}), 1)"


def size_condition(function: SparkFunction, lambda_: Tree, place: int) -> str | None:
    """Return the condition under which a lambda's values together are too large; None if they can't be.

    place: the placeholder of the lambda that gives the LENGTH of the value instead of the value.
    """
    body, *arguments = lambda_.children
    variable_names = [argument.first_name for argument in arguments]
    if _is_bounded(body, variable_names) or len(variable_names) not in CALLS:  # Spark refuses so many variables
        return None
    # Names that no lambda around this lambda has.
    size_name, entry_name = "_lakehouse_so_far", "_lakehouse_e"
    next_size = f"{size_name} + {CALLS[len(variable_names)].format(e=entry_name, place=place)}"
    fold_step = f"({size_name}, {entry_name}) -> if({size_name} > {MADE_MAX}, {size_name}, {next_size})"
    return f"aggregate({function.lambda_calls}, 0D, {fold_step}) > {MADE_MAX}"


def is_small(lambda_: Tree) -> bool:
    """Say whether a lambda's value has a few bytes, whatever its variables are."""
    body = lambda_.children[0]
    return record_of_node(body.kind, body.function).size == "small"


def _is_bounded(body: Tree, variable_names: list[str]) -> bool:
    """Say whether a lambda's value is at most a few times as large as its own variables."""
    if body.kind == "UnresolvedNamedLambdaVariable":
        return body.first_name in variable_names
    size = record_of_node(body.kind, body.function).size
    return size == "small" or (size == "linear" and all(_is_bounded(child, variable_names) for child in body.children))
