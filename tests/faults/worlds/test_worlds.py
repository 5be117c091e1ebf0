"""Random worlds with faults, and the oracle itself: what it takes for bad, and that it sees what is wrong."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.faults.worlds import oracle
from tests.faults.worlds.renames import Renames
from tests.faults.worlds.run import compare, known_to, run_world, seeds_of, summary
from tests.faults.worlds.sweep import kind_of
from tests.seeds import seeds


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", seeds(1, 2, 3, on_spark=True))
def test_a_world_with_faults_is_right_at_the_end(tmp_path: Path, seed: int) -> None:
    run_world(seed, tmp_path / "world")


def stored(*values: bytes | None, key: bytes = b"k") -> list[oracle.Stored]:
    return [oracle.Stored(0, offset, 1_000 * offset, key, value) for offset, value in enumerate(values)]


def taken(topic: str, *records: oracle.Stored, tick: int = 1) -> list[oracle.Taken]:
    return [oracle.Taken(tick, record.timestamp, topic, record) for record in records]


def test_the_oracle_knows_bad_records_and_deletes() -> None:
    records = stored(
        b'{"customer": "a", "amount": 2}', b"x", b'{"amount": "2"}', b'{"customer": "a", "amount": -3}',
        b'{"customer": "a", "amount": 900}', b'{"customer": "a", "amount": null}',
    )  # fmt: skip
    assert oracle.bad_places("orders", records) == [(0, 1), (0, 2), (0, 4), (0, 5)]
    orders = taken("orders", *records)
    assert oracle.totals(orders) == {"a": {"n": 2, "total": -1, "most": 2, "twice": -2}}
    assert oracle.sizes(orders) == {2: {"customers": 1}}
    row = {"customer": "a", "amount": -3, "note": None}
    assert oracle.latest_orders(orders) == oracle.newest_orders(orders) == {"k": row}
    late_delete = taken("orders", oracle.Stored(0, 6, 1_500, b"k", None))
    assert oracle.latest_orders([*orders, *late_delete]) == {}
    assert oracle.newest_orders([*orders, *late_delete]) == {"k": row}
    assert oracle.order_states(orders) == {("k", 0): {"valid_to": None, "customer": "a"}}
    assert oracle.order_states([*orders, *late_delete]) == {
        ("k", 0): {"valid_to": 1_500, "customer": "a"}, ("k", 3_000): {"valid_to": None, "customer": "a"},
    }  # fmt: skip
    clicks = taken("clicks", oracle.Stored(0, 0, 9_999, b"u", b"{}"), oracle.Stored(0, 1, 10_000, b"u", b"{}"))
    assert oracle.visits(clicks) == {("u", 0): {"n": 1}, ("u", 10_000): {"n": 1}}
    assert oracle.final_visits(clicks) == {("u", 0): {"n": 1}}
    user = taken("users", oracle.Stored(0, 0, 0, b"u", b'{"city": "Lima"}'))
    assert oracle.cities([clicks[0], *user, clicks[1]]) == {"Lima": {"n": 1}}
    assert oracle.folded_topic(stored(b'{"n": 1}', b'{"n": 2}')) == {"k": {"n": 2}}


def test_a_revert_takes_away_what_came_after_its_tick() -> None:
    (record,) = stored(b'{"customer": "a", "amount": 1}')
    bronze = [oracle.Taken(tick, 0, "orders", record) for tick in range(1, 8)]

    def ticks(table: str, reverts: list[tuple[int, int]], tick: int | None = None) -> list[int]:
        return [item.tick for item in known_to(table, bronze, reverts, tick)]

    assert ticks("totals", []) == [1, 2, 3, 4, 5, 6, 7]
    assert ticks("totals", [(2, 4)]) == [1, 2, 5, 6, 7]
    assert ticks("totals", [(2, 4)], 3) == [1, 2, 3]
    assert ticks("totals", [(2, 4), (3, 6)]) == [1, 2, 3, 7]  # tick 3 was before the first revert
    assert ticks("totals", [(2, 4), (5, 6)]) == [1, 2, 5, 7]
    assert ticks("cities", [(2, 4)]) == [1, 2, 3, 4, 5, 6, 7]


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
