"""ASSERT in the statements of a scenario: the declarations and the records of what queries write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.errors import SqlError
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
        ("ASSERT VALUES nowhere (page) VALUES ('a');", "NOWHERE does not exist"),
        ("ASSERT VALUES hourly (page, WINDOWSTART) VALUES ('a', 'x');", "WINDOWSTART is a number of milliseconds"),
        ("ASSERT TABLE known;", "can't read this"),
        ("ASSERT TABLE known WITH (kafka_topic='KNOWN');", "KNOWN is a STREAM, and not a TABLE"),
        ("ASSERT STREAM known WITH (kafka_topic='known');", "KAFKA_TOPIC of KNOWN is KNOWN, and not known"),
        ("ASSERT STREAM known WITH (value_format='JSON');", "VALUE_FORMAT of KNOWN is DELIMITED, and not JSON"),
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
