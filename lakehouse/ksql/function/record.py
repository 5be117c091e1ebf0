"""The record of a function: its forms, its null rule, its examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lakehouse.ksql.function.sql import Sql, as_int
from lakehouse.ksql.syntax.kind import MOMENTS, Kind

STRICT = "null if an argument is null"


class LambdaBody(Protocol):
    """The body of a lambda. kinds: the types of its names; texts: their Spark SQL, the names themselves if left out."""

    def __call__(self, kinds: Sequence[Kind], texts: Sequence[str] | None = None) -> Sql: ...


class LambdaFailure(Protocol):
    """The condition under which the body of a lambda meets a null that ksqlDB fails on; None if there is none."""

    def __call__(self, kinds: Sequence[Kind], texts: Sequence[str] | None = None) -> str | None: ...


@dataclass(frozen=True, slots=True)
class LambdaSql:
    """An argument such as (x, y) => x + y. depth: how many lambdas are around it."""

    names: tuple[str, ...]
    body: LambdaBody
    failure_condition: LambdaFailure
    position: int
    depth: int

    def text(self, *kinds: Kind) -> str:
        """Return the lambda as Spark SQL for names of these types."""
        return self._with_names(self.body(kinds).text)

    def failure_lambda(self, *kinds: Kind) -> str | None:
        """Return a lambda that is true where the body fails; None if it never does."""
        condition = self.failure_condition(kinds)
        return None if condition is None else self._with_names(condition)

    def _with_names(self, body: str) -> str:
        names = ", ".join(f"`{name}`" for name in self.names)
        # Spark does not take parentheses around a single name.
        return f"{names if len(self.names) == 1 else f'({names})'} -> {body}"


Argument = Sql | LambdaSql
Gives = Kind | int | Callable[[Sequence[Any]], Kind]


@dataclass(frozen=True, slots=True)
class Signature:
    """One form of a function: the types that it takes, its Spark SQL, and the type that it gives.

    takes: words of `FITS`; with a ? an argument may be left out, with a * the last one may come any number of
    times, or never. sql: a text with {0}, {1}, ... and {all}; or a function of the arguments. gives: a type, the place
    of an argument that has it, or a function of the arguments.
    """

    takes: tuple[str, ...]
    sql: str | Callable[..., str]
    gives: Gives

    def accepts(self, arguments: Sequence[Argument]) -> bool:
        """Say whether the arguments are of the types that this form takes."""
        least_count = sum(not word.endswith(("?", "*")) for word in self.takes)
        is_repeated = bool(self.takes) and self.takes[-1].endswith("*")
        if len(arguments) < least_count or (len(arguments) > len(self.takes) and not is_repeated):
            return False
        return all(fits_word(word, argument) for word, argument in zip(self._words(arguments), arguments, strict=True))

    def _words(self, arguments: Sequence[Any]) -> list[str]:
        """Return the word of `FITS` for each argument."""
        return [self.takes[min(place, len(self.takes) - 1)].rstrip("?*") for place in range(len(arguments))]

    def compile_call(self, arguments: Sequence[Any]) -> Sql:
        """Return the call as Spark SQL."""
        words = self._words(arguments)
        arguments = [
            as_int(argument) if word == "int" else argument for word, argument in zip(words, arguments, strict=True)
        ]
        result_kind = self.gives
        if isinstance(result_kind, Kind):
            kind = result_kind
        else:
            kind = arguments[result_kind].kind if isinstance(result_kind, int) else result_kind(arguments)
        if callable(self.sql):
            return Sql(self.sql(*arguments), kind)
        argument_texts = [argument.text for argument in arguments]
        return Sql(self.sql.format(*argument_texts, all=", ".join(argument_texts)), kind)


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function. cases: an expression and its value, as JSON has it."""

    name: str
    family: str
    forms: tuple[Signature, ...]
    cases: tuple[tuple[str, Any], ...]
    nulls: str = STRICT
    differs: str = ""


FITS: dict[str, Callable[[Kind], bool]] = {
    "any": lambda kind: True,
    "text": lambda kind: kind.name == "STRING",
    "number": lambda kind: kind.is_number,
    "whole": lambda kind: kind.is_whole,
    "int": lambda kind: kind.is_whole,  # a BIGINT is cut off at the ends of an INTEGER
    "boolean": lambda kind: kind.name == "BOOLEAN",
    "bytes": lambda kind: kind.name == "BYTES",
    "date": lambda kind: kind.name == "DATE",
    "time": lambda kind: kind.name == "TIME",
    "timestamp": lambda kind: kind.name == "TIMESTAMP",
    "moment": lambda kind: kind.name in MOMENTS,
    "array": lambda kind: kind.name == "ARRAY",
    "texts": lambda kind: kind.name == "ARRAY" and kind.inner[0].name in ("STRING", "NULL"),
    "map": lambda kind: kind.name == "MAP",
    "struct": lambda kind: kind.name == "STRUCT",
    "unit": lambda kind: kind.name == "STRING",
}


def fits_word(type_word: str, argument: Argument) -> bool:
    """Say whether an argument fits a word of `FITS`, or lambda1, lambda2, lambda3 by its number of names."""
    if isinstance(argument, LambdaSql):
        return type_word == f"lambda{len(argument.names)}"
    return not type_word.startswith("lambda") and (argument.kind.is_null or FITS[type_word](argument.kind))


def define_function(
    name: str, family: str, takes: str, sql: str | Callable[..., str], gives: Gives, *cases: tuple[str, Any],
    nulls: str = STRICT, differs: str = "",
) -> Function:  # fmt: skip
    """Return the record of a function with one form."""
    return Function(name, family, (Signature(tuple(takes.split()), sql, gives),), cases, nulls, differs)
