"""Net changes without Spark: in the order of positions, however many a version has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.record import sorted_rows
from lakehouse.lake.row import net_changes

from .versioned import VersionedTable, position
from .written import at

COLUMNS = {"id": pa.string(), "n": pa.int64(), "m": pa.map_(pa.string(), pa.int64())}
MANY = 20_000


@pytest.fixture(params=[sorted_rows.RUN_BYTES, 1 << 18])
def runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of bytes sorted in memory: all of them, or a part."""
    monkeypatch.setattr(sorted_rows, "RUN_BYTES", request.param)
    return int(request.param)


def row(n: int, tick: int, *, placed: bool = True) -> dict[str, Any]:
    place = position(tick, MANY - n) if placed else None
    return {"id": f"k{n}", "n": n, "m": {"a": n}, "_event_time": at(0), "_position": place}


def test_the_changes_of_one_version_come_in_order_and_are_not_all_in_memory(
    tmp_path: Path, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first version has all rows of its table: all were objects in memory before the first was shown."""
    table = VersionedTable(tmp_path, "counts", COLUMNS, ("id",), feed=True)
    table.commit(1, *(row(n, 1) for n in range(MANY)), row(MANY, 1, placed=False))
    table.commit(2, row(5, 2), gone=[row(3, 2)])
    monkeypatch.setattr(reader, "read_changes", None)  # reads the feed as one table
    actual = list(net_changes.walk_net_changes(Layout(str(tmp_path)), "counts", ("id",), None, None, None))
    assert [(item["_commit_version"], item["id"]) for item in actual[:3]] == [
        (1, f"k{MANY}"),
        (1, f"k{MANY - 1}"),
        (1, f"k{MANY - 2}"),
    ]
    assert [item["n"] for item in actual[: MANY + 1]] == list(range(MANY, -1, -1))
    assert {(item["_change_type"], item["id"]) for item in actual[MANY + 1 :]} == {
        ("delete", "k3"),
        ("update_postimage", "k5"),
    }
    assert actual[7]["m"] == {"a": MANY - 7}
    (only,) = net_changes.walk_net_changes(Layout(str(tmp_path)), "counts", ("id",), 1, 1, "k77")
    assert (only["n"], only["_position"]) == (77, position(1, MANY - 77))
    # The first change comes out before the rest is read back.
    first = next(net_changes.walk_net_changes(Layout(str(tmp_path)), "counts", ("id",), 2, None, None))
    assert first["_commit_version"] == 2


def test_what_was_made_from_one_record_comes_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    table = VersionedTable(tmp_path, "counts", COLUMNS, ("id",), feed=True)
    paths = [[], [0, 11], [2], [2, 0], [10], [10, 0, 3], [10, 1], [2**40]]
    rows = [{**row(n, 1), "_position": {**position(1, 7), "ordinals": path}} for n, path in enumerate(paths)]
    table.commit(1, *rows[::-1])
    actual = net_changes.walk_net_changes(Layout(str(tmp_path)), "counts", ("id",), None, None, None)
    assert [item["_position"]["ordinals"] for item in actual] == paths
