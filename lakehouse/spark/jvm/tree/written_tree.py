"""The tree of an expression by public interfaces alone: Spark gets it as SQL text.

`TryEval` has no name in SQL. But `try_to_binary` gives null for any failure in its argument, not only for its own. So
the text asks it whether a call fails, and computes the call where it does not. `can_catch` of `read_written.py` tries
this once in each process: another build of Spark may catch less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.errors import PlanError
from lakehouse.plan.names.field import in_backticks
from lakehouse.spark.jvm.tree.tree import ATTRIBUTES, LAMBDA, LITERAL, Tree

OWN_NAMES = "_lakehouse_"  # how the names of lakehouse's own lambda variables begin
BOUND = "_lakehouse_tried"  # the lambda variable that has the computed arguments of a call
FAILS = "isnull(try_to_binary(cast(size(array({})) AS string), 'utf-8'))"
CONSTANT_MAX = 200
TEXT_MAX = 1 << 20  # a lambda is written twice for each call around it
ADVICE = "the public interfaces of Spark ([spark] internals = false): use simpler steps, or allow internals."

Render = Callable[..., str]


@dataclass(frozen=True)
class WrittenTree:
    """A node of an expression. render: makes the node's text of the texts of its children."""

    kind: str
    children: list[Tree]
    render: Render
    function: str = ""
    names: tuple[str, ...] = ()
    literal: Any = None
    type_text: str = ""
    is_try_cast: bool = False
    is_guarded: bool = False  # it never raises

    @property
    def name(self) -> str:
        return self.function or self.kind

    @property
    def first_name(self) -> str:
        return self.names[0]

    @cached_property
    def sql(self) -> str:
        """The text for Spark."""
        sql_text = self.render(*(child.sql for child in self.children if isinstance(child, WrittenTree)))
        if len(sql_text) > TEXT_MAX:
            raise PlanError(f"the expression {sql_text[:80]!r}... is nested too deeply for {ADVICE}")
        return sql_text

    def with_children(self, children: Sequence[Tree]) -> Tree:
        return replace(self, children=list(children), is_guarded=False)

    def as_guarded(self) -> Tree:
        return replace(self, is_guarded=True)

    def try_eval(self) -> Tree:
        return _TriedTree("TryEval", [self], str)

    @property
    def is_computed(self) -> bool:
        """Whether the tree is no name, no lambda, and no short constant: some functions take only constants."""
        if self.kind in (*ATTRIBUTES, LITERAL, LAMBDA, "Alias"):
            return False
        return self._has_names or len(self.sql) > CONSTANT_MAX

    @cached_property
    def _has_names(self) -> bool:
        return self.kind in ATTRIBUTES or any(
            isinstance(child, WrittenTree) and child._has_names for child in self.children
        )

    def call_java(self, java_call: Callable[..., Any], arguments: Sequence[Tree]) -> None:
        """Nothing: the session has a function of that name, see `lakehouse.spark.jvm.tree.ksql_functions`."""

    def column(self) -> Column:
        return F.expr(self.sql)


class _TriedTree(WrittenTree):
    """A tree that is null where its only child fails. Guarded values below the child are computed once, before it."""

    @cached_property
    def sql(self) -> str:
        (tree,) = self.children
        assert isinstance(tree, WrittenTree)
        if not any(map(_has_bound, tree.children)):
            return f"if({FAILS.format(tree.sql)}, null, {tree.sql})"
        places: dict[int, int] = {}  # by a value's identity, its field
        values: list[str] = []

        def bind_values(node: Tree) -> Tree:
            if not isinstance(node, WrittenTree) or node.kind == LAMBDA:
                return node  # what is inside depends on the lambda's variables
            # Spark can't compute a Python function in a lambda whose variable has a name of the outer lambda's.
            is_of_lambda = node.kind in ATTRIBUTES and node.first_name.startswith(OWN_NAMES)
            if is_of_lambda or _is_bound(node):
                if id(node) not in places:
                    places[id(node)] = len(values)
                    values.append(node.sql)
                return attribute(BOUND, f"a{places[id(node)]}")
            return node.with_children([bind_values(child) for child in node.children])

        call = tree.with_children([bind_values(child) for child in tree.children])
        assert isinstance(call, WrittenTree)
        tried_call = f"if({FAILS.format(call.sql)}, null, {call.sql})"
        return compute_first(values, BOUND, tried_call)


def compute_first(values: Iterable[str], variable: str, body: str) -> str:
    """Return the text of a body that has values, each computed once, as a0, a1, ... of a lambda's variable."""
    fields = ", ".join(f"'a{number}', {value}" for number, value in enumerate(values))
    return f"element_at(transform(array(named_struct({fields})), `{variable}` -> {body}), 1)"


def _is_bound(tree: WrittenTree) -> bool:
    """Whether a call has the value of the tree from a lambda's variable, as it's computed twice otherwise."""
    return tree.is_guarded and tree.is_computed


def _has_bound(tree: Tree) -> bool:
    if not isinstance(tree, WrittenTree) or tree.kind == LAMBDA:
        return False
    return _is_bound(tree) or any(map(_has_bound, tree.children))


def text_literal(text: str) -> str:
    """Return a text as Spark SQL writes it; Spark would replace ${...} in it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def attribute(*names: str) -> WrittenTree:
    """Return a name, or a field of what it names."""
    return name_tree("UnresolvedAttribute", *names)


def field_of(owner: Tree, name: str) -> WrittenTree:
    """Return a field of a struct."""
    assert isinstance(owner, WrittenTree)
    if owner.kind in ATTRIBUTES:
        return name_tree(owner.kind, *owner.names, name)
    return WrittenTree("UnresolvedExtractValue", [owner], lambda text: f"{text}.{in_backticks(name)}")


def name_tree(kind: str, *names: str) -> WrittenTree:
    name_text = ".".join(map(in_backticks, names))
    return WrittenTree(kind, [], lambda: name_text, names=names)


def literal(value: Any, type_text: str, sql_text: str) -> WrittenTree:
    return WrittenTree(LITERAL, [], lambda: sql_text, literal=value, type_text=type_text)
