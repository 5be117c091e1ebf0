"""INSERT INTO ... VALUES and ASSERT in a scenario: the records that are written, and what queries make of them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from lakehouse.errors import SqlError
from lakehouse.ksql.script import Script
from lakehouse.run.scenario.scenario import check_scenario, on_model, read_scenario

DECLARED = (
    "CREATE STREAM hits (page VARCHAR KEY, who VARCHAR, at TIMESTAMP) WITH (kafka_topic='hits', value_format='JSON');",
    "CREATE TABLE per_page AS SELECT page, COUNT(*) AS n, MAX(at) AS newest FROM hits GROUP BY page;",
    "CREATE STREAM known WITH (value_format='DELIMITED') AS SELECT page, who FROM hits WHERE who IS NOT NULL;",
    "CREATE TABLE hourly AS SELECT page, COUNT(*) AS n FROM hits WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY page;",
    "CREATE TABLE many AS SELECT page, n FROM per_page WHERE n < 2;",
    "INSERT INTO hits (ROWTIME, page, who, at) VALUES (10, 'a', 'ann', '1970-01-01T00:00:05');",
    "INSERT INTO hits (ROWTIME, page) VALUES (20, 'a');",
)


VALUES = (
    "CREATE STREAM t (a INT, d DECIMAL(4, 2), f BOOLEAN, b BYTES, x ARRAY<INT>, m MAP<VARCHAR, INT>, "
    "e ARRAY<DECIMAL(4, 2)>, s STRUCT<i INT, j DOUBLE>, v VARCHAR, l BIGINT, g DOUBLE) "
    "WITH (kafka_topic='t', value_format='JSON');"
)


def failures(folder: Path, *statements: str) -> list[str]:
    file = folder / "asserted.json"
    file.write_text(json.dumps({"name": "asserted", "statements": [*DECLARED, *statements]}))
    return check_scenario(read_scenario(file), on_model)


@pytest.mark.parametrize(
    "statement",
    [
        "ASSERT VALUES per_page (page, n, newest, ROWTIME) VALUES ('a', 1, '1970-01-01T00:00:05', 10);",
        "ASSERT VALUES per_page (page, n, newest) VALUES ('a', 1, '1970-01-01T00:00:05'); "
        "ASSERT VALUES per_page (page, n, newest) VALUES ('a', 2, '1970-01-01T00:00:05');",
        "ASSERT VALUES known (page, who) VALUES ('a', 'ann');",
        "ASSERT VALUES hourly (page, WINDOWSTART, WINDOWEND, n) VALUES ('a', 0, 1000, 1);",
        "ASSERT VALUES many (page, n) VALUES ('a', 1); ASSERT NULL VALUES many (page) VALUES ('a');",
        "ASSERT STREAM hits WITH (kafka_topic='hits', value_format='json');",
        "ASSERT STREAM hits (page VARCHAR KEY, who VARCHAR, at TIMESTAMP) WITH (key_format='KAFKA');",
        "ASSERT TABLE per_page (page VARCHAR PRIMARY KEY, n BIGINT, newest TIMESTAMP);",
    ],
)
def test_what_holds(tmp_path: Path, statement: str) -> None:
    assert failures(tmp_path, statement) == []


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ASSERT VALUES known (page, who) VALUES ('a', 'bob');", 'topic KNOWN: expected 1 records, found 1'),
        ("ASSERT VALUES known (page) VALUES ('a');", '{"WHO":null}'),
        ("ASSERT VALUES known (page, who) VALUES ('a', 'ann'); ASSERT VALUES known (page, who) VALUES ('a', 'b');",
         "expected 2 records, found 1"),
        ("ASSERT VALUES per_page (page, n, newest, ROWTIME) VALUES ('a', 1, '1970-01-01T00:00:05', 11);",
         '"timestamp":11'),
        ("ASSERT VALUES hourly (page, WINDOWSTART, WINDOWEND, n) VALUES ('a', 0, 2000, 1);", '"end":2000'),
        ("ASSERT NULL VALUES many (page) VALUES ('a');", '"value":null'),
    ],
)  # fmt: skip
def test_what_does_not_hold(tmp_path: Path, statement: str, said: str) -> None:
    assert said in "\n".join(failures(tmp_path, statement))


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ASSERT VALUES hits (page) VALUES ('a');", "nothing writes to HITS"),
        ("ASSERT VALUES known (page, city) VALUES ('a', 'b');", "column name CITY does not exist"),
        ("ASSERT VALUES known (page, who) VALUES ('a');", "expected 2 values, one for each of PAGE, WHO. Found 1"),
        ("ASSERT VALUES nowhere (page) VALUES ('a');", "NOWHERE does not exist"),
        ("ASSERT VALUES hourly (page, WINDOWSTART) VALUES ('a', 'x');", "WINDOWSTART is a number of milliseconds"),
        ("ASSERT TABLE known;", "can't read this"),
        ("ASSERT TABLE known WITH (kafka_topic='KNOWN');", "KNOWN is a STREAM, and not a TABLE"),
        ("ASSERT STREAM known WITH (kafka_topic='known');", "KAFKA_TOPIC of KNOWN is KNOWN, and not known"),
        ("ASSERT STREAM known WITH (value_format='JSON');", "VALUE_FORMAT of KNOWN is DELIMITED, and not JSON"),
        ("ASSERT STREAM hits WITH (timestamp='at');", "HITS is declared without TIMESTAMP, or it can't be compared"),
        ("ASSERT STREAM known WITH (replicas=3);", "KNOWN is declared without REPLICAS, or it can't be compared"),
        ("ASSERT STREAM known WITH (wrap_single_value=false);", "WRAP_SINGLE_VALUE of KNOWN is True, and not False"),
        ("ASSERT STREAM known (page VARCHAR KEY, who INT);", "KNOWN has other columns: PAGE"),
    ],
)
def test_what_can_not_be_asserted(tmp_path: Path, statement: str, said: str) -> None:
    with pytest.raises(SqlError) as error:
        failures(tmp_path, statement)
    assert said in str(error.value)


def test_records_of_a_topic_that_no_query_reads_make_no_difference(tmp_path: Path) -> None:
    file = tmp_path / "unread.json"
    declared = "CREATE STREAM other (id INT KEY, a INT) WITH (kafka_topic='other', value_format='JSON');"
    outputs = [{"topic": "KNOWN", "key": "a", "value": "ann"}]
    inputs = [{"topic": "other", "key": 1, "value": {"a": 1}}]
    scenario = {"statements": [*DECLARED, declared], "inputs": inputs, "outputs": outputs}
    file.write_text(json.dumps(scenario))
    assert check_scenario(read_scenario(file), on_model) == []


def inserted(statements: str) -> dict[str, object]:
    script = Script()
    script.run(statements)
    (record,) = script.inserted_records()
    return record


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("a", "1.9", "column A takes INTEGER. Found DECIMAL(2, 1)"),
        ("a", "2.9e0", "column A takes INTEGER. Found DOUBLE"),
        ("a", "3000000000", "column A takes INTEGER. Found BIGINT"),
        ("a", "'1.5'", "column A takes INTEGER. Found DECIMAL(2, 1)"),
        ("d", "1.239", "column D takes DECIMAL(4, 2). Found 1.239"),
        ("d", "555", "column D takes DECIMAL(4, 2). Found 555"),
        ("d", "1e0", "column D takes DECIMAL(4, 2). Found DOUBLE"),
        ("f", "'on'", "invalid input syntax for type BOOLEAN: 'on'"),
        ("f", "'1'", "invalid input syntax for type BOOLEAN: '1'"),
        ("b", "'@@'", "column B takes BYTES. Found '@@'"),
        ("x", "ARRAY[1.5]", "column X takes ARRAY<INTEGER>. Found ARRAY<DECIMAL(2, 1)>"),
        ("m", "MAP('a' := 1.7)", "column M takes MAP<VARCHAR(STRING), INTEGER>"),
        ("e", "ARRAY[1, 1.555]", "column E takes ARRAY<DECIMAL(4, 2)>"),
        ("s", "STRUCT(i := 1.5)", "column S takes STRUCT<I INTEGER, J DOUBLE>"),
    ],
)
def test_a_value_that_would_become_another_is_not_inserted(name: str, value: str, said: str) -> None:
    with pytest.raises(SqlError) as error:
        inserted(f"{VALUES} INSERT INTO t ({name}) VALUES ({value});")
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("a", "'5'", 5), ("a", "CAST(1.9 AS INT)", 1), ("a", "NULL", None), ("d", "1.230", Decimal("1.23")),
        ("f", "'yes'", True), ("b", "'YWI='", b"ab"), ("x", "ARRAY[1, NULL]", [1, None]), ("l", "2 * 3", 6),
        ("g", "0.1", 0.1), ("v", "5", "5"), ("s", "STRUCT(i := 1)", {"I": 1, "J": None}),
        ("e", "ARRAY[1, 2.5]", [Decimal(1), Decimal("2.5")]),
    ],
)  # fmt: skip
def test_a_value_that_fits_is_inserted(name: str, value: str, wanted: object) -> None:
    record = inserted(f"{VALUES} INSERT INTO t ({name}) VALUES ({value});")
    assert record["value"] == dict.fromkeys("ADFBXMESVLG") | {name.upper(): wanted}


def test_columns_of_headers_are_no_part_of_a_record_that_is_inserted(tmp_path: Path) -> None:
    declared = "CREATE STREAM h (t BYTES HEADER('trace'), a VARCHAR) WITH (kafka_topic='h', value_format='{}');"
    assert inserted(f"{declared.format('KAFKA')} INSERT INTO h VALUES ('b');")["value"] == "b"
    assert inserted(f"{declared.format('JSON')} INSERT INTO h VALUES ('b');")["value"] == {"A": "b"}
    with pytest.raises(SqlError, match=r"cannot insert into HEADER columns: T\. Leave them out"):
        inserted(f"{declared.format('JSON')} INSERT INTO h (t, a) VALUES ('b', 'c');")
    asserted = "ASSERT STREAM h (t BYTES HEADER('trace'), a VARCHAR);"
    assert failures(tmp_path, declared.format("JSON"), asserted) == []
