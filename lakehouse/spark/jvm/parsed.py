"""Parses the text of an expression: to Catalyst's tree."""

from __future__ import annotations

from lakehouse.spark.jvm.tree import Tree, parse_catalyst


def parse_tree(text: str) -> Tree:
    """Return the tree of an expression in Spark's SQL."""
    return parse_catalyst(text)
