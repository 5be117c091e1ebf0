"""Random worlds with faults, and the oracle itself: what it takes for bad, and that it sees what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.worlds import oracle
from tests.faults.worlds.run import compare, run_world, seeds_of
from tests.seeds import seeds


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", seeds(1, 2, 3, on_spark=True))
def test_a_world_with_faults_is_right_at_the_end(tmp_path: Path, seed: int) -> None:
    run_world(seed, tmp_path / "world")


def stored(*values: bytes | None, key: bytes = b"k") -> list[oracle.Stored]:
    return [oracle.Stored(0, offset, 1_000 * offset, key, value) for offset, value in enumerate(values)]


def test_the_oracle_knows_bad_records_and_deletes() -> None:
    records = stored(b'{"customer": "a", "amount": 2}', b"x", b'{"amount": "2"}', b'{"customer": "a", "amount": -3}')
    assert oracle.bad_places(records, oracle.ORDER) == [(0, 1), (0, 2)]
    assert oracle.totals(records) == {"a": {"n": 2, "total": -1, "most": 2}}
    assert oracle.sizes(records) == {2: {"customers": 1}}
    assert oracle.latest_orders(records) == {"k": {"customer": "a", "amount": -3, "note": None}}
    assert oracle.latest_orders([*records, oracle.Stored(0, 4, 0, b"k", None)]) == {}
    clicks = [oracle.Stored(0, 0, 9_999, b"u", b"{}"), oracle.Stored(0, 1, 10_000, b"u", b"{}")]
    assert oracle.visits(clicks) == {("u", 0): {"n": 1}, ("u", 10_000): {"n": 1}}
    assert oracle.folded_topic(stored(b'{"n": 1}', b'{"n": 2}')) == {"k": {"n": 2}}


def test_a_difference_is_told_with_its_first_key() -> None:
    compare("same", {1: {"n": 1}}, {1: {"n": 1}})
    with pytest.raises(AssertionError, match=r"table t: 2 of 2 keys differ; 1 is \{'n': 2\}, expected \{'n': 1\}"):
        compare("table t", {1: {"n": 2}}, {1: {"n": 1}, 2: {"n": 1}})


def test_seeds_are_read() -> None:
    assert seeds_of("7") == [7]
    assert seeds_of("1-3,9") == [1, 2, 3, 9]
