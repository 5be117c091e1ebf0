"""The tree of an expression, as `lakehouse.spark.expression.declared` guards it: Catalyst's, or one of SQL text.

A tree has a kind, Catalyst's name of a node's class, and children; a call of a function has the function's name. The
private way builds Catalyst's own trees. The plain way (`written_tree.py`) parses the text in Python, and gives Spark
the text of the guarded tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol, cast

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.spark.jvm.capability import Capability, is_available
from lakehouse.spark.jvm.java import active_jvm

FUNCTION = "UnresolvedFunction"
# Nodes without children that are a name.
ATTRIBUTES = ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable")
LAMBDA, LITERAL = "LambdaFunction", "Literal"


class Tree(Protocol):
    """A node of an expression, with what is below it. It never changes."""

    @property
    def kind(self) -> str:
        """The name of Catalyst's class."""

    @property
    def function(self) -> str:
        """The name of the function in lower case, if the node is a call; else an empty text."""

    @property
    def name(self) -> str:
        """The name of the function, else the kind."""

    @property
    def children(self) -> list[Tree]: ...

    @property
    def first_name(self) -> str:
        """The first part of an attribute's name, or of a lambda variable's."""

    @property
    def literal(self) -> Any:
        """The value of a literal; a text has its own class, whose `str` is the text."""

    @property
    def type_text(self) -> str:
        """The type of a literal or a cast, as Spark SQL writes it, in lower case."""

    @property
    def is_try_cast(self) -> bool: ...

    def with_children(self, children: Sequence[Tree]) -> Tree:
        """Return the same node over other children."""

    def try_eval(self) -> Tree:
        """Return a tree that is null where this one raises."""

    def as_guarded(self) -> Tree:
        """Return the same tree, marked as one that never raises."""

    def call_java(self, java_call: Callable[..., Any], arguments: Sequence[Tree]) -> Tree | None:
        """Return a call of a Java method over the arguments, null where it raises.

        None if this tree's call is a function of the session.
        """

    def column(self) -> Column:
        """Return the tree as a column."""


class CatalystTree:
    """A tree of Catalyst; each question is a call to Java, so the answers are kept."""

    def __init__(self, java: Any) -> None:
        self.java = java

    @cached_property
    def kind(self) -> str:
        return str(self.java.getClass().getSimpleName())

    @cached_property
    def function(self) -> str:
        return str(self.java.nameParts().last()).lower() if self.kind == FUNCTION else ""

    @property
    def name(self) -> str:
        return self.function or self.kind

    @cached_property
    def children(self) -> list[Tree]:
        children = self.java.children()
        return [CatalystTree(children.apply(number)) for number in range(children.size())]

    @property
    def first_name(self) -> str:
        return str(self.java.nameParts().head())

    @property
    def literal(self) -> Any:
        return self.java.value()

    @property
    def type_text(self) -> str:
        return str(self.java.dataType().sql()).lower()

    @property
    def is_try_cast(self) -> bool:
        return str(self.java.evalMode()) == "TRY"

    def with_children(self, children: Sequence[Tree]) -> Tree:
        java_children = active_jvm().PythonUtils.toSeq([_java(tree) for tree in children])
        return CatalystTree(self.java.withNewChildren(java_children))

    def as_guarded(self) -> Tree:
        return self

    def try_eval(self) -> Tree:
        return CatalystTree(active_jvm().org.apache.spark.sql.catalyst.expressions.TryEval(self.java))

    def call_java(self, java_call: Callable[..., Any], arguments: Sequence[Tree]) -> Tree | None:
        if not is_available(Capability.JAVA_CALLS):
            return None
        tried_call = CatalystTree(java_call(*map(_java, arguments))).try_eval()
        varying_arguments = [tree for tree in arguments if any(node.kind in ATTRIBUTES for node in all_nodes(tree))]
        return _kept_apart(tried_call, varying_arguments[0]) if varying_arguments else tried_call

    def column(self) -> Column:
        java_column = active_jvm().org.apache.spark.sql.classic.ExpressionUtils.column(self.java)
        return cast(Column, cast(Any, type(F.lit(1)))(java_column))


def all_nodes(tree: Tree) -> Iterator[Tree]:
    """Yield a tree's nodes, from its top."""
    yield tree
    for child in tree.children:
        yield from all_nodes(child)


def _kept_apart(tried_call: Tree, argument: Tree) -> Tree:
    """Return a call under a condition that is always true, and that Spark can't know to be so.

    If two calls share a part, such as the parsed JSON of two paths, Spark computes it once, before both, and outside of
    TryEval: a text that is no JSON would end the job. Spark does not move a part that stands under a condition.
    """
    expressions = active_jvm().org.apache.spark.sql.catalyst.expressions
    is_null = expressions.IsNull(expressions.KnownNullable(_java(argument)))
    is_known = expressions.IsNotNull(expressions.KnownNullable(is_null))
    return CatalystTree(expressions.If(is_known, _java(tried_call), _java(parse_catalyst("null"))))


def _java(tree: Tree) -> Any:
    return cast(CatalystTree, tree).java


def parse_catalyst(text: str) -> Tree:
    """Return Catalyst's tree of an expression. Its own parser does not replace ${...} with a setting of Spark."""
    return CatalystTree(active_jvm().org.apache.spark.sql.catalyst.parser.CatalystSqlParser().parseExpression(text))
