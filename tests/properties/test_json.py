"""The fast form of reading JSON, Spark's from_json, equals the rule in lakehouse.formats.values.json_value."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model.model import BadRecord, DecodedRecord
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.origin import Source
from lakehouse.semantics.record import Record
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# An example costs Spark jobs: a failing one is shown as it is, without an hour of shrinking. The first example is
# always hypothesis' least one: the same document 400 times.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
SCHEMA = (
    "i int, l bigint, s string, b boolean, d double, f float, m decimal(5, 2), at timestamp, on date, raw binary, "
    "st struct<x: int, y: string>, ar array<int>, ma map<string, bigint>"
)
STREAM = lh.stream("docs", key="id string", schema=SCHEMA)
# Spark then reads the moments in another way.
DEEPER = lh.stream("docs", key="id string", schema=SCHEMA + ", deep array<struct<x: timestamp>>")
FLAT = lh.stream(
    "docs", key="id string", schema="i int, s string, d double, f float, m decimal(5, 2), at timestamp, on date"
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(10**11, 10**17),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(
        [
            "2013-01-01T00:00:00Z",
            "2013-06-01",
            "2013-06-01 10:00:00.5",
            "12",
            "1.5",
            "12:30",
            " T9:00",
            "-1:00",
            "\n12:30",
            "0000-01-01",
            "+10000-01-01",
            "NaN",
            "AQI=",
            "true",
            "",
            " ",
        ]
    ),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, max_size=2)
    ),
    max_leaves=4,
)
names = st.sampled_from([*(column.name for column in DEEPER.source.value), "other", "I"])
documents = st.dictionaries(names, anything, max_size=3).map(lambda row: json.dumps(row).encode())
# As no encoder of Python writes them: numbers with any exponent, moments in every form, halves of surrogate pairs.
WRITTEN = r"""
    1.50 1.0 1e5 -0.0 -0 0 1E+400 1e-400 7E+123456789 -2e4301 3E+9000000 1e-9000000 0e999999999 NaN -Infinity
    1e99999999999999999999 799.929496989092949698 1577836800 20260131 "1e5000000" "-4e7000000" "1e-999999999" "0e99999"
    "a\ud800b" "\udc00" "x,1.5,2.50" "5e12345" "5e123456" "\u007f5" "2026-01-31T12:01Z" "2026-01-31T12Z"
    "2026-01-31t12:01:00z" "2026-01-31T12:01:00.123456789z" "20260131T120100Z" "20260131T1201+0100" "20260131"
    "2026-01-31T12:01:00,5Z" "+002026-01-31T12:01:00Z" "002026-01-31T12:01Z" "2026-01-31Z" "2026-01-31-05:00"
    "\n2026-01-31T12:01Z" "2026-01-31T24:00Z" "2026-W05-6"
    "2026-01-31T12:01+01:00[Europe/Rome]" "2026-01-31T12:01:00.5Z[UTC][u-ca=iso8601]" "2026-01-31T12:01Z[UTC"
    "2026-01-31T12:00:00PST" "2026-01-31T12:00:00.5BST" "2026-01-31T12:00:00EST" "2026-01-31T12:00:00SystemV/PST8"
    "2026-01-31T12:00:00Europe/Rome" "2026-01-31T12:00:00posix/Europe/Rome" "2026-01-31T12:00:00ROC"
    "2026-01-31T12:00:00\u00a0UTC" "2026-01-31T12:00:00Z\u2003" "2026-01-31T12:00:00localtime"
    1.0000001788139343 -1.0000001788139343 3.4028235677973366e38 16777217 9007199791611905 7.006492321624085e-46
    "12:30Z" "+12026-01-31" "2026-01-31T12:01\u005a" "\u0663.\uff15" "-\u0967" "\u2167"
