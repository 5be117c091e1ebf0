"""Random worlds with faults, and the oracle itself: what it takes for bad, and that it sees what is wrong."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lakehouse.run.start.application import load_app
from tests.faults.worlds import oracle
from tests.faults.worlds.application import PYTHON_TABLES, SQL_TABLES, Application
from tests.faults.worlds.reading import Gap, Rows, Stored, Taken, folded_topic
from tests.faults.worlds.renames import Renames
from tests.faults.worlds.run import compare, known_to, run_world, seeds_of, summary
from tests.faults.worlds.sweep import kind_of
from tests.seeds import seeds


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 2, 3, on_spark=True))
def test_a_world_with_faults_is_right_at_the_end(tmp_path: Path, seed: int) -> None:
    run_world(seed, tmp_path / "world")


def stored(*values: bytes | None, key: bytes = b"k") -> list[Stored]:
    return [Stored(0, offset, 1_000 * offset, key, value) for offset, value in enumerate(values)]


def taken(topic: str, *records: Stored, tick: int = 1) -> list[Taken]:
    return [Taken(tick, record.timestamp, topic, record) for record in records]


def latest_orders(records: list[Taken]) -> Rows:
    return oracle.TABLES["latest_orders"].fold(records)


def test_the_oracle_knows_bad_records_and_deletes() -> None:
    records = stored(
        b'{"customer": "a", "amount": 2}', b"x", b'{"amount": "2"}', b'{"customer": "a", "amount": -3}',
        b'{"customer": "a", "amount": 900}', b'{"customer": "a", "amount": null}',
    )  # fmt: skip
    bad = [("", 0, offset) for offset in (1, 2, 4, 5)]
    assert oracle.bad_places("orders", records) == bad
    orders = taken("orders", *records)
    assert oracle.totals(orders) == {"a": {"n": 2, "total": -1, "most": 2, "twice": -2}}
    assert oracle.sizes(orders) == {2: {"customers": 1}}
    row = {"customer": "a", "amount": -3, "note": None}
    assert latest_orders(orders) == oracle.newest_orders(orders) == {"k": row}
    late_delete = taken("orders", Stored(0, 6, 1_500, b"k", None))
    assert latest_orders([*orders, *late_delete]) == {}
    assert oracle.newest_orders([*orders, *late_delete]) == {"k": row}
    assert oracle.order_states(orders) == {("k", 0): {"valid_to": None, "customer": "a"}}
    assert oracle.order_states([*orders, *late_delete]) == {
        ("k", 0): {"valid_to": 1_500, "customer": "a"}, ("k", 3_000): {"valid_to": None, "customer": "a"},
    }  # fmt: skip
    clicks = taken("clicks", Stored(0, 0, 9_999, b"u", b"{}"), Stored(0, 1, 10_000, b"u", b"{}"))
    assert oracle.visits(clicks) == {("u", 0): {"n": 1}, ("u", 10_000): {"n": 1}}
    assert oracle.final_visits(clicks) == {("u", 0): {"n": 1}}
    user = taken("users", Stored(0, 0, 0, b"u", b'{"city": "Lima"}'))
    assert oracle.cities([clicks[0], *user, clicks[1]]) == {"Lima": {"n": 1}}
    user = taken("users", Stored(0, 0, 9_000, b"u", b"{}"), Stored(0, 1, 12_001, b"u", b"{}"))
    assert oracle.pairs([*clicks, *user]) == {"u": {"n": 2}}
    assert oracle.hops(clicks) == {("u", 0): {"n": 1}, ("u", 5_000): {"n": 2}, ("u", 10_000): {"n": 1}}
    clicks += taken("clicks", Stored(0, 2, 13_001, b"u", b"{}"))
    assert oracle.sessions(clicks) == {("u", 9_999, 10_000): {"n": 2}, ("u", 13_001, 13_001): {"n": 1}}
    payment = taken("payments", Stored(0, 0, 0, b"a", b'{"amount": 7, "method": "CARD"}'))
    assert oracle.settled([*orders[:1], *payment]) == {"k": {"amount": 2, "paid_amount": 7, "paid_tip": None}}
    fixed = oracle.with_fixes(orders, set(bad[:2]))
    assert oracle.totals(fixed)["fixed"] == {"n": 2, "total": 2, "most": 1, "twice": 4}
    assert folded_topic(stored(b'{"n": 1}', b'{"n": 2}')) == {"k": {"n": 2}}


def test_a_revert_takes_away_what_came_after_its_tick() -> None:
    (record,) = stored(b'{"customer": "a", "amount": 1}')
    bronze = [Taken(tick, 0, "orders", record) for tick in range(1, 8)]

    def ticks(reverts: list[tuple[int, int]], tick: int | None = None) -> list[int]:
        return [item.tick for item in known_to(bronze, reverts, tick)]

    assert ticks([]) == [1, 2, 3, 4, 5, 6, 7]
    assert ticks([(2, 4)]) == [1, 2, 5, 6, 7]
    assert ticks([(2, 4)], 3) == [1, 2, 3]
    assert ticks([(2, 4), (3, 6)]) == [1, 2, 3, 7]  # tick 3 was before the first revert
    assert ticks([(2, 4), (5, 6)]) == [1, 2, 5, 7]


def test_a_gap_covers_what_lies_in_it() -> None:
    gap = Gap("a", 0, 4, 6)
    covered = [
        place for place in (("a", 0, 3), ("a", 0, 4), ("a", 0, 6), ("a", 1, 4), ("b", 0, 4)) if gap.covers(place)
    ]
    assert covered == [("a", 0, 4)]
    assert Gap("a", 0, 4, None).covers(("a", 0, 9))


def test_values_in_avro_are_read_by_their_writer() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    writers = {7: schema}
    assert oracle.from_avro(b"\0\0\0\0\x07\x06", writers) == b'{"n": 3}'
    assert oracle.from_avro(None, writers) is None
    for value in (b"", b"\0\0\0\0\x08\x06", b"\0\0\0\0\x07", b"\0\0\0\0\x07\x06\x06", b"\1\0\0\0\x07\x06"):
        assert oracle.read_value(oracle.from_avro(value, writers), {"n": int}) is oracle.BAD


@pytest.mark.parametrize("in_sql", [False, True])
@pytest.mark.parametrize("in_avro", [False, True])
def test_an_application_declares_what_the_oracle_knows(tmp_path: Path, in_sql: bool, in_avro: bool) -> None:
    application = Application(in_sql, in_avro, own_table=False)
    file = tmp_path / application.file
    file.write_text(application.text)
    assert {table.name for table in load_app(str(file)).tables} == set(application.tables)
    assert set(PYTHON_TABLES) == set(oracle.TABLES)
    assert set(SQL_TABLES) < set(oracle.TABLES)


def test_a_difference_is_told_with_its_first_key() -> None:
    compare("same", {1: {"n": 1}}, {1: {"n": 1}})
    with pytest.raises(AssertionError, match=r"table t: 2 of 2 keys differ; 1 is \{'n': 2\}, expected \{'n': 1\}"):
        compare("table t", {1: {"n": 2}}, {1: {"n": 1}, 2: {"n": 1}})


def test_each_rename_is_seen_in_new_folders_too(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    numbers = []
    with Renames(tmp_path, lambda number, path: numbers.append(number)) as renames:
        for number in range(40):
            folder = tmp_path / ("a" if number % 2 else f"a/new-{number}")
            folder.mkdir(exist_ok=True)
            time.sleep(0.01)  # until the new folder is watched
            (folder / "tmp").write_text("x")
            (folder / "tmp").rename(folder / f"{number}.json")
        time.sleep(0.5)
    assert renames.paths == [
        f"a/{number}.json" if number % 2 else f"a/new-{number}/{number}.json" for number in range(40)
    ]
    assert numbers == list(range(1, 41))


def test_paths_are_of_one_kind_whatever_their_numbers() -> None:
    assert kind_of("silver/totals/_delta_log/00000000000000000007.json") == "silver/totals/_delta_log/#.json"
    assert kind_of("part-00000-04a8ccf4-2a35-4c0d-9f3e-0123456789ab-c000.parquet") == "part-#-#-c#.parquet"


def test_a_summary_has_the_faults_by_kind_and_the_time_to_the_next_commit() -> None:
    assert summary([]) == {"worlds": 0, "faults": {}, "median_seconds": None, "p99_seconds": None}
    worlds = [{"recovered": [("kill", 3.0), ("freeze", 1.0)]}, {"recovered": [("kill", 9.0)]}]
    assert summary(worlds) == {
        "worlds": 2,
        "faults": {"kill": 2, "freeze": 1},
        "median_seconds": 3.0,
        "p99_seconds": 9.0,
    }


def test_seeds_are_read() -> None:
    assert seeds_of("7") == [7]
    assert seeds_of("1-3,9") == [1, 2, 3, 9]
