"""Positions of databases' logs: how they are typed, shown and compared, and which of them records can tell."""

from __future__ import annotations

import pytest

from lakehouse.errors import ConfigError, NotFound
from lakehouse.plan.databases.log_position import (
    Bounds,
    LogFacts,
    check_next_transaction,
    find_bounds,
    log_of,
)
from lakehouse.semantics.moment import AtOffsets
from lakehouse.semantics.time.named_moment import moment_from_text, moment_of

POSTGRES, MYSQL, SQLSERVER = (log_of(name) for name in ("postgresql", "mysql", "sqlserver"))


@pytest.mark.parametrize(
    ("connector", "texts", "shown"),
    [
        ("postgresql", ("16/B374D848", " 16/b374d848 ", "97500059720"), "16/B374D848"),
        ("postgresql", ("0/0", "0"), "0/0"),
        ("postgresql", ("FFFFFFFF/FFFFFFFF", str(2**64 - 1)), "FFFFFFFF/FFFFFFFF"),
        ("mysql", ("mysql-bin.000003:484", "000003:484", "3/484", "my-bin.2024.000003:484"), "binlog 3:484"),
        ("mariadb", ("mariadb-bin.1000000:4",), "binlog 1000000:4"),
        ("sqlserver", ("00000027:00000758:000A", "0x0000002700000758000A"), "00000027:00000758:000a"),
    ],
)
def test_a_position_is_read_as_the_database_shows_it(connector: str, texts: tuple[str, ...], shown: str) -> None:
    log = log_of(connector)
    assert {log.text(log.parse(text)) for text in texts} == {shown}


@pytest.mark.parametrize(
    ("connector", "earlier", "later"),
    [
        ("postgresql", "0/FFFFFFFF", "1/0"), ("postgresql", "9/0", "A/0"), ("mysql", "bin.999999:5", "bin.1000000:4"),
        ("mysql", "bin.3:99", "bin.3:100"), ("sqlserver", "00000027:00000758:0005", "00000027:00000758:0006"),
    ],
)  # fmt: skip
def test_positions_compare_as_the_log_goes(connector: str, earlier: str, later: str) -> None:
    assert log_of(connector).parse(earlier) < log_of(connector).parse(later)


@pytest.mark.parametrize(
    ("connector", "text"),
    [
        ("postgresql", "16/B374D8481"), ("postgresql", str(2**64)), ("postgresql", "-1"), ("postgresql", ""),
        ("postgresql", "now"), ("postgresql", "٣"), ("mysql", "16/B374"), ("mysql", "mysql-bin.000003"),
        ("sqlserver", "27:758:5"), ("sqlserver", "97500059720"),
    ],
)  # fmt: skip
def test_what_is_no_position_is_refused_with_an_example(connector: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"expected one of {connector}'s log, such as "):
        log_of(connector).parse(text)


def test_a_connector_without_known_positions_is_refused() -> None:
    with pytest.raises(ConfigError, match="connector 'mongodb', expected one of postgresql, mysql"):
        log_of("mongodb")


def lsn(number: int) -> str:
    return POSTGRES.parse(str(number))


def test_bounds_by_what_a_log_names() -> None:
    facts = LogFacts(lsn(10), lsn(50), lsn(20), lsn(40))
    assert find_bounds(POSTGRES, lsn(30), facts) == Bounds(lsn(20), lsn(30))
    assert find_bounds(POSTGRES, lsn(50), facts) == Bounds(lsn(20), lsn(50)), "a change lies there, its commit later"
    start = MYSQL.parse("bin.1:30")
    assert find_bounds(MYSQL, start, LogFacts(MYSQL.parse("1:4"), start, "", "")) == Bounds(start, start)
    commit, before = (SQLSERVER.parse(f"00000000:00000000:000{n}") for n in (2, 1))
    bounds = find_bounds(SQLSERVER, before, LogFacts(before, commit, before, commit))
    assert before < bounds.change < commit


@pytest.mark.parametrize(
    ("position", "said"), [(9, "knows the database from 0/A on"), (51, "has the database's changes up to 0/32")]
)
def test_a_position_outside_of_the_records_is_refused(position: int, said: str) -> None:
    with pytest.raises(NotFound, match=said):
        find_bounds(POSTGRES, lsn(position), LogFacts(lsn(10), lsn(50), lsn(20), lsn(40)))


def test_the_last_commit_may_not_be_whole() -> None:
    commit = SQLSERVER.parse("00000000:00000000:0002")
    with pytest.raises(NotFound, match="needs one after the position"):
        find_bounds(SQLSERVER, commit, LogFacts(commit, commit, commit, ""))
    with pytest.raises(NotFound, match="there is no record"):
        find_bounds(SQLSERVER, commit, LogFacts("", "", "", ""))


def test_a_transaction_of_which_only_the_bounds_of_its_commit_are_known() -> None:
    facts = LogFacts(lsn(10), lsn(50), lsn(20), lsn(40))
    check_next_transaction(POSTGRES, lsn(20), facts, lsn(15))  # it commits after 20
    check_next_transaction(POSTGRES, lsn(30), facts, lsn(30))  # it commits after its last change
    check_next_transaction(POSTGRES, lsn(30), facts, "")
    with pytest.raises(NotFound, match=r"committed after 0/14 and by 0/28; .*Name 0/14 or 0/28"):
        check_next_transaction(POSTGRES, lsn(30), facts, lsn(25))


def test_a_moment_names_a_position() -> None:
    positions: list[str] = []

    def find(position: str) -> AtOffsets:
        positions.append(position)
        return AtOffsets({})

    assert moment_of("source:16/B3", find_source=find) == AtOffsets({})
    assert moment_from_text(" lsn:16/B4", find) == AtOffsets({})
    assert positions == ["16/B3", "16/B4"]
    with pytest.raises(ConfigError, match="only the application knows"):
        moment_from_text("source:16/B3")
    with pytest.raises(ConfigError, match="found at and tick"):
        moment_of("source:16/B3", tick=3, find_source=find)
