"""Judges the rules about tables as a whole, without Spark: see `lakehouse.plan.watched_rule`."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lakehouse.duration import duration_text
from lakehouse.lake import reader
from lakehouse.lake.batch_totals import read_newest_batch
from lakehouse.lake.commit_log import open_log
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import state_place
from lakehouse.lake.sql import open_duckdb, quote_name
from lakehouse.lake.store import is_table
from lakehouse.markup.plain import plain_text
from lakehouse.plan.app import App
from lakehouse.plan.expectation import clip_value
from lakehouse.plan.table import Table
from lakehouse.plan.watched_rule import FreshRule, UniqueRule, WatchedRule
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.epoch_time import to_datetime

SLOW_SECONDS = 300.0  # a running job reads a whole table at most so often


@dataclass(frozen=True, slots=True)
class UnmetRule:
    """A rule of a table that does not hold now. reason: what is expected, and what was found."""

    table: str
    rule: str
    reason: str


def find_unmet_rules(layout: Layout, table: Table, rules: Iterable[WatchedRule], now_ms: int) -> list[UnmetRule]:
    """Return those of a table's rules that do not hold now. now_ms: the present, in milliseconds since 1970."""
    found_texts = {rule: _describe_unmet(layout, table, rule, now_ms) for rule in rules}
    return [
        UnmetRule(table.name, rule.name, f"{rule}; found {text}")
        for rule, text in found_texts.items()
        if text is not None
    ]


def _describe_unmet(layout: Layout, table: Table, rule: WatchedRule, now_ms: int) -> str | None:
    """Return the actual state in place of the one that a rule expects; None if the rule holds."""
    if not is_table(layout.silver(table.name)):
        return "no table yet" if isinstance(rule, FreshRule) else None
    match rule:
        case FreshRule():
            newest_ms = _newest_event_ms(layout, table)
            if newest_ms is None:
                return "no record yet"
            if now_ms - newest_ms <= rule.max_age_ms:
                return None
            moment = plain_text(to_datetime(newest_ms // 1000 * 1000))
            return f"one of {moment}, {duration_text((now_ms - newest_ms) // 1000 * 1000)} ago"
        case UniqueRule():
            return _describe_duplicate(layout, table, rule)


def _newest_event_ms(layout: Layout, table: Table) -> int | None:
    """Return the largest event time of a table's records: by its last commit, or by the rows if the log lacks it."""
    place = state_place(layout, table)
    opened = reader.open_table(place.path, f"table {table.name!r}")
    newest_batch = read_newest_batch(open_log(place.path, opened.version()), place.name)
    if newest_batch is not None:
        return newest_batch.times.through
    if reader.read_progress(opened, place.name).tick == NO_TICK:
        return None
    connection = open_duckdb()
    connection.register("kept", reader.open_dataset(place.path))
    newest: int | None = connection.execute("SELECT epoch_ms(max(_event_time)) FROM kept").fetchall()[0][0]
    return newest


def _describe_duplicate(layout: Layout, table: Table, rule: UniqueRule) -> str | None:
    columns = ", ".join(map(quote_name, rule.columns))
    has_values = " AND ".join(f"{quote_name(name)} IS NOT NULL" for name in rule.columns)
    groups = (
        f"SELECT {columns}, count(*) AS _rows FROM {quote_name(table.name)} WHERE {has_values} GROUP BY ALL "
        "HAVING count(*) > 1"
    )
    answer = reader.query_lake(layout, f"SELECT *, count(*) OVER () AS _groups FROM ({groups}) ORDER BY ALL LIMIT 1")
    rows = answer.to_arrow_table().to_pylist()
    if not rows:
        return None
    (row,) = rows
    # The table may have its columns' names in another case.
    values = ", ".join(f"{name} {_value_text(value)}" for name, value in zip(rule.columns, row.values(), strict=False))
    others = f", and {row['_groups'] - 1:,} more that several rows have" if row["_groups"] > 1 else ""
    return f"{values} in {row['_rows']:,} rows{others}"


def _value_text(value: Any) -> str:
    return clip_value(repr(value) if isinstance(value, str | int | float) else plain_text(value))


class RuleWatch:
    """The rules of the tables of a running job, judged at each look; only changes since the last look are reported.

    Rules over all rows are judged every few minutes, and only if the table has changed.
    """

    def __init__(self, layout: Layout, app: App) -> None:
        self._layout = layout
        self.tables = [table for table in app.tables if table.watched_rules]
        self._judged: dict[str, tuple[float, int]] = {}  # by table: when its rows were read, and the version
        self.unmet: dict[tuple[str, str], UnmetRule | None] = {
            (table.name, rule.name): None for table in self.tables for rule in table.watched_rules
        }

    def look(self, table: Table, now: float) -> tuple[list[UnmetRule], list[UnmetRule]]:
        """Return the rules of one of `tables` that have ceased to hold since the last look, and those that hold again.

        now: seconds of a clock that never goes back. Raises StorageError, and what a store raises.
        """
        version = self._version_to_judge(table, now)
        rules = [rule for rule in table.watched_rules if isinstance(rule, FreshRule) or version is not None]
        if version is not None:
            self._judged[table.name] = now, -1  # rows that can't be read are not read again at each look
        unmet_rules = find_unmet_rules(self._layout, table, rules, time.time_ns() // 1_000_000)
        if version is not None:
            self._judged[table.name] = now, version
        unmet_by_rule = {unmet.rule: unmet for unmet in unmet_rules}
        ceased, restored = [], []
        for rule in rules:
            before, after = self.unmet[table.name, rule.name], unmet_by_rule.get(rule.name)
            self.unmet[table.name, rule.name] = after
            if after is not None and before is None:
                ceased.append(after)
            elif before is not None and after is None:
                restored.append(before)
        return ceased, restored

    def _version_to_judge(self, table: Table, now: float) -> int | None:
        """Return the table's version if its rows are to be read now, else None."""
        if not is_table(self._layout.silver(table.name)):
            return None
        read_at, version = self._judged.get(table.name, (now - SLOW_SECONDS, -1))
        newest_version = reader.open_table(self._layout.silver(table.name), f"table {table.name!r}").version()
        return None if now - read_at < SLOW_SECONDS or newest_version == version else newest_version
