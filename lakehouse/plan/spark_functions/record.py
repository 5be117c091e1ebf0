"""The record of one Spark function. Refusals, guards on Spark and what the model can compute all follow from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the text of a call tells of its arguments.

    texts: for each argument, the text of the literal; None for an argument that depends on the record.
    by_interval: whether the last argument is an interval: the step of a sequence of times.
    """

    texts: Sequence[str | None]
    by_interval: bool = False


# An expression over a call's arguments `0`, `1`, ..., or a function that gives it; None where no condition is needed.
Form = str | Callable[[Arguments], str | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFunction:
    """One function of Spark SQL, as an expression may call it.

    refused: why an expression may not call it; "" for a function that it may call.
    refused_empty: whether the call without arguments is refused: it reads a clock.
    own: SQL has it and Spark lacks it; Java computes it, as in ksqlDB.
    same_as: the function of which this is another name.
    least: how many arguments it needs at least, where another fact speaks of them.

    raises: whether it may raise, though none of its arguments does: then the call is wrapped in TryEval.
    size: "small" for a value of a few bytes; "linear" for one of the arguments, or a few times all of them; else "any".
    length: how many characters or elements the value may have, where the record decides: too many make it null.
    null_key: the condition under which a key of the map is null, which would spoil the next record's map.
    patterns: the places of regular expressions over the first argument, in which Java recurses; like: of LIKE.
    parses: whether it reads texts by the types in its second argument; Java writes a decimal's digits one by one.
    lambda_calls: an array with an element for each call of the lambda at the end: its variables as v0, v1, ...
    folds: whether its lambda gets the result of the lambda's call before.
    moments: the places of arguments that are read as timestamps, if they are texts.
    casts: whether it is a cast to the type of its name, which must be guarded as a cast.

    type: the type of its value, as far as something needs it; "widest" is the widest of its arguments' types.
    mistyped: whether sqlglot gives another type than Spark.
    chooses: whether its value is, or contains, its arguments, which Spark casts to one type.
    leaves_years: whether it may give a moment beyond the years 1 to 9999.

    model: how the model computes it: "strict" (null for a null), "nulls" (it takes nulls), or from its "tree"; "" if it
    needs Spark.
    """

    name: str
    refused: str = ""
    refused_empty: bool = False
    own: bool = False
    same_as: str = ""
    least: int = 0
    raises: bool = True
    size: Literal["small", "linear", "any"] = "any"
    length: Form = None
    null_key: Form = None
    patterns: tuple[int, ...] = ()
    like: bool = False
    parses: bool = False
    lambda_calls: str = ""
    folds: bool = False
    moments: tuple[int, ...] = ()
    casts: bool = False
    type: str = ""
    mistyped: bool = False
    chooses: bool = False
    leaves_years: bool = False
    model: Literal["strict", "nulls", "tree", ""] = ""


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def records(names: str, **facts: Any) -> list[SparkFunction]:
    """Return a record with the same facts for each name; upper/ucase are two names of one function."""
    function_records: list[SparkFunction] = []
    for word in names.split():
        name, *other_names = word.split("/")
        record = SparkFunction(name=name, **facts)
        function_records += [record, *(replace(record, name=other_name, same_as=name) for other_name in other_names)]
    return function_records
