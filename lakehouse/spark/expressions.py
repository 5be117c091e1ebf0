"""A declared expression as a Spark column: if it fails on a record it is null there, and nothing reads a clock.

With ANSI mode off most of Spark's expressions are null if they fail; others raise all the same (element_at(xs, 0), a
bad pattern, a map with a key twice), which would stop the job for ever. So every call that is not known to be harmless
is wrapped in TryEval, which Spark has for its own try_ functions, and which has no name in SQL.

Spark reads a text with a time and no day as a moment of today ("12:30"), by the clock: such a text is a null here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.plan.expression import Expression
from lakehouse.plan.refused.spark_functions import names
from lakehouse.spark import element_values
from lakehouse.spark.guard import cast_values, json_numbers
from lakehouse.spark.java.functions import FUNCTIONS
from lakehouse.spark.refused_values import refused

# What does not raise itself; its arguments may. These are names of Spark's classes, and of its functions.
LEAVES = names("UnresolvedAttribute Literal UnresolvedNamedLambdaVariable NamePlaceholder")
HARMLESS = names(
    """
    LambdaFunction Alias If CaseWhen And Or Not IsNull
    IsNotNull EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In UnresolvedExtractValue
    CreateNamedStruct Cast
    """
)
HARMLESS_FUNCTIONS = names(
    """
    array coalesce concat contains endswith greatest if ifnull isnotnull isnull least length lower ltrim
    named_struct nullif nvl nvl2 round rtrim size startswith struct substr substring trim upper
    """
)
# The arguments that each of these reads as moments, if they are texts; to_timestamp with a format does not.
MOMENTS = {
    "convert_timezone": (-1,), "date_format": (0,), "date_part": (1,), "date_trunc": (1,), "datepart": (1,),
    "extract": (1,), "from_utc_timestamp": (0,), "hour": (0,), "minute": (0,), "months_between": (0, 1),
    "second": (0,), "timestamp": (0,), "to_timestamp": (0,), "to_timestamp_ltz": (0,), "to_timestamp_ntz": (0,),
    "to_utc_timestamp": (0,), "try_to_timestamp": (0,), "unix_micros": (0,), "unix_millis": (0,), "unix_seconds": (0,),
    "TimestampAdd": (1,), "TimestampDiff": (0, 1),  # the parser has nodes of its own for these
}  # fmt: skip
BOUND = "_lakehouse_bound"  # a variable that stands for what was computed
# Spark knows names in single quotes, $['user-id']; ksqlDB's are in double ones, which Spark reads as no path: a null.
JSON_NAME = re.compile(r"""\["([^"'?]+)"\]""")
TIME_ALONE = r"^[\x00-\x20]*(T|[+-]?[0-9]+:)"


def column_of(expression: Expression) -> Column:
    """Return the column for a declared expression."""
    # Most are just a column's name: that can't raise, and each look at a tree is a call to the JVM.
    return F.expr(expression.text) if expression.is_column else _column(expression.text)


@lru_cache(maxsize=4096)
def _column(text: str) -> Column:
    made = _jvm().org.apache.spark.sql.classic.ExpressionUtils.column(_guarded(_parsed(text)))
    return cast(Column, cast(Any, type(F.lit(1)))(made))


def _parsed(text: str) -> Any:
    """The tree of an expression. Catalyst's own parser does not replace ${...} with a setting of Spark."""
    return _jvm().org.apache.spark.sql.catalyst.parser.CatalystSqlParser().parseExpression(text)


def _jvm() -> Any:
    context = SparkContext._active_spark_context
    assert context is not None
    return cast(Any, context)._jvm


def _guarded(tree: Any) -> Any:
    """The same tree with every call that may raise wrapped."""
    kind, name = _names(tree)
    if kind in LEAVES:
        return tree
    children = _children(tree)
    if name in cast_values.FUNCTIONS and len(children) == 1:
        return _guarded(_filled(f"cast(`0` AS {name})", children))
    if kind == "Cast":
        return _cast(tree, children[0])
    if name == "get_json_object" and len(children) == 2:
        return _exact(json_numbers.AT_PATH, [children[0], _path(children[1])])
    if name == "map" and all(map(_is_value, children)):
        # The options of a function, which Spark takes only as they are written; values can't raise.
        return tree
    if name == "regexp_substr" and len(children) == 2:
        # Spark moves a part of this function's replacement out of a TryEval around it.
        return _guarded(_filled("nullif(regexp_extract(`0`, `1`, 0), '')", children))
    made = [_guarded(child) for child in children]
    if name in ("element_at", "try_element_at") and made[-1].getClass().getSimpleName() != "Literal":
        # The smallest INT passes Spark's check of the index: it reads outside the array, and the JVM crashes (SIGSEGV).
        made[-1] = _filled(f"if(cast(`0` AS string) = '{-(2**31)}', null, `0`)", [made[-1]])
    elif not (name.removeprefix("try_").startswith("to_timestamp") and len(made) > 1):
        for place in MOMENTS.get(name or kind, ()):
            if place < len(made):
                made[place] = _whole_moment(made[place])
    if len(made) > 2 and element_values.may_double(name, children[2]):
        made[2] = _measured(made[2], element_values.KEPT)
    if any(new is not old for new, old in zip(made, children, strict=True)):
        tree = _with_children(tree, made)
    if kind in HARMLESS or (kind == "UnresolvedFunction" and name in HARMLESS_FUNCTIONS):
        return tree
    if (own := FUNCTIONS.get(name)) is not None:
        arguments, work, result = own
        return _filled(result, [_tried(work(*(_filled(form, made) for form in arguments)))])
    by_interval = name == "sequence" and _is_interval(made[-1])
    conditions, measured = [], []
    if name in element_values.ENTRIES:
        conditions = [element_values.together(name, children[-1], len(made))]  # first: others make all its values
        measured = [_measured(made[-1], element_values.LENGTH)]
    conditions.append(refused(name or kind, [_text(child) for child in made], by_interval=by_interval))
    condition = " OR ".join(filter(None, conditions))
    return _unless(condition, tree, made, measured) if condition else _tried(tree)


def _path(tree: Any) -> Any:
    """A path of get_json_object with its names in single quotes, where it stands in the declaration."""
    path = _text(tree)
    if path is None or not JSON_NAME.search(path):
        return tree
    quoted = JSON_NAME.sub(r"['\1']", path).replace("\\", r"\\").replace("'", r"\'")
    return _parsed(f"'{quoted}'")


def _cast(tree: Any, child: Any) -> Any:
    """A cast that is null for what its type can't hold."""
    kind = str(tree.dataType().sql()).lower()
    elements = cast_values.of_elements(kind)
    if elements is not None and _names(child)[0] != "Literal" and not _is_of_variant(child):  # NULL is no array
        return _tried(_with_children(tree, [_guarded(_filled(elements, [child]))]))
    made, condition = _guarded(child), cast_values.does_not_fit(kind)
    if kind.startswith("timestamp"):
        made = _whole_moment(made)
    if kind == "string" and _names(child)[0] != "Literal":
        return _once(made, lambda value: _filled(cast_values.TEXT, [value, _with_children(tree, [value])]))
    tries = str(tree.evalMode()) == "TRY" and not kind.startswith("decimal")
    if condition is None or tries or _is_short_literal(child):
        made = _with_children(tree, [made])
        return made if _names(child)[0] == "Literal" else _tried(made)  # the cast of a VARIANT may raise

    def fitting(value: Any) -> Any:
        cast = _with_children(tree, [value])
        if (text := cast_values.shorter(kind)) is not None:
            of_text = _with_children(tree, [_filled(text, [value])])
            cast = _filled("if(typeof(`0`) = 'string', `1`, `2`)", [value, of_text, cast])
        return _filled("if(coalesce(`0`, true), null, `1`)", [_tried(_filled(condition, [value])), _tried(cast)])

    # What reads moments looks for what guards a text right below a cast.
    return fitting(made) if kind.startswith("timestamp") else _once(made, fitting)


def _once(value: Any, form: Callable[[Any], Any]) -> Any:
    """What a form makes of a value that it uses several times, with the value computed once."""
    if _names(value)[0] in LEAVES:
        return form(value)
    bound = _bound(1)[0]
    return _filled(f"element_at(transform(array(named_struct('a0', `1`)), {BOUND} -> `0`), 1)", [form(bound), value])


def _is_short_literal(tree: Any) -> bool:
    """Whether a tree is a literal that fits wherever its cast is not null: a null, a small number, a short text."""
    if _names(tree)[0] != "Literal":
        return False
    value = tree.value()
    if isinstance(value, int):
        return -128 <= value <= 127
    return value is None or (tree.dataType().typeName() == "string" and len(str(value)) < 10)


def _is_of_variant(tree: Any) -> bool:
    """Whether a tree may give a VARIANT, which is cast as a whole: `transform` does not take it."""
    name = _names(tree)[1]
    return "parse_json" in name or "variant" in name or any(map(_is_of_variant, _children(tree)))


def _with_children(tree: Any, children: list[Any]) -> Any:
    return tree.withNewChildren(_jvm().PythonUtils.toSeq(children))


def _exact(form: str, children: list[Any]) -> Any:
    """A function of a JSON text, with its numbers as they are written."""
    text, how = map(_guarded, children)
    return _once(text, lambda one: _tried(_filled(form, [one, how])))


def _is_value(tree: Any) -> bool:
    """Whether it is a literal that is not null: as a map's key that would raise."""
    return bool(tree.getClass().getSimpleName() == "Literal") and tree.value() is not None


def _measured(lambda_: Any, form: str) -> Any:
    """A lambda that gives what a form makes of its value."""
    function, *variables = _children(lambda_)
    return lambda_.withNewChildren(_jvm().PythonUtils.toSeq([_filled(form, [function]), *variables]))


def _tried(tree: Any) -> Any:
    return _jvm().org.apache.spark.sql.catalyst.expressions.TryEval(tree)


def _unless(condition: str, tree: Any, children: list[Any], more: list[Any]) -> Any:
    """A call, null where a condition over its arguments, and more, holds. What they compute is computed once."""
    plain = LEAVES | {"LambdaFunction"}
    computed = [
        place for place, child in enumerate(children) if f"`{place}`" in condition and _names(child)[0] not in plain
    ]
    bound = dict(zip(computed, _bound(len(computed)), strict=True))
    values = [bound.get(place, child) for place, child in enumerate(children)]
    tree = _with_children(tree, values)
    # Spark moves a TryEval around an IF into its branches: the condition needs its own.
    made = _filled("if(coalesce(`0`, true), null, `1`)", [_tried(_filled(condition, [*values, *more])), _tried(tree)])
    if not computed:
        return made
    fields = ", ".join(f"'a{number}', `{number + 1}`" for number in range(len(computed)))
    form = f"element_at(transform(array(named_struct({fields})), {BOUND} -> `0`), 1)"
    return _filled(form, [made, *(children[place] for place in computed)])


def _bound(count: int) -> list[Any]:
    """The trees of so many fields, a0, a1, ..., of the variable of a lambda."""
    fields = ", ".join(f"{BOUND}.a{number}" for number in range(count))
    (function,) = _children(_parsed(f"f({BOUND} -> array({fields}))"))
    return _children(_children(function)[0])


def _text(tree: Any) -> str | None:
    """What stands in the declaration; None for what is computed."""
    return str(tree.value()) if _names(tree)[0] == "Literal" else None


def _is_interval(tree: Any) -> bool:
    """Whether a tree is an interval, as far as its text tells."""
    kind, name = _names(tree)
    if kind in ("TryEval", "UnaryMinus"):
        return _is_interval(_children(tree)[0])
    typed = kind in ("Literal", "Cast") and "interval" in tree.dataType().typeName()
    return typed or (name.endswith("_interval") and "make_" in name)


def _names(tree: Any) -> tuple[str, str]:
    """The class of a node, and the name of the function if it is one."""
    kind = tree.getClass().getSimpleName()
    return kind, tree.nameParts().last().lower() if kind == "UnresolvedFunction" else ""


def _children(tree: Any) -> list[Any]:
    children = tree.children()
    return [children.apply(number) for number in range(children.size())]


def _whole_moment(tree: Any) -> Any:
    """The value, or null if it is a text with a time and no day."""
    if tree.getClass().getSimpleName() == "Literal":
        return tree  # it was checked when it was declared
    pattern = TIME_ALONE.replace("\\", r"\\")
    return _filled(f"if(cast(`0` AS string) RLIKE '{pattern}', null, `0`)", [tree])


def is_whole_moment(tree: Any) -> bool:
    """Say whether a resolved tree never gives a text with a time and no day: a guard gives a null for such a text."""
    kind, _ = _names(tree)
    if kind == "Literal":
        return re.match(TIME_ALONE, str(tree.value())) is None
    return kind == "If" and TIME_ALONE in tree.predicate().toString()


def _filled(form: str, values: list[Any]) -> Any:
    """The tree of an expression over `0`, `1`, ..., which stand for other trees."""

    def filled(tree: Any) -> Any:
        # The parser takes every name in a lambda for a variable.
        if tree.getClass().getSimpleName() in ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable"):
            name = tree.nameParts().head()
            return values[int(name)] if name.isdigit() else tree
        children = [filled(child) for child in _children(tree)]
        return tree.withNewChildren(_jvm().PythonUtils.toSeq(children)) if children else tree

    return filled(_parsed(form))
