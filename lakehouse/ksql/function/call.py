"""A call of a function by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakehouse.errors import SqlError
from lakehouse.ksql.function.aggregate import AGGREGATES
from lakehouse.ksql.function.record import Argument, LambdaSql, Signature
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.function.table import FUNCTIONS, NOT_HERE, TABLE_FUNCTIONS
from lakehouse.ksql.syntax import hints
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan.refused.near import suggest_near

AsMoment = Callable[[Sql, Kind], Sql]
_MOMENTS = {"date": k.DATE, "time": k.TIME, "timestamp": k.TIMESTAMP}

# Functions that read a clock in ksqlDB if they have no argument; and the way to get a record's time instead.
NO_CLOCK = {"UNIX_TIMESTAMP": "", "UNIX_DATE": ": UNIX_DATE(FROM_DAYS(CAST(ROWTIME / 86400000 AS INT)))"}


def compile_call(name: str, arguments: Sequence[Argument], position: int, as_moment: AsMoment | None = None) -> Sql:
    """Return a call as Spark SQL. Raises SqlError for a function that does not exist, or does not take these types.

    as_moment: called with a text where the function takes a DATE, TIME or TIMESTAMP; gives the moment, as in ksqlDB.
    """
    record = FUNCTIONS.get(name)
    if record is None:
        raise SqlError(why_unknown(name), position)
    for form in record.forms:
        if form.accepts(arguments):
            return _compile_form(form, name, arguments, position)
    for form in record.forms:
        if as_moment is None:
            break
        read_arguments = [
            _read_moment(argument, word, as_moment) for argument, word in zip(arguments, form.takes, strict=False)
        ]
        if len(read_arguments) == len(arguments) and form.accepts(read_arguments):
            return _compile_form(form, name, read_arguments, position)
    if not arguments and name in NO_CLOCK:
        alternative = f"use ROWTIME{NO_CLOCK[name]}"
        raise SqlError(f"{name}() reads a clock, and a replay would give another table: {alternative}", position)
    raise SqlError(
        f"function '{name}' does not accept parameters ({', '.join(map(_argument_kind_text, arguments))})", position,
        expected=" or ".join(f"({', '.join(form.takes)})" for form in record.forms),
    )  # fmt: skip


def _compile_form(form: Signature, name: str, arguments: Sequence[Argument], position: int) -> Sql:
    try:
        return form.compile_call(arguments)
    except (IndexError, ValueError):  # the result has the type of what is in an argument, and NULL has nothing in it
        if all(isinstance(argument, LambdaSql) or argument.kind != k.NULL for argument in arguments):
            raise
        raise SqlError(
            f"function '{name}' needs a value that is not NULL. Give a NULL a type: CAST(NULL AS ...)", position
        ) from None


def _read_moment(argument: Argument, type_word: str, as_moment: AsMoment) -> Argument:
    moment_kind = _MOMENTS.get(type_word)
    if moment_kind is None or isinstance(argument, LambdaSql) or argument.kind != k.STRING:
        return argument
    return as_moment(argument, moment_kind)


def why_unknown(name: str) -> str:
    """Return the reason why there is no scalar function of this name here."""
    if name in AGGREGATES:
        return f"{name} is an aggregate: it stands in the SELECT or the HAVING of a GROUP BY"
    if name in TABLE_FUNCTIONS:
        return f"{name} gives several rows: it stands in the SELECT of a stream, once"
    if name in NOT_HERE:
        return f"function '{name}' is not here: {NOT_HERE[name]}"
    if name in hints.FUNCTIONS:
        return f"can't find any functions with the name '{name}'. Did you mean '{hints.FUNCTIONS[name]}'?"
    suggestion = suggest_near(name, [*FUNCTIONS, *AGGREGATES, *TABLE_FUNCTIONS])
    return f"can't find any functions with the name '{name}'.{suggestion}"


def _argument_kind_text(argument: Argument) -> str:
    return "LAMBDA" if isinstance(argument, LambdaSql) else str(argument.kind)