"""
written = st.sampled_from([*WRITTEN.split(), '"\x7f5"', "1" * 1000, "1" * 1001, f"0.{'1' * 1000}"])
AROUND = [
    '{{"x":{}}}', '{{"x":7,"y":8,"x":{}}}', "[{}]", '{{"x":1, "y" : {}}}', '{{"x":1.0,"y":"\\u007f5","x":{}}}',
    '{{"\\ud800":{}, "b":"c"}}',
]  # fmt: skip
deeper = st.recursive(
    written,
    lambda inner: st.builds(str.format, st.sampled_from(AROUND), inner),
    max_leaves=2,
)
loose = st.builds(lambda name, value: f'{{"{name}": {value}, "i":1}}'.encode(), names, deeper)
LONG_NAMES = [f'{{"{"n" * length}": 1, "i": 7}}'.encode() for length in (50_000, 50_001)]
LONG_NAMES += [f'{{"ma": {{"{"n" * length}": 1}}, "i": 7}}'.encode() for length in (50_000, 50_001)]
MOMENTS = [f"2026-01-31 12:00:00 {zone}" for zone in ("PST", "CST ", "UTC", "Europe/Rome", "\u00a0UTC")]
MOMENTS += [f"{blank}2026-01-31T12:00:00Z{blank}" for blank in ("\u00a0", "\u2003", "\x7f", " ")]
NOISE = [b"", b" ", b"null", b" null\n", b"[]", b"5", b'{"i":1', b'{"i":1} x', b"\xff", b'{"s":"\xff"}']
NOISE += [*LONG_NAMES, *(f'{{"at": "{text}", "on": "{text}"}}'.encode() for text in MOMENTS)]
noise = st.sampled_from(NOISE)


@pytest.mark.rotated
@pytest.mark.parametrize("stream", [STREAM, DEEPER, FLAT], ids=["plain", "deeper", "flat"])
@settings(max_examples=3, deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(documents, loose, loose, noise), min_size=400, max_size=400))
@example([b'{"s": [6.291753222986879e+16, true]}'])  # Java before 19 writes 6.2917532229868792E16
def test_spark_reads_what_the_rule_reads(stream: lh.Stream, spark: SparkSession, docs: list[bytes]) -> None:
    check(stream, spark, docs)


FIELDS = {
    "@timestamp": "timestamp", "price (EUR)": "double", "log.level": "string", "N": "int", "_corrupt": "bigint",
    "имя": "string", "a$b\\d+": "int", "nested x": "struct<`user id`: int, `k=v,`: array<struct<`w.z`: timestamp>>>",
}  # fmt: skip
HARD = {'it"s': "int", "a/b": "int", "a,:[]{}": "string", "": "int", "\n": "double"}  # read in Python, in any case


def renamed(fields: dict[str, str], value_format: str = "json") -> lh.Stream:
    """A stream whose columns are c0, c1, ..., of fields of these names."""
    kinds = [re.sub(r"`([^`]*)`", lambda name: re.sub(r"\W", "_", name[1]), kind) for kind in fields.values()]
    columns = [Column(f"c{n}", kind, *field) for n, (kind, field) in enumerate(zip(kinds, fields.items(), strict=True))]
    made = lh.stream("docs", key="id string", schema=", ".join(f"{c.name} {c.type}" for c in columns))
    assert isinstance(made.source, Source)
    return replace(made, source=replace(made.source, value=tuple(columns), value_format=value_format))


CASED = [case(name) for name in [*FIELDS, *HARD, "user id", "w.z", "n", "other"] for case in
         (str, str.upper, str.lower, str.swapcase)]  # fmt: skip
TEXTS = ["2013-01-01T00:00:00Z", "2013-06-01", "12", "1.5", "12:30", "NaN", "AQI=", "true", "", "a/b", "ш", "\x7f"]


def document(dice: Random) -> bytes:
    """Write an object whose fields, and those inside it, have names out of CASED."""
    row = {dice.choice(CASED): value(dice, 2) for _ in range(dice.randint(0, 4))}
    text = json.dumps(row, ensure_ascii=dice.random() < 0.5)
    return (text.replace("/", "\\/") if dice.random() < 0.5 else text).encode()


def value(dice: Random, depth: int) -> object:
    kind = dice.randrange(8 if depth else 6)
    if kind == 6:
        return [value(dice, depth - 1) for _ in range(dice.randint(0, 2))]
    if kind == 7:
        return {dice.choice(CASED): value(dice, depth - 1) for _ in range(dice.randint(0, 3))}
    numbers = [None, True, dice.randint(-(2**70), 2**70), dice.randint(-9, 9), dice.uniform(-1e6, 1e6)]
    return dice.choice(TEXTS) if kind == 5 else numbers[kind]


@pytest.mark.parametrize("seed", seeds())
@pytest.mark.parametrize(
    "stream",
    [renamed(FIELDS | HARD), renamed({k: v for k, v in FIELDS.items() if k != "N"} | {"n": "int", "N": "int"}),
     renamed(FIELDS, "json_any_case"), renamed(FIELDS | {"a/b": "int"}, "json_any_case"),
     renamed(HARD, "json_any_case")],
    ids=["exact", "two cases", "any case", "escaped", "signs"],
)  # fmt: skip
def test_fields_of_any_name_are_read_by_the_rule(stream: lh.Stream, spark: SparkSession, seed: int) -> None:
    # Drawn without hypothesis: it takes minutes to draw this many nested documents.
    dice = Random(seed)
    check(stream, spark, [dice.choice(NOISE) if dice.random() < 0.05 else document(dice) for _ in range(1000)])


def check(stream: lh.Stream, spark: SparkSession, docs: list[bytes]) -> None:
    """Read documents on Spark, and compare with the rule."""
    from pyspark.sql import functions as F

    from lakehouse.spark.bronze import bronze
    from lakehouse.spark.changelog import published
    from lakehouse.spark.stream.decoded import decode_records

    records = [Record("docs", "id", 0, n, 1, b"k", doc, 1, 1) for n, doc in enumerate(docs)]
    rows = [("docs", "id", 0, r.offset, None, 0, None, r.key, r.value, 1, None) for r in records]
    frame = decode_records(stream.source, spark.createDataFrame(rows, bronze.SCHEMA)).orderBy("rowoffset")
    # A bad record may have times that Python lacks; nobody reads them.
    good = {c.name: F.when(~F.col("_bad"), F.col(c.name)) for c in stream.source.value}
    frame = frame.withColumns(good)
    differences = []
    for record, row in zip(records, published.rows_of_frame(frame), strict=True):
        item = decode_record(stream.source, record)
        result = {column.name: row[column.name] for column in stream.source.value}
        if row["_bad"] or isinstance(item, BadRecord):
            same = row["_bad"] and isinstance(item, BadRecord)
        else:
            assert isinstance(item, DecodedRecord)
            same = (item.value is None) == row["_tombstone"] and (item.value is None or _same(item.value, result))
        if not same:
            differences.append((record.value, row["_bad"], result, item))
    assert not differences


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    if isinstance(a, dict) and isinstance(b, list):  # Arrow returns a map as pairs
        return list(a.items()) == b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
    return bool(a == b)
