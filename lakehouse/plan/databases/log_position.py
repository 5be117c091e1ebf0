"""Positions in the log of a database, as Debezium's records name them, and which transactions had committed at one.

| connector      | a position, as the database shows it                        | a record names                    |
|----------------|-------------------------------------------------------------|-----------------------------------|
| postgresql     | an LSN or its number, 16/B374D848: pg_current_wal_lsn()     | the commit before its transaction |
| mysql, mariadb | a place in a binlog, mysql-bin.3:484: SHOW BINARY LOG STATUS | where its event begins           |
| sqlserver      | a commit's LSN, 27:758:5 in full: sys.fn_cdc_get_max_lsn()  | its transaction's commit          |

The database at a position is the rows that all transactions left which had committed by then. A connector sends
transactions whole, and in the order of their commits; after a restart it sends the last ones again. So these
transactions are the records of each partition before the first one of a later transaction.

Positions are compared as texts of fixed length, their sort keys.

Source: `source` in https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-create-events
and on the pages of the other connectors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from lakehouse.errors import ConfigError, NotFound

LSN_BITS = 64
NUMBER_DIGITS = 20
_LSN = re.compile(r"(?P<high>[0-9A-Fa-f]{1,8})/(?P<low>[0-9A-Fa-f]{1,8})")
_BINLOG = re.compile(r"(?:.*[^0-9])?(?P<file>[0-9]{1,20})[:/](?P<place>[0-9]{1,20})")
_COMMIT_LSN = re.compile(r"(?:0x)?([0-9A-Fa-f]{8}):?([0-9A-Fa-f]{8}):?([0-9A-Fa-f]{4})")


class NamedPosition(Enum):
    """The position that the record of a change names."""

    COMMIT_BEFORE = "the last commit before its transaction"
    OWN_START = "where its event begins"
    OWN_COMMIT = "the commit of its transaction"


@dataclass(frozen=True, slots=True)
class DatabaseLog:
    """The log of a kind of database. sort_key, text: a position's sort key of its text, and the other way round."""

    connectors: tuple[str, ...]
    names: NamedPosition
    example: str
    sort_key: Callable[[str], str | None]
    text: Callable[[str], str]

    def parse(self, position: str) -> str:
        """Return the sort key of a position that somebody typed. Raises ConfigError."""
        if (sort_key := self.sort_key(position.strip())) is None:
            raise ConfigError(
                f"source position {position!r}: expected one of {self.connectors[0]}'s log, such as {self.example}."
            )
        return sort_key


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The facts that records give about a log around a position; all are sort keys, "" if there are none.

    first: the first position that any record names. last: the last position, leaving out snapshots. before: the last
    commit up to the position, which records or snapshots name. after: the first later commit.
    """

    first: str
    last: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """The records that came after a position: changes at or after `change`, rows of a snapshot after `snapshot`."""

    change: str
    snapshot: str


def find_bounds(log: DatabaseLog, position: str, facts: LogFacts) -> Bounds:
    """Return the bounds of a position, a sort key. Raises NotFound if the records end before it, or begin after it."""
    position_text = log.text(position)
    if not facts.first or position < facts.first:
        reason = f"the lake knows the database from {log.text(facts.first)} on" if facts.first else "there is no record"
        raise NotFound(f"source position {position_text}: {reason}; expected a later position.")
    if facts.last < position or (log.names is NamedPosition.OWN_COMMIT and facts.last == position):
        last_text = log.text(max(facts.last, facts.first))
        raise NotFound(
            f"source position {position_text}: the lake has the database's changes up to {last_text}, and needs one "
            "after the position to know that all before it have come. Run the application, or name an earlier "
            "position. A database that is idle sends none: docs/databases.md says what to do."
        )
    match log.names:
        case NamedPosition.COMMIT_BEFORE:
            return Bounds(facts.before, position)
        case NamedPosition.OWN_START:
            return Bounds(position, position)
        case NamedPosition.OWN_COMMIT:
            return Bounds(_next_key(position), position)


def check_next_transaction(log: DatabaseLog, position: str, facts: LogFacts, last_place: str) -> None:
    """Check that the transaction after the last commit up to a position had not committed by then. Raises NotFound.

    Only of a log whose records name the commit before. last_place: the sort key of the last change in it; "" if the
    lake has none.
    """
    if facts.before == position or not last_place or last_place >= position:
        return  # a transaction commits after its last change
    latest_text = f"by {log.text(facts.after)}" if facts.after else "later"
    choices = " or ".join(log.text(key) for key in (facts.before, facts.after) if key)
    raise NotFound(
        f"source position {log.text(position)}: a transaction committed after {log.text(facts.before)} and "
        f"{latest_text}; the records don't say whether it had by then. Name {choices}."
    )


def log_of(connector: str) -> DatabaseLog:
    """Return the log of a connector's database. Raises ConfigError for a connector whose positions are not known."""
    for log in LOGS:
        if connector in log.connectors:
            return log
    connector_names = ", ".join(name for log in LOGS for name in log.connectors)
    raise ConfigError(
        f"source position: found records of the connector {connector!r}, expected one of {connector_names}."
    )


def _next_key(sort_key: str) -> str:
    """Return a text that sorts directly after a sort key."""
    return sort_key + "\0"


def _lsn_key(text: str) -> str | None:
    if (match := _LSN.fullmatch(text)) is not None:
        return f"{int(match['high'], 16):08X}{int(match['low'], 16):08X}"
    if re.fullmatch(r"[0-9]{1,20}", text) and int(text) < 1 << LSN_BITS:
        return f"{int(text):016X}"
    return None


def _lsn_text(sort_key: str) -> str:
    return f"{int(sort_key[:8], 16):X}/{int(sort_key[8:], 16):X}"


def _binlog_key(text: str) -> str | None:
    if (match := _BINLOG.fullmatch(text)) is None:
        return None
    return f"{match['file'].zfill(NUMBER_DIGITS)}:{match['place'].zfill(NUMBER_DIGITS)}"


def _binlog_text(sort_key: str) -> str:
    file, _, place = sort_key.partition(":")
    return f"binlog {int(file)}:{int(place)}"


def _commit_lsn_key(text: str) -> str | None:
    match = _COMMIT_LSN.fullmatch(text)
    return None if match is None else ":".join(match.groups()).lower()


LOGS = (
    DatabaseLog(("postgresql",), NamedPosition.COMMIT_BEFORE, "16/B374D848", _lsn_key, _lsn_text),
    DatabaseLog(("mysql", "mariadb"), NamedPosition.OWN_START, "mysql-bin.000003:484", _binlog_key, _binlog_text),
    DatabaseLog(("sqlserver",), NamedPosition.OWN_COMMIT, "00000027:00000758:0005", _commit_lsn_key, str),
)
