"""The proof program finds what is wrong, and shares no code with what it proves."""

from __future__ import annotations

import ast
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from examples.year_of_flights import independent_fold as proof

PARTITION = ("flights", 0)


def flight(dest: str, departed_at: str | None, distance: int | None = 100) -> bytes:
    cancelled = departed_at is None
    return json.dumps({"dest": dest, "departed_at": departed_at, "cancelled": cancelled, "distance": distance}).encode()


def folded() -> proof.Fold:
    fold = proof.Fold()
    fold.add("flights", b"N1", flight("SFO", "2013-01-01T10:00:00Z"))
    fold.add("flights", b"N1", flight("LAX", "2013-01-02T10:00:00Z", 250))
    fold.add("flights", b"N1", flight("BOS", None))  # cancelled: counts for nothing
    fold.add("flights", b"N2", flight("IAH", "2013-01-01T11:00:00Z", None))
    fold.add("flights", b"N2", None)  # a stream's null value takes no part
    fold.add("flights", None, flight("ATL", "2013-01-01T11:00:00Z"))  # a null key reaches no table
    fold.add("airborne", b"N1", b'{"dest": "SFO"}')
    fold.add("airborne", b"N1", b'{"dest": "LAX"}')
    fold.add("airborne", b"N2", b'{"dest": "IAH"}')
    fold.add("airborne", b"N2", None)
    fold.add("airborne", b"N2", None)  # nothing left to delete
    return fold


def test_the_fold() -> None:
    assert folded().tables() == {
        "location": {
            "N1": {"tailnum": "N1", "dest": "LAX", "departed_at": "2013-01-02T10:00:00Z"},
            "N2": {"tailnum": "N2", "dest": "IAH", "departed_at": "2013-01-01T11:00:00Z"},
        },
        "visits": {
            "N1": {"tailnum": "N1", "flights": 2, "miles": 350},
            "N2": {"tailnum": "N2", "flights": 1, "miles": 0},
        },
        "airborne": {"N1": {"tailnum": "N1", "dest": "LAX"}},
        "planes": {},
    }


def test_tables_are_equal_whatever_the_hidden_columns(tmp_path: Path) -> None:
    rows = [
        {"tailnum": "N2", "dest": "IAH", "departed_at": datetime(2013, 1, 1, 11, tzinfo=UTC), "_order": 7},
        {"tailnum": "N1", "dest": "LAX", "departed_at": datetime(2013, 1, 2, 10, tzinfo=UTC), "_order": 9},
    ]
    write_deltalake(tmp_path / "silver" / "location", pa.Table.from_pylist(rows))
    actual = proof.read_silver(str(tmp_path), "location")
    report = proof.compare_table(folded().tables()["location"], actual)
    assert report["equal"] is True
    assert (report["rows_expected"], report["rows_found"]) == (2, 2)


def test_every_kind_of_wrong_row_is_reported() -> None:
    expected = {key: {"tailnum": key, "flights": 1, "miles": 10} for key in ("N1", "N2", "N3")}
    actual = [
        expected["N1"],
        expected["N1"],
        {**expected["N2"], "miles": 11},
        {**expected["N1"], "tailnum": "N9"},
    ]
    report = proof.compare_table(expected, actual)
    assert report["equal"] is False
    counts = {name: report[name] for name in ("missing", "extra", "different", "duplicate")}
    assert counts == {"missing": 1, "extra": 1, "different": 1, "duplicate": 1}
    assert report["examples"]["missing"] == [expected["N3"]]
    assert report["examples"]["different"] == [{"expected": expected["N2"], "found": actual[2]}]


def test_a_duplicate_alone_is_not_equal() -> None:
    row = {"tailnum": "N1", "flights": 1}
    assert proof.compare_table({"N1": row}, [row, row])["equal"] is False


def test_an_extra_or_a_missing_column_is_a_difference() -> None:
    expected = {"N1": {"tailnum": "N1", "flights": 1}}
    assert proof.compare_table(expected, [{"tailnum": "N1", "flights": 1, "miles": 2}])["different"] == 1
    assert proof.compare_table(expected, [{"tailnum": "N1"}])["different"] == 1


def test_bronze_read_back_has_the_digests_of_the_drain(tmp_path: Path) -> None:
    # offset:   0  key, value        1  key, tombstone      2  null key       and one of a topic deleted since
    records = [(b"N1", b"{}", 1000), (b"N1", None, 2500), (None, b"x", 2501)]
    rows = [("id-now", offset, *record) for offset, record in enumerate(records)] + [("id-old", 0, None, None, 1)]
    names = ("topic", "topic_id", "partition", "offset", "key", "value", "timestamp")
    table = [
        dict(
            zip(
                names,
                ("flights", uid, 0, offset, key, value, datetime.fromtimestamp(ms / 1000, UTC)),
                strict=True,
            )
        )
        for uid, offset, key, value, ms in rows
    ]
    write_deltalake(tmp_path / "bronze" / "records", pa.Table.from_pylist(table), partition_by=["topic"])
    drained = {PARTITION: {offset: hash(record) for offset, record in enumerate(records)}}
    bronze = list(proof.read_bronze(str(tmp_path), {"flights": "id-now"}))
    assert len(bronze) == 3
    assert proof.compare_bronze(drained, iter(bronze))["flights/0"]["equal"] is True


@pytest.mark.parametrize(
    ("offsets", "fault"),
    [
        ([(0, 10), (2, 12)], {"missing": [1]}),
        ([(0, 10), (1, 11), (2, 12), (3, 13)], {"extra": [3]}),
        ([(0, 10), (1, 11), (1, 11), (2, 12)], {"duplicate": [1]}),
        ([(0, 10), (1, 99), (2, 12)], {"different": [1]}),
        ([(2, 12), (0, 10), (1, 11)], {}),
    ],
)
def test_every_offset_is_accounted_for(offsets: list[tuple[int, int]], fault: dict[str, list[int]]) -> None:
    drained = {PARTITION: {0: 10, 1: 11, 2: 12}}
    report = proof.compare_bronze(drained, ((PARTITION, *offset) for offset in offsets))["flights/0"]
    assert report["examples"] == fault
    assert report["equal"] is (not fault)


def test_a_missing_lake_gives_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(proof.CannotTell, match="visits"):
        proof.read_silver(str(tmp_path / "nowhere"), "visits")


def test_it_imports_nothing_of_the_project_and_no_spark() -> None:
    imported = set()
    for node in ast.walk(ast.parse(Path(proof.__file__).read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add((node.module or "").split(".")[0])
    assert not imported & {"lakehouse", "pyspark", "delta", "spark_jobs"}
