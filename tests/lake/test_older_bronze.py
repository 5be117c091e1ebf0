"""Bronze that lacks ticks which its tables have: it is found without Spark, and what to do is said."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from lakehouse.errors import StorageError
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.older_bronze import refuse_older_bronze
from lakehouse.semantics.record import Record

from ..written_bronze import write_bronze


def record(offset: int, tick: int, topic: str = "words") -> Record:
    return Record(topic, f"id-{topic}", 0, offset, offset, b"k", b"v", tick, offset)


def write_progress(folder: Path, name: str, tick: int) -> None:
    """Write a table at a tick, as its writer leaves it."""
    numbers = CommitProperties(app_transactions=[Transaction(f"lakehouse.{name}", (2 << 40) + tick)])
    write_deltalake(str(folder), pa.table({"k": ["a"]}), mode="append", commit_properties=numbers)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A lake whose bronze is at tick 2."""
    write_bronze(tmp_path / "lake", [record(n, n + 1) for n in range(2)])
    return tmp_path / "lake"


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("silver/counted", "counted"),
        ("state/counted", "state.counted"),
        ("late/counted", "late.counted"),
        ("quarantine/words", "quarantine.words"),
    ],
)
def test_what_is_ahead_of_bronze_is_refused_with_what_to_remove(root: Path, folder: str, name: str) -> None:
    write_progress(root / folder, name, 2)
    refuse_older_bronze(Layout(str(root)))
    write_progress(root / folder, name, 4)
    with pytest.raises(StorageError, match=f"Found bronze at tick 2, while {folder} is at tick 4; expected") as actual:
        refuse_older_bronze(Layout(str(root)))
    assert "remove silver/NAME, state/NAME, late/NAME and anchors/NAME" in str(actual.value)


@pytest.mark.parametrize(("folder", "name"), [("bronze/own/other", "ingest"), ("interventions/log", "interventions")])
def test_what_is_written_before_bronze_may_be_one_tick_ahead_as_a_kill_leaves_it(
    root: Path, folder: str, name: str
) -> None:
    write_progress(root / folder, name, 3)
    refuse_older_bronze(Layout(str(root)))
    write_progress(root / folder, name, 4)
    with pytest.raises(StorageError, match=f"{folder} is at tick 4"):
        refuse_older_bronze(Layout(str(root)))


def test_a_lake_without_bronze_is_refused_if_it_has_tables_and_a_new_one_is_not(tmp_path: Path) -> None:
    refuse_older_bronze(Layout(str(tmp_path)))
    write_progress(tmp_path / "silver/restored", "restored", 0)  # a restored table waits for its first tick
    refuse_older_bronze(Layout(str(tmp_path)))
    for number in range(7):
        write_progress(tmp_path / f"silver/made_{number}", f"made_{number}", 1)
    with pytest.raises(StorageError, match=r"bronze at tick 0, while .*silver/made_4 is at tick 1 and 2 more;"):
        refuse_older_bronze(Layout(str(tmp_path)))


def test_a_table_that_cannot_be_read_hinders_no_run(root: Path) -> None:
    write_progress(root / "silver/broken", "broken", 4)
    for entry in (root / "silver/broken/_delta_log").glob("*.json"):
        entry.write_text("{")
    refuse_older_bronze(Layout(str(root)))
