"""Parses the text of an expression: to Catalyst's tree, or to a tree that Spark gets as SQL text."""

from __future__ import annotations

from functools import lru_cache

from lakehouse.errors import PlanError
from lakehouse.spark.jvm.capability import Capability, choose_way, is_available, report_missing
from lakehouse.spark.jvm.tree.ksql_functions import without_lambdas
from lakehouse.spark.jvm.tree.read_written import can_catch, parse_written
from lakehouse.spark.jvm.tree.tree import Tree, parse_catalyst

NOTHING_CATCHES = (
    "This build of Spark has neither its internals nor a public function that catches failures, so lakehouse can't "
    "compute {text!r} without stopping at the first record on which it fails. Expected Spark 4.2, or plain columns."
)


def takes_catalyst() -> bool:
    """Say whether expressions become Catalyst's trees."""
    return is_available(Capability.EXPRESSIONS) and choose_way(Capability.EXPRESSIONS, _try_catalyst, lambda: False)


@lru_cache(maxsize=1)
def _try_catalyst() -> bool:
    """Build a column of trees in each way that `Tree` has."""
    call = parse_catalyst("f(cast(x AS int))")
    call.with_children(call.children).try_eval().column()
    (argument,) = call.children
    if (call.function, argument.kind, argument.type_text, argument.is_try_cast) == ("f", "Cast", "int", False):
        return True
    report_missing(Capability.EXPRESSIONS, "its trees have other names")
    return False


def parse_tree(text: str) -> Tree:
    """Return the tree of an expression in Spark's SQL. Raises PlanError for one that needs Spark's internals."""
    if takes_catalyst():
        return parse_catalyst(text)
    if not can_catch():
        raise PlanError(NOTHING_CATCHES.format(text=text))
    return without_lambdas(parse_written(text), text)
