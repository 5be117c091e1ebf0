"""The record of one Spark function. Refusals, guards on Spark and what the model can compute all follow from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Arguments:
    """The facts about the arguments of a call that its text tells.

    texts: for each argument, the text of the literal; None for an argument that depends on the record.
    by_interval: whether the last argument is an interval: the step of a sequence of times.
    """

    texts: Sequence[str | None]
    by_interval: bool = False


# An expression over a call's arguments `0`, `1`, ..., or a function that gives it; None where no condition is needed.
Form = str | Callable[[Arguments], str | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFunction:
    """One function of Spark SQL, as an expression may call it."""

    name: str
    same_as: str = ""  # the function of which this is another name
    refused: str = ""  # why an expression may not call it
    refused_empty: bool = False  # without arguments it is refused: it reads a clock
    own: bool = False  # SQL has it and Spark lacks it; Java computes it, as in ksqlDB
    least: int = 0  # how many arguments it needs at least, where a fact below speaks of them

    # The guards on Spark
    raises: bool = True  # it may raise, though none of its arguments does: the call is wrapped in TryEval
    size: Literal["small", "linear", "any"] = "any"  # a few bytes; at most a few times its arguments together; any
    length: Form = None  # how many characters or elements the record may make: with too many the value is null
    null_key: Form = None  # where a key of its map is null, which would spoil the next record's map
    patterns: tuple[int, ...] = ()  # the places of regular expressions over the first argument, in which Java recurses
    like: bool = False  # the second argument is a pattern of LIKE
    parses: bool = False  # it reads texts by the types in its second argument, and decimals digit by digit
    lambda_calls: str = ""  # an array with an element for each call of its last argument: the variables as v0, v1, ...
    folds: bool = False  # its lambda gets what the call before has given
    moments: tuple[int, ...] = ()  # the places of arguments that are read as timestamps, if they are texts
    casts: bool = False  # it is a cast to the type of its name

    # The type of its value
    type: str = ""  # as far as something needs it; "widest" is the widest of its arguments' types
    mistyped: bool = False  # sqlglot gives another type than Spark
    chooses: bool = False  # its value is, or contains, its arguments, which Spark casts to one type
    leaves_years: bool = False  # it may give a moment beyond the years 1 to 9999

    # How the model computes it: null for a null; in Python also for nulls; from the call's tree; not at all
    model: Literal["strict", "nulls", "tree", ""] = ""


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def make_records(names: str, **facts: Any) -> list[SparkFunction]:
    """Return a record with the same facts for each name; upper/ucase are two names of one function."""
    function_records: list[SparkFunction] = []
    for word in names.split():
        name, *other_names = word.split("/")
        record = SparkFunction(name=name, **facts)
        function_records += [record, *(replace(record, name=other_name, same_as=name) for other_name in other_names)]
    return function_records
