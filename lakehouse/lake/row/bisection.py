"""The first version of a table where a condition is no longer true, by bisection, without a JVM."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from lakehouse.errors import ConfigError, NotFound
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.history import History
from lakehouse.lake.moment.version import Version
from lakehouse.lake.sql import check_select, engine, quote
from lakehouse.semantics.moment import AtVersion


@dataclass(frozen=True, slots=True)
class Turned:
    """The version where a condition turned false, the one before it, and the results at the versions tried."""

    version: Version
    before: int
    tried: dict[int, bool]


def bisect(layout: Layout, name: str, condition: str, good: int | None = None, bad: int | None = None) -> Turned:
    """Find the first version of a table (visits, state.visits) where a condition is not true.

    condition: a boolean expression in DuckDB's SQL, of aggregates or of a row: then it must hold for every row. Null is
    not true. good, bad: a version where it is true, and a later one where it is not; default: the oldest readable and
    the newest. Raises ConfigError if they are not, or for a text that is no condition; NotFound for a lost version.
    """
    history = History(layout, name)
    good = history.oldest_readable() if good is None else good
    bad = history.newest if bad is None else bad
    if good >= bad:
        raise ConfigError(f"bisect: good is version {good}, bad is version {bad}; expected bad to be later.")
    tried: dict[int, bool] = {}

    def holds(version: int) -> bool:
        found = history.at(AtVersion(version))
        tried[version] = _holds(history, found, condition)
        return tried[version]

    if not holds(good):
        raise ConfigError(f"bisect: the condition is not true at version {good}; with --good, name one where it is.")
    if holds(bad):
        raise ConfigError(f"bisect: the condition is true at version {bad}; with --bad, name one where it is not.")
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    version = next((version for version in history if version.version == bad), None)
    if version is None:
        raise NotFound(f"{history.what}: the log no longer has version {bad}.")
    return Turned(version, good, tried)


def _holds(history: History, version: int | None, condition: str) -> bool:
    connection = engine()
    connection.register("_rows", reader.dataset(history.path, version))
    connection.execute(f"CREATE VIEW {quote(history.name)} AS SELECT * FROM _rows")
    sql = f"SELECT ({condition}\n) AS c FROM {quote(history.name)}"
    try:
        check_select(connection, sql)
        kind = str(connection.sql(f"{sql} LIMIT 0").types[0])
        if kind not in ("BOOLEAN", '"NULL"'):
            raise ConfigError(f"bisect {condition!r}: expected a condition, true or false; found {kind}.")
        true = f"SELECT coalesce(bool_and(coalesce(c, false)), true) FROM ({sql})"
        return bool(connection.execute(true).fetchall()[0][0])
    except duckdb.Error as error:
        raise ConfigError(f"bisect {condition!r}: {error}") from error
