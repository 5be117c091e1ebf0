"""A declared expression as a Spark column: it is null for a record on which it fails, and never reads a clock.

With ANSI mode off most of Spark's expressions are null if they fail; others raise nevertheless (element_at(xs, 0), a
bad pattern, a map with a key twice), which would stop the job for ever. So TryEval wraps every call that is not known
to be harmless; Spark has it for its own try_ functions, and SQL has no name for it.

Spark reads a text with a time and no day ("12:30") as a moment of today, by the clock: such a text gives a null here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.spark_functions.guards import null_condition
from lakehouse.plan.spark_functions.record import Arguments
from lakehouse.spark.expression import cast_values, element_values, json_numbers
from lakehouse.spark.expression.java_functions import FUNCTIONS
from lakehouse.spark.expression.operators import LEAVES, record_of_node
from lakehouse.spark.jvm.tree import ksql_functions
from lakehouse.spark.jvm.tree.parse import parse_tree, takes_catalyst
from lakehouse.spark.jvm.tree.tree import ATTRIBUTES, Tree
from lakehouse.spark.jvm.tree.written_tree import WrittenTree

BOUND = "_lakehouse_bound"  # the lambda variable that has computed values
# Spark takes names in single quotes, $['user-id']; ksqlDB's have double quotes, for which Spark gives a null.
JSON_NAME = re.compile(r"""\["([^"'?]+)"\]""")
# A date of these may lie in the year 5,881,580. Where Spark itself casts it, to compare it with a timestamp or to put
# both into one list, it raises, and there is no cast in the tree to guard.
FAR_DATES = re.compile(r"\b(date_from_unix_date|date_?add|date_sub|add_months|make_date|interval)\b", re.IGNORECASE)
TIME_ALONE = r"^[\x00-\x20]*(T|[+-]?[0-9]+:)"


def column_of(expression: Expression) -> Column:
    """Return the column for a declared expression."""
    # Most are just a column's name: that can't raise, and each access to a tree is a call to the JVM.
    if expression.is_column:
        return F.expr(expression.text)
    return _guarded_column(expression.text, by_catalyst=takes_catalyst())


@lru_cache(maxsize=4096)
def _guarded_column(text: str, *, by_catalyst: bool) -> Column:
    """by_catalyst: which of its two forms `parse_tree` gives; a column is kept for each."""
    return guarded_tree(text).column()


def guarded_tree(text: str) -> Tree:
    """Return the tree of an expression that is null for a record on which it fails."""
    tree = _guard_tree(parse_tree(text))
    if takes_catalyst() and FAR_DATES.search(text):  # without it, the text would ask first, and compute all twice
        tree = tree.try_eval()
    return ksql_functions.compute_before_guards(tree) if isinstance(tree, WrittenTree) else tree


def _guard_tree(tree: Tree) -> Tree:
    """Return a tree with every call wrapped that may raise."""
    return tree if tree.kind in LEAVES else _guard_node(tree).as_guarded()


def _guard_node(tree: Tree) -> Tree:
    kind, name = tree.kind, tree.function
    if kind in LEAVES:
        return tree
    children, record = tree.children, record_of_node(kind, name)
    if len(children) < record.least:
        return tree  # Spark says which arguments it needs
    if record.casts and len(children) == 1:
        return _guard_tree(_fill_template(f"cast(`0` AS {name})", children))
    if kind == "Cast":
        return _guard_cast(tree, children[0])
    if name == "get_json_object" and len(children) == 2:
        return _exact_numbers(json_numbers.AT_PATH, [children[0], _quote_json_path(children[1])])
    if name == "map" and all(map(_is_value, children)):
        # The options of a function, which Spark takes only as literals; they can't raise.
        return tree
    if name == "regexp_substr" and len(children) == 2:
        # Spark moves a part of this function's replacement out of a TryEval around it.
        return _guard_tree(_fill_template("nullif(regexp_extract(`0`, `1`, 0), '')", children))
    guarded_children = [_guard_tree(child) for child in children]
    if name in ("element_at", "try_element_at") and guarded_children[-1].kind != "Literal":
        # The smallest INT passes Spark's check of the index: it reads outside the array, and the JVM crashes (SIGSEGV).
        guarded_children[-1] = _fill_template(
            f"if(cast(`0` AS string) = '{-(2**31)}', null, `0`)", [guarded_children[-1]]
        )
    for place in moment_places(tree):
        guarded_children[place] = _guard_moment(guarded_children[place])
    if record.folds and not element_values.is_small(children[2]):
        guarded_children[2] = _wrap_lambda(guarded_children[2], element_values.KEPT)
    if any(
        child_after is not child_before for child_after, child_before in zip(guarded_children, children, strict=True)
    ):
        tree = tree.with_children(guarded_children)
    if not record.raises:
        return tree
    if (java_function := FUNCTIONS.get(name)) is not None:
        argument_forms, java_call, result_form = java_function
        arguments = [_fill_template(argument_form, guarded_children) for argument_form in argument_forms]
        if (call_tree := tree.call_java(java_call, arguments)) is not None:
            return _fill_template(result_form, [call_tree])
        argument_types = ksql_functions.TYPES[name][0]
        return tree.with_children(
            [
                _fill_template(f"cast(`0` AS {argument_type})", [child])
                for argument_type, child in zip(argument_types, guarded_children, strict=True)
            ]
        )
    by_interval = name == "sequence" and _is_interval(guarded_children[-1])
    conditions, measured_lambdas = [], []
    if record.lambda_calls:
        # First, as the other conditions compute all its values.
        conditions = [element_values.size_condition(record, children[-1], len(guarded_children))]
        measured_lambdas = [_wrap_lambda(guarded_children[-1], element_values.LENGTH)]
    conditions.append(
        null_condition(record, Arguments([_literal_text(child) for child in guarded_children], by_interval))
    )
    condition = " OR ".join(filter(None, conditions))
    return _null_where(condition, tree, guarded_children, measured_lambdas) if condition else tree.try_eval()


def moment_places(tree: Tree) -> list[int]:
    """Return the places of the arguments that a function reads as moments, if they are texts."""
    if tree.function.removeprefix("try_").startswith("to_timestamp") and len(tree.children) > 1:
        return []  # it has a format
    return [place for place in record_of_node(tree.kind, tree.function).moments if place < len(tree.children)]


def _quote_json_path(tree: Tree) -> Tree:
    """Return a path of get_json_object with its names in single quotes, if it is a literal."""
    json_path = _literal_text(tree)
    if json_path is None or not JSON_NAME.search(json_path):
        return tree
    quoted_path = JSON_NAME.sub(r"['\1']", json_path).replace("\\", r"\\").replace("'", r"\'")
    return parse_tree(f"'{quoted_path}'")


def _guard_cast(tree: Tree, child: Tree) -> Tree:
    """Return a cast that is null for a value that its type can't hold."""
    target_type = tree.type_text
    element_cast = cast_values.cast_elements(target_type)
    # The literal NULL is no array.
    if element_cast is not None and child.kind != "Literal" and not _may_be_variant(child):
        return tree.with_children([_guard_tree(_fill_template(element_cast, [child]))]).try_eval()
    guarded_child, condition = _guard_tree(child), cast_values.unfit_cast_condition(target_type)
    if target_type.startswith("timestamp"):
        guarded_child = _guard_moment(guarded_child)
    if target_type == "string" and child.kind != "Literal":
        return _compute_once(
            guarded_child, lambda value: _fill_template(cast_values.TEXT, [value, tree.with_children([value])])
        )
    # Spark's own try_cast is right for integers only: a number of seconds wraps around.
    is_try_cast = tree.is_try_cast and not target_type.startswith(("decimal", "timestamp"))
    if condition is None or is_try_cast or _is_short_literal(child):
        guarded_child = tree.with_children([guarded_child])
        # The cast of a VARIANT may raise.
        return guarded_child if child.kind == "Literal" else guarded_child.try_eval()

    def fit_value(value: Tree) -> Tree:
        cast_tree = tree.with_children([value])
        if (shorter_form := cast_values.shorten_exponent(target_type)) is not None:
            text_cast = tree.with_children([_fill_template(shorter_form, [value])])
            cast_tree = _fill_template("if(typeof(`0`) = 'string', `1`, `2`)", [value, text_cast, cast_tree])
        return _fill_template(
            "if(coalesce(`0`, true), null, `1`)", [_fill_template(condition, [value]).try_eval(), cast_tree.try_eval()]
        )

    # `lakehouse.spark.expression.clock_texts` looks for a text's guard right below a cast.
    if target_type.startswith("timestamp") and takes_catalyst():
        return fit_value(guarded_child)
    return _compute_once(guarded_child, fit_value)


def _compute_once(value: Tree, form: Callable[[Tree], Tree]) -> Tree:
    """Return `form` applied to a value that it uses several times, with the value computed once."""
    return form(value) if value.kind in LEAVES else _compute_first([value], form(_bound_fields(1)[0]))


def _compute_first(values: list[Tree], body: Tree) -> Tree:
    """Return a body that has the values, each computed once, as its `_bound_fields`."""
    fields = ", ".join(f"'a{number}', `{number + 1}`" for number in range(len(values)))
    return _fill_template(f"element_at(transform(array(named_struct({fields})), {BOUND} -> `0`), 1)", [body, *values])


def _is_short_literal(tree: Tree) -> bool:
    """Say whether a tree is a literal that fits wherever its cast is not null: a null, small number or short text."""
    if tree.kind != "Literal":
        return False
    value = tree.literal
    if isinstance(value, int):
        return -128 <= value <= 127
    return value is None or (tree.type_text == "string" and len(str(value)) < 10)


def _may_be_variant(tree: Tree) -> bool:
    """Say whether a tree may give a VARIANT, which must be cast as a whole: `transform` does not take it."""
    name = tree.function
    return "parse_json" in name or "variant" in name or any(map(_may_be_variant, tree.children))


def _exact_numbers(form: str, children: list[Tree]) -> Tree:
    """Return a function of a JSON text, with the numbers as the text writes them."""
    json_text, json_path = map(_guard_tree, children)
    return _compute_once(json_text, lambda value: _fill_template(form, [value, json_path]).try_eval())


def _is_value(tree: Tree) -> bool:
    """Say whether a tree is a literal, and not null: a null as a map's key would raise."""
    return tree.kind == "Literal" and tree.literal is not None


def _wrap_lambda(lambda_: Tree, form: str) -> Tree:
    """Return the lambda with its body wrapped in the template `form`."""
    function, *variables = lambda_.children
    return lambda_.with_children([_fill_template(form, [function]), *variables])


def _null_where(condition: str, tree: Tree, children: list[Tree], extra_trees: list[Tree]) -> Tree:
    """Return a call that is null where a condition holds; arguments that both use are computed once.

    condition: over the call's arguments and, after them, the extra trees.
    """
    plain_kinds = LEAVES | {"LambdaFunction"}
    computed_places = [
        place for place, child in enumerate(children) if f"`{place}`" in condition and child.kind not in plain_kinds
    ]
    bound_by_place = dict(zip(computed_places, _bound_fields(len(computed_places)), strict=True))
    values = [bound_by_place.get(place, child) for place, child in enumerate(children)]
    tree = tree.with_children(values)
    # Spark moves a TryEval around an IF into its branches: the condition needs its own.
    guarded_tree = _fill_template(
        "if(coalesce(`0`, true), null, `1`)",
        [_fill_template(condition, [*values, *extra_trees]).try_eval(), tree.try_eval()],
    )
    return (
        _compute_first([children[place] for place in computed_places], guarded_tree)
        if computed_places
        else guarded_tree
    )


def _bound_fields(count: int) -> list[Tree]:
    """Return the trees of the first `count` fields, a0, a1, ..., of the lambda variable BOUND."""
    fields = ", ".join(f"{BOUND}.a{number}" for number in range(count))
    (function,) = parse_tree(f"f({BOUND} -> array({fields}))").children
    return function.children[0].children


def _literal_text(tree: Tree) -> str | None:
    """Return the text of a literal; None for a computed value."""
    return str(tree.literal) if tree.kind == "Literal" else None


def _is_interval(tree: Tree) -> bool:
    """Say whether a tree is an interval, as far as its nodes show."""
    kind, name = tree.kind, tree.function
    if kind in ("TryEval", "UnaryMinus"):
        return _is_interval(tree.children[0])
    has_interval_type = kind in ("Literal", "Cast") and "interval" in tree.type_text
    return has_interval_type or (name.endswith("_interval") and "make_" in name)


def _guard_moment(tree: Tree) -> Tree:
    """Return the value, or null if it is a text with a time and no day."""
    if tree.kind == "Literal":
        return tree  # the plan checked it when it was declared
    pattern = TIME_ALONE.replace("\\", r"\\")
    return _fill_template(f"if(cast(`0` AS string) RLIKE '{pattern}', null, `0`)", [tree])


def _fill_template(form: str, values: list[Tree]) -> Tree:
    """Return the tree of an expression over `0`, `1`, ..., with other trees in their place."""

    def fill_tree(tree: Tree) -> Tree:
        # The parser takes every name in a lambda for a variable.
        if tree.kind in ATTRIBUTES:
            name = tree.first_name
            return values[int(name)] if name.isdigit() else tree
        children = [fill_tree(child) for child in tree.children]
        return tree.with_children(children) if children else tree

    return fill_tree(parse_tree(form))
