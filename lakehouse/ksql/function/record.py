"""What is known of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lakehouse.ksql.function.sql import Sql, as_int
from lakehouse.ksql.syntax.kind import MOMENTS, Kind

STRICT = "null if an argument is null"


class Body(Protocol):
    """The body of a lambda. kinds: of its names; texts: what they are in Spark SQL, themselves if left out."""

    def __call__(self, kinds: Sequence[Kind], texts: Sequence[str] | None = None) -> Sql: ...


class Fails(Protocol):
    """The condition under which the body of a lambda meets a null that ksqlDB fails on; None if there is none."""

    def __call__(self, kinds: Sequence[Kind], texts: Sequence[str] | None = None) -> str | None: ...


@dataclass(frozen=True, slots=True)
class LambdaSql:
    """An argument such as (x, y) => x + y."""

    names: tuple[str, ...]
    body: Body
    fails: Fails
    at: int

    def text(self, *kinds: Kind) -> str:
        """Return it as Spark SQL for names of these types."""
        return self._over(self.body(kinds).text)

    def failing(self, *kinds: Kind) -> str | None:
        """Return the lambda that tells where its body fails; None if it never does."""
        condition = self.fails(kinds)
        return None if condition is None else self._over(condition)

    def _over(self, body: str) -> str:
        names = ", ".join(f"`{name}`" for name in self.names)
        # Spark takes no parentheses around one name.
        return f"{names if len(self.names) == 1 else f'({names})'} -> {body}"


Argument = Sql | LambdaSql
Gives = Kind | int | Callable[[Sequence[Any]], Kind]


@dataclass(frozen=True, slots=True)
class Signature:
    """One form of a function: the types that it takes, its Spark SQL, and the type that it gives.

    takes: words of `FITS`; with a ? an argument may be left out, with a * the last one may be repeated, also not at
    all. sql: a text with {0}, {1}, ... and {all}; or a function of the arguments. gives: a type, the place of an
    argument that has it, or a function of the arguments.
    """

    takes: tuple[str, ...]
    sql: str | Callable[..., str]
    gives: Gives

    def fits(self, arguments: Sequence[Argument]) -> bool:
        """Say whether arguments are of the types that it takes."""
        least = sum(not word.endswith(("?", "*")) for word in self.takes)
        repeated = bool(self.takes) and self.takes[-1].endswith("*")
        if len(arguments) < least or (len(arguments) > len(self.takes) and not repeated):
            return False
        return all(fits(word, argument) for word, argument in zip(self._words(arguments), arguments, strict=True))

    def _words(self, arguments: Sequence[Any]) -> list[str]:
        """What each argument is to be."""
        return [self.takes[min(place, len(self.takes) - 1)].rstrip("?*") for place in range(len(arguments))]

    def made(self, arguments: Sequence[Any]) -> Sql:
        """Return the call as Spark SQL."""
        words = self._words(arguments)
        arguments = [as_int(one) if word == "int" else one for word, one in zip(words, arguments, strict=True)]
        gives = self.gives
        if isinstance(gives, Kind):
            kind = gives
        else:
            kind = arguments[gives].kind if isinstance(gives, int) else gives(arguments)
        if callable(self.sql):
            return Sql(self.sql(*arguments), kind)
        texts = [argument.text for argument in arguments]
        return Sql(self.sql.format(*texts, all=", ".join(texts)), kind)


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
    "any": lambda of: True,
    "text": lambda of: of.name == "STRING",
    "number": lambda of: of.is_number,
    "whole": lambda of: of.is_whole,
    "int": lambda of: of.is_whole,  # a BIGINT is cut off at the ends of an INTEGER
    "boolean": lambda of: of.name == "BOOLEAN",
    "bytes": lambda of: of.name == "BYTES",
    "date": lambda of: of.name == "DATE",
    "time": lambda of: of.name == "TIME",
    "timestamp": lambda of: of.name == "TIMESTAMP",
    "moment": lambda of: of.name in MOMENTS,
    "array": lambda of: of.name == "ARRAY",
    "texts": lambda of: of.name == "ARRAY" and of.inner[0].name in ("STRING", "NULL"),
    "map": lambda of: of.name == "MAP",
    "struct": lambda of: of.name == "STRUCT",
    "unit": lambda of: of.name == "STRING",
}


def fits(word: str, argument: Argument) -> bool:
    """Say whether an argument is what a word of `FITS`, or lambda1, lambda2, lambda3 by the number of names, says."""
    if isinstance(argument, LambdaSql):
        return word == f"lambda{len(argument.names)}"
    return not word.startswith("lambda") and (argument.kind.is_null or FITS[word](argument.kind))


def function(
    name: str, family: str, takes: str, sql: str | Callable[..., str], gives: Gives, *cases: tuple[str, Any],
    nulls: str = STRICT, differs: str = "",
) -> Function:  # fmt: skip
    """Return the record of a function with one form."""
    return Function(name, family, (Signature(tuple(takes.split()), sql, gives),), cases, nulls, differs)
