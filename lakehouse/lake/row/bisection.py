"""Find the first version of a table where a condition is no longer true, by bisection, without a JVM."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from lakehouse.errors import ConfigError, NotFound
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.history import History
from lakehouse.lake.moment.table_versions import Version
from lakehouse.lake.sql import check_select, open_duckdb, quote_name
from lakehouse.semantics.moment import AtVersion


@dataclass(frozen=True, slots=True)
class TurningVersion:
    """The version where a condition turned false, the version before it, and the results at the tried versions."""

    version: Version
    before: int
    tried: dict[int, bool]


def bisect(
    layout: Layout, name: str, condition: str, good_version: int | None = None, bad_version: int | None = None
) -> TurningVersion:
    """Find the first version of a table (visits, state.visits) where a condition is not true.

    condition: a boolean expression in DuckDB's SQL, of aggregates, or of a row, for which it must be true in every row.
    Null is not true. good_version, bad_version: a version where the condition is true, and a later one where it is not;
    default: the oldest readable version and the newest. Raises ConfigError if the versions are not so, or for a text
    that is no condition; NotFound for a lost version.
    """
    history = History(layout, name)
    good_version = history.oldest_readable() if good_version is None else good_version
    bad_version = history.newest if bad_version is None else bad_version
    if good_version >= bad_version:
        raise ConfigError(
            f"bisect: good is version {good_version}, bad is version {bad_version}; expected bad to be later."
        )
    tried_versions: dict[int, bool] = {}

    def holds(version: int) -> bool:
        version_number = history.at(AtVersion(version))
        tried_versions[version] = _is_condition_true(history, version_number, condition)
        return tried_versions[version]

    if not holds(good_version):
        raise ConfigError(
            f"bisect: the condition is not true at version {good_version}; with --good, name one where it is."
        )
    if holds(bad_version):
        raise ConfigError(
            f"bisect: the condition is true at version {bad_version}; with --bad, name one where it is not."
        )
    while bad_version - good_version > 1:
        middle_version = (good_version + bad_version) // 2
        good_version, bad_version = (
            (middle_version, bad_version) if holds(middle_version) else (good_version, middle_version)
        )
    version = next((version for version in history if version.version == bad_version), None)
    if version is None:
        raise NotFound(f"{history.label}: the log no longer has version {bad_version}.")
    return TurningVersion(version, good_version, tried_versions)


def _is_condition_true(history: History, version: int | None, condition: str) -> bool:
    connection = open_duckdb()
    connection.register("_rows", reader.open_dataset(history.path, version))
    connection.execute(f"CREATE VIEW {quote_name(history.name)} AS SELECT * FROM _rows")
    condition_sql = f"SELECT ({condition}\n) AS c FROM {quote_name(history.name)}"
    try:
        check_select(connection, condition_sql)
        condition_type = str(connection.sql(f"{condition_sql} LIMIT 0").types[0])
        if condition_type not in ("BOOLEAN", '"NULL"'):
            raise ConfigError(f"bisect {condition!r}: expected a condition, true or false; found {condition_type}.")
        all_true_sql = f"SELECT coalesce(bool_and(coalesce(c, false)), true) FROM ({condition_sql})"
        return bool(connection.execute(all_true_sql).fetchall()[0][0])
    except duckdb.Error as error:
        raise ConfigError(f"bisect {condition!r}: {error}") from error
