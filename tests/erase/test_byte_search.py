"""The search through every byte: what it finds, where, and what it does not take for a key."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.run.erase.byte_search import Occurrence, ValuePattern, search_files
from tests.seeds import draw


def found(folder: Path, *values: str, columns: tuple[str, ...] = ()) -> list[Occurrence]:
    occurrences = search_files(str(folder), ValuePattern(values, columns)).occurrences
    return sorted(occurrences, key=lambda item: (item.path, item.place))


def write(folder: Path, name: str, rows: list[dict[str, Any]], **options: Any) -> None:
    pq.write_table(pa.Table.from_pylist(rows), folder / name, **options)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ({"a": "anna-berg"}, "a"),
        ({"a": b'{"customer": "anna-berg"}'}, "a"),
        ({"a": [1, 2], "b": ["x", "to anna-berg, please"]}, "b"),
        ({"a": {"b": {"c": "anna-berg"}}}, "a.b.c"),
        ({"a": [{"b": b"\x00\x12anna-berg\xff"}]}, "a.b"),
    ],
)
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_text_is_found_in_any_column_of_a_compressed_file(
    tmp_path: Path, row: dict[str, Any], column: str, compression: str
) -> None:
    others = [{**row, **{name: type(value)() for name, value in row.items()}} for _ in range(200)]
    write(tmp_path, "x.parquet", [*others, row, *others], compression=compression, write_statistics=False)
    assert Occurrence("x.parquet", f"column {column}") in found(tmp_path, "anna-berg")
    assert found(tmp_path, "bo-lind") == []


def test_a_part_of_a_longer_word_is_another_word(tmp_path: Path) -> None:
    write(tmp_path, "x.parquet", [{"a": "anna-bergs"}, {"a": "xanna-berg"}, {"a": "anna-berg_2"}])
    (tmp_path / "log.json").write_text('{"a": "johanna-berg"}')
    assert found(tmp_path, "anna-berg") == []
    (tmp_path / "log.json").write_text('{"max": "anna-berg"}')
    assert found(tmp_path, "anna-berg") == [Occurrence("log.json", "its bytes")]


@pytest.mark.parametrize(
    "data",
    [
        '{"name": "Zo\u00eb M\u00fcller/X"}'.encode(),
        rb'{"name": "Zo\u00eb M\u00fcller/X"}',
        rb'{"name": "Zo\u00EB M\u00FCller\/X"}',
        "Zo\u00eb M\u00fcller/X;1".encode("latin-1"),
    ],
)
def test_a_text_is_found_however_it_is_spelled(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, "x.parquet", [{"value": data}])
    (tmp_path / "log.json").write_bytes(data)
    assert {item.path for item in found(tmp_path, "Zo\u00eb M\u00fcller/X")} == {"x.parquet", "log.json"}
    assert found(tmp_path, "Zo\u00eb M\u00fcller/Y") == []


def test_a_number_is_found_where_it_means_the_key(tmp_path: Path) -> None:
    write(
        tmp_path,
        "x.parquet",
        [{"id": 4711, "amount": 4711, "text": "4711 pieces", "value": b'{"amount": 4711, "size": 14711}'}],
    )
    assert found(tmp_path, "4711", columns=("customer",)) == []
    assert found(tmp_path, "4711", columns=("ID",)) == [Occurrence("x.parquet", "column id")]
    assert found(tmp_path, "4711", columns=("amount",)) == [
        Occurrence("x.parquet", "column amount"),
        Occurrence("x.parquet", "column value"),
    ]
    for number, text in enumerate(('"4711"', '{"stats": "{\\"max\\": {\\"customer\\": 4711}}"}', "4711")):
        (tmp_path / f"{number}.json").write_text(text)
    assert found(tmp_path, "4711", columns=("customer",)) == [
        Occurrence("0.json", "its bytes"),
        Occurrence("1.json", "its bytes"),
        Occurrence("2.json", "its bytes"),
    ]
    write(tmp_path, "d.parquet", [{"customer": Decimal("4711.00"), "at": datetime(2026, 1, 1, tzinfo=UTC)}])
    assert Occurrence("d.parquet", "column customer") in found(tmp_path, "4711", columns=("customer",))


def test_a_day_a_time_and_a_fraction_are_found_by_what_they_mean(tmp_path: Path) -> None:
    """As a silver table has them: the JSON in bronze has their texts, and a column of the table has none."""
    row = {"born": date(1980, 5, 5), "at": datetime(2026, 1, 31, 11, tzinfo=UTC), "id": 1.5, "price": Decimal("1.50")}
    others = [{"born": date(1980, 5, 6), "at": None, "id": float("nan"), "price": None}, dict.fromkeys(row)]
    write(tmp_path, "x.parquet", [*others, row], write_statistics=False)
    for text, columns, places in (
        ("1980-05-05", (), ["column born"]),
        ("1980-05-07", (), []),
        ("2026-01-31T12:00:00+01:00", (), ["column at"]),
        ("2026-01-31T11:00:00Z", (), ["column at"]),
        ("2026-01-31 11:00:00", (), ["column at"]),
        ("2026-01-31", (), []),
        ("1.5", ("id",), ["column id"]),
        ("1.5", ("price",), ["column price"]),
        ("1.5", (), []),
    ):
        assert [item.place for item in found(tmp_path, text, columns=columns)] == places, text


def test_statistics_names_and_raw_bytes_are_searched(tmp_path: Path) -> None:
    write(tmp_path, "customer=anna-berg.parquet", [{"a": "b"}])
    (tmp_path / "state.bin").write_bytes(random.Random(draw()).randbytes(10_000) + b"\x00anna-berg\x00")
    assert found(tmp_path, "anna-berg") == [
        Occurrence("customer=anna-berg.parquet", "its name"),
        Occurrence("state.bin", "its bytes"),
    ]
    # The statistics keep a value that the rows lost: as a writer leaves it that cuts a file's end off.
    write(tmp_path, "s.parquet", [{"a": "EWR"}, {"a": "JFK"}])
    data = (tmp_path / "s.parquet").read_bytes()
    footer_begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    pages = data[:footer_begin].replace(b"EWR", b"AAA")
    (tmp_path / "s.parquet").write_bytes(pages + data[footer_begin:])
    assert found(tmp_path, "EWR") == [Occurrence("s.parquet", "column a")]


def test_random_files_are_found_wherever_the_value_stands(tmp_path: Path) -> None:
    dice = random.Random(draw())
    for number in range(30):
        has_value, word = dice.random() < 0.5, "".join(dice.choices("klmn", k=12))
        rows = [{"key": dice.randbytes(4), "value": json.dumps({"n": n, "who": "other"}).encode()} for n in range(50)]
        if has_value:
            place = rows[dice.randrange(50)]
            place[dice.choice(("key", "value"))] = json.dumps({"who": word}).encode()
        write(tmp_path, f"{number}.parquet", rows, compression=dice.choice(("snappy", "gzip", "none")))
        files = {item.path for item in found(tmp_path, word)}
        assert files == ({f"{number}.parquet"} if has_value else set())
