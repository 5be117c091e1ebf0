"""SQL on Spark: every function's golden cases, JSON in any case, and a chosen few scenarios."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakehouse.formats.decode import decode_record
from lakehouse.ksql.expression.expression import ColumnScope
from lakehouse.ksql.function.table import FUNCTIONS
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax.parser import parse
from lakehouse.model.model import DecodedRecord
from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.origin import Source
from lakehouse.run.scenario.compare import is_same_value
from lakehouse.run.scenario.scenario import Batch, Scenario, find_files, read_scenario
from lakehouse.semantics.record import Record
from tests.packed import check_on_spark
from tests.seeds import DRAWN, draw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = [(record.name, text, value) for record in FUNCTIONS.values() for text, value in record.cases]
SCENARIOS = [
    scenario
    for scenario in map(read_scenario, find_files(Path(__file__).parent / "scenarios"))
    if scenario.error is None
]
PARTS = 5
# What only SQL makes: names, expressions, formats, JSON in any case. HAVING, windows, EXPLODE, INSERT INTO, joins and
# tables of tables are the same plan as in Python: tests/spark/test_scenarios.py has each of their kinds, and
# `make test-all` all of these too.
FEW = (
    "worked_example", "any_case", "moments", "key_alias", "delimited", "kafka_value", "group_by_value",
    "integer_division", "conditions", "structs", "lambdas", "computed_of_aggregates", "by_offset_several",
    "window_type_session", "json_keys", "quoted_fields", "half_of_a_pair_in_json", "half_of_a_pair_in_literals",
    "casts_of_digits", "equal_collections_of_maps",
)  # fmt: skip
# A tick of its own for each record: one of each kind of statement that keeps something from tick to tick.
KINDS = (
    "worked_example", "having", "table_group_by", "window_session", "final_having", "join_streams_left_grace",
    "join_table_left_all", "join_tables_outer", "explode_several_grouped", "insert_into_declared",
    "reread_table_as_stream", "by_offset_several",
)  # fmt: skip


def shown(value: Any) -> Any:
    """A value that Spark gives, as JSON has it."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    return value.isoformat() if hasattr(value, "isoformat") else value


def compiled(text: str) -> str:
    """The Spark SQL of an expression in ksqlDB's SQL."""
    query = parse(f"SELECT {text} FROM x")
    return ColumnScope(()).sql(query.items[0].expression).text  # type: ignore[union-attr, arg-type]


def check_golden_cases(spark: SparkSession, cases: list[tuple[str, str, Any]]) -> None:
    from lakehouse.spark.expression.declared import column_of

    texts = [compiled(text) for _, text, _ in cases]
    row = spark.range(1).select(*(column_of(Expression(text)).alias(f"c{n}") for n, text in enumerate(texts))).collect()
    result = [shown(value) for value in row[0].asDict(recursive=True).values()]
    wrong = [
        f"{text}: expected {wanted!r}, found {value!r}"
        for (_, text, wanted), value in zip(cases, result, strict=True)
        if not is_same_value(wanted, float(value) if isinstance(wanted, float) and value is not None else value)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.rotated
def test_golden_cases(spark: SparkSession) -> None:
    check_golden_cases(spark, CASES)


@pytest.mark.slow
def test_golden_cases_without_internals(plain_spark: SparkSession) -> None:
    """Functions in Python stand for Java's. A few cases at a time: each is a long text."""
    for start in range(0, len(CASES), 8):
        check_golden_cases(plain_spark, CASES[start : start + 8])


def in_one_batch(scenario: Scenario) -> Batch:
    return "all"


@pytest.mark.parametrize(
    "share", [pytest.param(8, id=f"eighth-{DRAWN}"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)
def test_scenarios(spark: SparkSession, tmp_path: Path, share: int) -> None:
    few = [scenario for scenario in SCENARIOS if scenario.path.stem in FEW]
    check_on_spark(spark, tmp_path, Random(draw()).sample(few, len(few) // share), in_one_batch)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_other_scenarios(part: int, spark: SparkSession, tmp_path: Path) -> None:
    """Those that the core does not have."""
    rest = [scenario for scenario in SCENARIOS if scenario.path.stem not in FEW]
    check_on_spark(spark, tmp_path, rest[part::PARTS], in_one_batch)


@pytest.mark.slow
def test_in_batches_of_one(spark: SparkSession, tmp_path: Path) -> None:
    kinds = [scenario for scenario in SCENARIOS if scenario.path.stem in KINDS]
    check_on_spark(spark, tmp_path, kinds, lambda _: "one")


NAMES = st.sampled_from(
    ["username", "USERNAME", "userName", "tags", "Tags", "home", "HOME", "city", "City", "zip", "x"]
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.integers(0, 9),
        st.sampled_from([2.5, -1e3]),
        st.sampled_from(["a", '"username":', "{", "\\u0041", "username", "7", "-1.5"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)
DOCUMENTS = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=40, max_size=40)
SPELLINGS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")])


@settings(
    max_examples=4, deadline=None, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck)
)
@given(documents=DOCUMENTS, spelling=SPELLINGS)
def test_json_in_any_case_is_the_rule_in_python(
    spark: SparkSession, documents: list[dict[str, Any]], spelling: tuple[str, str]
) -> None:
    from lakehouse.spark.stream.decoded import decode_records

    script = Script()
    script.run(
        "CREATE STREAM s (username VARCHAR, tags ARRAY<VARCHAR>, home STRUCT<city VARCHAR, zip INT>, x DOUBLE) "
        "WITH (kafka_topic='t', value_format='JSON');"
    )
    source = script.find("S", 0).relation.node.source  # type: ignore[union-attr]
    assert isinstance(source, Source)
    texts = [json.dumps(document, separators=spelling) for document in documents]
    texts += ['{"user\\u006eame": "a"}', '{"X": {"username": 1}, "USERname": "b"}', "null", "[]", '{"tags": "x"}']
    rows = spark.createDataFrame([(n, text) for n, text in enumerate(texts)], "n long, text string").selectExpr(
        "cast(null AS binary) AS key", "cast(text AS binary) AS value", "'t' AS topic", "'id' AS topic_id",
        "0 AS partition", "n AS offset", "timestamp_millis(0) AS timestamp", "timestamp_millis(0) AS order_time",
        "1L AS tick",
        "cast(null AS array<struct<key: string, value: binary>>) AS headers",
    )  # fmt: skip
    frame = decode_records(source, rows).select("rowoffset", "_bad", "_tombstone", "USERNAME", "TAGS", "HOME", "X")
    for row in frame.collect():
        text = texts[row["rowoffset"]]
        wanted = decode_record(source, Record("t", "id", 0, row["rowoffset"], 0, None, text.encode(), 1, 0))
        assert row["_bad"] == (not isinstance(wanted, DecodedRecord)), text
        if isinstance(wanted, DecodedRecord) and wanted.value is not None:
            values = row.asDict(recursive=True)
            assert {name: values[name] for name in wanted.value} == wanted.value, text
