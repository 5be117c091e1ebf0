"""The files of snapshots: which there are, their times, and their rows as records, of each kind."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyarrow import parquet

import lakehouse as lh
from lakehouse.errors import ConfigError, NotFound, StorageError
from lakehouse.kafka.snapshot_topic import SnapshotRow
from lakehouse.plan.origin import Source
from lakehouse.run.snapshots import taking
from lakehouse.run.snapshots.files import list_snapshots, time_of_name, time_text
from lakehouse.run.snapshots.rows import read_rows
from lakehouse.run.snapshots.taking import FileTimes

SCHEMA = "name string, credit decimal(10, 2), since date, seen timestamp, tags array<string>"
ROWS = [
    {
        "id": 1, "name": "Ann", "credit": Decimal("10.50"), "since": date(2020, 1, 1),
        "seen": datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC), "tags": ["a", "b"],
    },
    {"id": 2, "name": None, "credit": None, "since": None, "seen": None, "tags": None},
]  # fmt: skip
WRITTEN = [
    (
        1,
        {
            "name": "Ann", "credit": 10.5, "since": "2020-01-01", "seen": "2026-01-01T12:00:00.123456Z",
            "tags": ["a", "b"],
        },
    ),
    (2, {"name": None, "credit": None, "since": None, "seen": None, "tags": None}),
]  # fmt: skip


def source_of(path: Path | str, schema: str = SCHEMA, key: str = "id bigint", **options: Any) -> Source:
    source = lh.snapshots("customers", str(path), key=key, schema=schema, **options).source
    assert isinstance(source, Source)
    return source


def only_rows(source: Source) -> list[SnapshotRow]:
    (snapshot,) = FileTimes().snapshots_of(source)
    return list(read_rows(source, snapshot))


def written(rows: list[SnapshotRow]) -> list[tuple[int, Any]]:
    return [(int.from_bytes(row.key, signed=True), json.loads(row.value)) for row in rows]


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), path)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31", "2026-01-31T00:00:00Z"),
        ("20260131", "2026-01-31T00:00:00Z"),
        ("2026-01-31T12-30", "2026-01-31T12:30:00Z"),
        ("2026-01-31T12-30-15Z", "2026-01-31T12:30:15Z"),
        ("2026-01-31_12-30", "2026-01-31T12:30:00Z"),
        ("2026-01-31 123015", "2026-01-31T12:30:15Z"),
        ("20260131T123015Z", "2026-01-31T12:30:15Z"),
        ("20260131_1230", "2026-01-31T12:30:00Z"),
        ("2026-01-31T12:30:15.250Z", "2026-01-31T12:30:15.250000Z"),
        ("2026-01-31T12-30-15+0100", "2026-01-31T11:30:15Z"),
        ("20260131T1230-05", "2026-01-31T17:30:00Z"),
        ("2026-01-31T12-30-05", "2026-01-31T12:30:05Z"),
    ],
)
def test_times_in_names(text, time):
    assert time_text(time_of_name(text, "file")) == time


@pytest.mark.parametrize(
    "text", ["today", "2026-13-01", "12", "2026", "2026-01", "0001-01-01", "31.01.2026", "2026-01-31T99-00", "~"]
)
def test_a_name_without_a_time_is_refused_with_the_file(text):
    with pytest.raises(ConfigError, match="exports/c: found"):
        time_of_name(text, "exports/c")


def test_files_of_one_time_are_one_snapshot_and_others_are_left_alone(tmp_path):
    for name in ("2026-01-02/part-1.csv", "2026-01-02/part-0.csv", "2026-01-01/part-0.csv"):
        path = tmp_path / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("id,name\n1,a\n")
    (tmp_path / "out/2026-01-02/_SUCCESS").touch()
    (tmp_path / "out/2026-01-02/.part-0.csv.crc").touch()
    (tmp_path / "out/part-0.csv").touch()
    source = source_of(tmp_path / "out/{at}/part-*.csv", "name string")
    assert source.snapshots is not None
    snapshots = list_snapshots(source.snapshots)
    assert [time_text(snapshot.time_ms)[:10] for snapshot in snapshots] == ["2026-01-01", "2026-01-02"]
    assert [Path(file).name for file in snapshots[1].files] == ["part-0.csv", "part-1.csv"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("{at}-*.csv", ["2026-01-31-part1", "2026-02-01-part1", "2026-02-02T12-30-15-part1", "20260203T123015Z-x"]),
        ("c-{at}*.csv", ["c-2026-01-31", "c-2026-02-01-again", "c-2026-02-02T12-30-15", "c-20260203T123015Zx"]),
        ("*-{at}.csv", ["c-2026-01-31", "2026-c-2026-02-01", "c-2026-02-02T12-30-15", "c-20260203T123015Z"]),
    ],
)
def test_a_time_beside_other_text_goes_as_far_as_it_can(tmp_path, path, names):
    for name in names:
        (tmp_path / f"{name}.csv").write_text("id,name\n1,a\n")
    source = source_of(tmp_path / path, "name string")
    assert source.snapshots is not None
    assert [time_text(snapshot.time_ms) for snapshot in list_snapshots(source.snapshots)] == [
        "2026-01-31T00:00:00Z",
        "2026-02-01T00:00:00Z",
        "2026-02-02T12:30:15Z",
        "2026-02-03T12:30:15Z",
    ]


def test_times_without_a_mark_before_the_hour_are_not_one_day(tmp_path):
    for name in ("20260131120000", "20260131180000"):
        (tmp_path / f"{name}.csv").write_text("id,name\n1,a\n")
    with pytest.raises(ConfigError, match="found '20260131120000' for the time"):
        FileTimes().snapshots_of(source_of(tmp_path / "{at}*.csv", "name string"))
    (tmp_path / "c-2026013107.csv").write_text("id,name\n1,a\n")
    (snapshot,) = FileTimes().snapshots_of(source_of(tmp_path / "c-{at}07.csv", "name string"))
    assert time_text(snapshot.time_ms) == "2026-01-31T00:00:00Z"


def test_a_file_that_is_replaced_under_its_name_is_a_new_snapshot(tmp_path):
    source = source_of(tmp_path / "customers.csv", "name string", at="exported_at")
    times = FileTimes()
    for day in ("2026-01-31", "2026-02-01"):
        (tmp_path / "new.csv").write_text(f"id,name,exported_at\n1,a,{day}\n")
        (tmp_path / "new.csv").rename(tmp_path / "customers.csv")
        assert [time_text(snapshot.time_ms)[:10] for snapshot in times.snapshots_of(source)] == [day]


def test_a_time_that_no_calendar_has_is_refused(tmp_path):
    forever = pa.array([2**63 - 1], pa.timestamp("ms"))
    parquet.write_table(pa.table({"id": [1], "valid_to": forever}), tmp_path / "c-2026-01-01.parquet")
    with pytest.raises(ConfigError, match=r"c-2026-01-01.parquet.*column 'valid_to' has a time"):
        only_rows(source_of(tmp_path / "c-{at}.parquet", "valid_to timestamp"))


def test_letters_of_a_pattern_mean_themselves(tmp_path):
    (tmp_path / "a+b[1].2026-01-01.csv").write_text("id,name\n1,a\n")
    (tmp_path / "aab1x2026-01-01.csv").write_text("id,name\n1,a\n")
    assert len(only_rows(source_of(tmp_path / "a+b[1].{at}.csv", "name string"))) == 1


def test_parquet(tmp_path):
    write_parquet(tmp_path / "c-2026-01-01.parquet", ROWS)
    rows = only_rows(source_of(tmp_path / "c-{at}.parquet"))
    assert written(rows) == WRITTEN
    assert [(Path(row.file).name, row.row) for row in rows] == [
        ("c-2026-01-01.parquet", 1),
        ("c-2026-01-01.parquet", 2),
    ]
    assert b'"credit":10.50' in rows[0].value


def test_moments_of_any_unit_and_maps(tmp_path):
    table = pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "nanos": pa.array([1_767_225_600_123_456_789], pa.timestamp("ns")),
            "zoned": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("ms", "Europe/Berlin")),
            "counts": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
            "none": pa.array([[]], pa.map_(pa.string(), pa.int32())),
            "more": pa.array(["not declared"]),
        }
    )
    parquet.write_table(table, tmp_path / "c-2026-01-01.parquet")
    schema = "nanos timestamp, zoned timestamp, counts map<string, int>, none map<string, int>"
    assert written(only_rows(source_of(tmp_path / "c-{at}.parquet", schema))) == [
        (1, {"nanos": "2026-01-01T00:00:00.123456Z", "zoned": "2026-01-01T00:00:00Z", "counts": {"a": 1}, "none": {}})
    ]


def test_delta_versions_are_snapshots(tmp_path):
    table = pa.Table.from_pylist(ROWS)
    write_deltalake(tmp_path / "c", table)
    write_deltalake(tmp_path / "c", table.slice(0, 1), mode="overwrite")
    source = source_of(tmp_path / "c", kind="delta")
    snapshots = FileTimes().snapshots_of(source)
    assert [snapshot.version for snapshot in snapshots] == [0, 1]
    assert snapshots[0].time_ms < snapshots[1].time_ms
    assert written(list(read_rows(source, snapshots[0]))) == WRITTEN
    (row,) = read_rows(source, snapshots[1])
    assert row.file.endswith("c, version 1")


def test_a_delta_version_has_the_time_of_its_own_commit(tmp_path):
    """What a commit says about itself may be missing: the versions after it are still those of their numbers."""
    table = pa.Table.from_pylist(ROWS)
    for _ in range(3):
        write_deltalake(tmp_path / "c", table, mode="append")
    source, log = source_of(tmp_path / "c", kind="delta"), tmp_path / "c" / "_delta_log"
    infos: list[dict[str, Any]] = [{"timestamp": 5_000}, {}, {"timestamp": 1, "inCommitTimestamp": 9_000}]
    for version, info in enumerate(infos):
        file = log / f"{version:020}.json"
        actions = [line for line in file.read_text().splitlines() if "commitInfo" not in line]
        file.write_text("\n".join([json.dumps({"commitInfo": info}), *actions] if info else actions))
    with pytest.raises(StorageError, match=r"c: version 1 says no time; expected a commitInfo"):
        FileTimes().snapshots_of(source)
    (log / f"{1:020}.json").write_text("\n".join([*actions, json.dumps({"commitInfo": {"timestamp": 7_000}})]))
    snapshots = FileTimes().snapshots_of(source)
    assert [(snapshot.version, snapshot.time_ms) for snapshot in snapshots] == [(0, 5_000), (1, 7_000), (2, 9_000)]


def test_csv_by_names_in_any_order_with_a_mark_and_packed(tmp_path):
    text = '\ufeffname,"Full, credit",id,more\r\n"An,n",10.5,1,x\r\n\r\n,,2,\r\n'
    (tmp_path / "c-2026-01-01.csv.gz").write_bytes(gzip.compress(text.encode()))
    source = source_of(tmp_path / "c-{at}.csv.gz", "name string, credit decimal(10, 2) from 'Full, credit'")
    assert written(only_rows(source)) == [
        (1, {"name": "An,n", "Full, credit": 10.5}),
        (2, {"name": None, "Full, credit": None}),
    ]


def test_json_lines(tmp_path):
    (tmp_path / "c-2026-01-01.jsonl").write_text('{"id": 1, "name": "a", "more": 1}\n\n{"name": null, "id": 2}\n')
    assert written(only_rows(source_of(tmp_path / "c-{at}.jsonl", "name string"))) == [
        (1, {"name": "a"}),
        (2, {"name": None}),
    ]


def test_a_column_says_the_time(tmp_path):
    (tmp_path / "one.csv").write_text("id,name,exported\n1,a,2026-01-02T12:00:00Z\n2,b,2026-01-02T12:00:01Z\n")
    (tmp_path / "two.csv").write_text("id,name,exported\n1,a,2026-01-01\n")
    snapshots = FileTimes().snapshots_of(source_of(tmp_path / "*.csv", "name string", at="exported"))
    assert [(time_text(item.time_ms), Path(item.files[0]).name) for item in snapshots] == [
        ("2026-01-01T00:00:00Z", "two.csv"),
        ("2026-01-02T12:00:01Z", "one.csv"),
    ]


@pytest.mark.parametrize(
    ("ending", "content", "message"),
    [
        ("csv", "id,name\n1,a\nx,b\n", "row 2: field id: expected bigint, found 'x'"),
        ("csv", "id,name\n1,a\n2\n", "row 2: expected 2 fields, found 1"),
        ("csv", "id,name\n,a\n", "row 1: its key, id, is null"),
        ("csv", "name\na\n", "expected one column 'id'; found name"),
        ("csv", "id,name,id\n1,a,1\n", "expected one column 'id'; found id, name, id"),
        ("csv", "", "expected one column 'id'; found no line of names"),
        ("csv", 'id,name\n1,"a\n', "row 1: expected CSV"),
        ("csv", b"id,name\n1,\xff\n", "row 1: 'utf-8' codec can't decode"),
        ("jsonl", '{"id": 1}\n{"id": "x"}\n', "row 2: field id: expected bigint"),
        ("jsonl", "[1]\n", "row 1: expected a JSON object"),
        ("jsonl", "null\n", "row 1: expected an object, found null"),
        ("parquet", "PAR1 is not enough", "can't be read as Parquet"),
        ("csv.gz", "not packed", "can't be read"),
    ],
)
def test_a_file_that_does_not_fit_is_named_with_the_row(tmp_path, ending, content, message):
    path = tmp_path / f"c-2026-01-01.{ending}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as caught:
        only_rows(source_of(tmp_path / f"c-{{at}}.{ending}", "name string"))
    assert message in str(caught.value)
    assert path.name in str(caught.value)


def test_both_zeros_are_one_key(tmp_path):
    (tmp_path / "c-2026-01-01.csv").write_text("id,name\n0.0,a\n-0.0,b\n")
    rows = only_rows(source_of(tmp_path / "c-{at}.csv", "name string", key="id double"))
    assert {row.key for row in rows} == {bytes(8)}, "who writes them refuses the second"


def test_values_that_lose_a_part_are_those_of_a_topic(tmp_path):
    """As docs/snapshots.md says; the records of topics are read so, too."""
    row = {"rate": "1.005", "large": "1e400", "wide": "9007199254740993", "day": "2026-01-31T10:00:00.000005"}
    (tmp_path / "c-2026-01-01.csv").write_text(f"id,{','.join(row)}\n1,{','.join(row.values())}\n")
    schema = "rate decimal(10, 2), large double, wide double, day date"
    assert written(only_rows(source_of(tmp_path / "c-{at}.csv", schema))) == [
        (1, {"rate": 1.01, "large": "Infinity", "wide": 2.0**53, "day": "2026-01-31"})
    ]


def test_values_of_parquet_are_not_bent(tmp_path):
    write_parquet(tmp_path / "c-2026-01-01.parquet", [{"id": 1, "name": 2.5}])
    with pytest.raises(ConfigError, match="row 1: field name: expected int"):
        only_rows(source_of(tmp_path / "c-{at}.parquet", "name int"))


def test_a_missing_folder_or_table_is_named(tmp_path):
    with pytest.raises(NotFound, match="no such folder"):
        only_rows(source_of(tmp_path / "none/c-{at}.csv", "name string"))
    with pytest.raises(NotFound, match="no Delta table"):
        only_rows(source_of(tmp_path / "none", kind="delta"))


def test_a_delta_table_that_can_not_be_read_is_named(tmp_path):
    """By an error of lakehouse's own: any other would end the thread that looks for snapshots."""
    path = tmp_path / "c"
    write_deltalake(path, pa.Table.from_pylist(ROWS))
    log_entry = path / "_delta_log" / f"{0:020d}.json"
    written_log = log_entry.read_text()
    log_entry.write_text("no JSON")
    with pytest.raises(StorageError, match=rf"{path}: can't be read as a Delta table"):
        only_rows(source_of(path, kind="delta"))
    log_entry.write_text(written_log)
    (file,) = path.glob("*.parquet")
    file.write_bytes(b"no Parquet")
    with pytest.raises(StorageError, match=rf"{path}: can't be read as a Delta table"):
        only_rows(source_of(path, kind="delta"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"at"x,id\n2026-01-01,1\n', "row 1: expected CSV"),
        ("at,id\nsoon,1\n", "row 1: field at: expected timestamp, found 'soon'"),
        ("at,id\n2026-01-01,1\n2026-01-02\n", "row 2: expected 2 fields, found 1"),
        ("at,id\n2026-01-01,\udcff\n", "row 1: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_file_whose_time_can_not_be_read_is_named(tmp_path: Path, text: str, reason: str) -> None:
    """It ended the thread that looks for snapshots: no later one of any source was taken in."""
    (tmp_path / "a.csv").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=rf"a\.csv, {reason}.*Correct the file"):
        FileTimes().snapshots_of(source_of(tmp_path / "*.csv", "x string", at="at"))


def test_a_line_of_names_that_is_no_csv_is_named(tmp_path: Path) -> None:
    (tmp_path / "c-2026-01-01.csv").write_text('"id"x,name\n1,Ann\n')
    with pytest.raises(ConfigError, match=r"csv, row 1: expected CSV"):
        only_rows(source_of(tmp_path / "c-{at}.csv", "name string"))


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32()])
def test_a_moment_that_no_calendar_has_is_named_with_its_row(tmp_path: Path, kind: pa.DataType) -> None:
    moments = pa.array([0, None, 2**60 if pa.types.is_timestamp(kind) else 10_000_000])
    table = pa.table(
        {"id": [1, 2, 3], "day": moments.cast(pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)}
    )
    parquet.write_table(table, tmp_path / "c-2026-01-01.parquet")
    declared_type = "date" if kind == pa.date32() else "timestamp"
    with pytest.raises(ConfigError, match=r"parquet, row 3: expected dates and times of the years 1 to 9999"):
        only_rows(source_of(tmp_path / "c-{at}.parquet", f"day {declared_type}"))


def test_lines_of_json_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "c-2026-01-01.jsonl").write_bytes(b'\xef\xbb\xbf{"id": 1, "name": "Ann"}\n{"id": 2, "name": "Bob"}\n')
    rows = written(only_rows(source_of(tmp_path / "c-{at}.jsonl", "name string")))
    assert rows == [(1, {"name": "Ann"}), (2, {"name": "Bob"})]


def test_no_error_ends_the_thread_that_looks_for_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, told, looks = source_of(tmp_path / "c-{at}.csv"), list[tuple[str, str]](), list[Source]()
    has_looked = threading.Event()

    def look_at(source: Source, stop: Callable[[], bool]) -> bool:
        looks.append(source)
        if len(looks) == 3:
            has_looked.set()
        raise OverflowError("a date")

    monkeypatch.setattr(taking, "LOOK_SECONDS", 0.01)
    stand_in: Any = SimpleNamespace(sources=[source], look_at=look_at, warn=lambda *event: told.append(event))
    with taking.keep_looking(stand_in):
        assert has_looked.wait(20)
    assert told == [("snapshot refused", "OverflowError: a date")]
