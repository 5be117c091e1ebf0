"""Calls that share a part which raises: each is null, and the job goes on, in plans that are compiled and in others."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakehouse.plan.expression.expression import Expression
from lakehouse.spark.expression.declared import column_of
from lakehouse.spark.jvm.session.session import new_session
from tests.conftest import PLANS


@pytest.mark.parametrize("plans", PLANS)
@pytest.mark.parametrize(
    "texts",
    [
        ("ksql_json_at(t, '/a')", "ksql_json_at(t, '/b')"),
        ("ksql_json_text(t)", "ksql_json_at(t, '/b')"),
        ("ksql_regexp_group('a', t, 0)", "ksql_regexp_group('a', t, 1)"),
        (
            "ksql_format_timestamp(timestamp_millis(0), 'yyyy', t)",
            "ksql_format_timestamp(timestamp_millis(0), 'MM', t)",
        ),
        ("ksql_parse_date('1', t)", "ksql_parse_date('2', t)"),
    ],
)
def test_a_part_that_raises_in_two_calls(spark: SparkSession, plans: str, texts: tuple[str, ...]) -> None:
    session = new_session(spark)
    for name, value in PLANS[plans].items():
        session.conf.set(name, value)
    frame = session.createDataFrame([("{bad",)], "t string")
    columns = [column_of(Expression(text)).alias(f"value_{number}") for number, text in enumerate(texts)]
    assert list(frame.select(*columns).collect()[0]) == [None, None]
