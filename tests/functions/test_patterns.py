"""Regular expressions: the model finds what Java finds, or says that it needs Spark. Other patterns in each run."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from lakehouse.errors import NeedsSpark
from lakehouse.model.evaluate import evaluate
from lakehouse.model.function.java_regex import JavaPattern
from lakehouse.plan.expression.expression import parse_expression
from lakehouse.plan.expression.schema import Column

from ..seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHARACTERS = [*"\\\\\\019abAZ[](){}^$.*+?|-,dwsbBDWSzGQEvkN&:=!<>#xupi'\" ~", *"\n\r\u00e9\u2028\t\0"]
PARTS = [
    *"ab.()|*+?^$x-@}]&", "{1,2}", "[ab]", "[^a]", "\\b", "\\B", "(?:", "(?=", "(?!", "(?<=", "??", "*?", "\\1",
    "[a-c-]", "[\\w-]", "\\.", "\\d", "(a)", "(|a)", "[.$^]", "\\s", "\\/", "[^\\s@]", "\\x41", "\\u0041", "(?>", "\\A",
    "\\\\", "[-a]", "[a\\]]", "[\\\\]", "(?i)", "\\p{L}", "a++", "[a&&b]", "\\Q", "\\0",
]  # fmt: skip
TEXTS = [
    "", "a", "ab", "aAbZ", "0 1_9", "a\nb\n", "a-b&c,d", "\r\n", "a\u2028b", "{1}<a>", "[x]^$", "\t\x0b\x1c \u00a0",
    "\u00e9\u00c9a", "$", "\\d\\", "aa  bb", "aab", "abab\r", "\ra", "a\u0085", "@-.'\"#~", "a\U0001f600b",
    "\U0001d11e",
]  # fmt: skip
COLUMNS = [Column("t", "string"), Column("p", "string")]
FORMS = [
    "rlike(t, p)",
    "regexp_replace(t, p, '<$0>')",
    "regexp_extract_all(t, p, 0)",
    "regexp_extract(t, p, 1)",
    "split(t, p)",
]


def drawn_pattern(random: Random) -> str:
    symbols = random.choice((CHARACTERS, PARTS, PARTS))
    return "".join(random.choice(symbols) for _ in range(random.randint(1, 6)))


@pytest.mark.parametrize("seed", seeds(1))
def test_the_model_finds_what_spark_finds(spark: SparkSession, seed: int) -> None:
    from lakehouse.spark.expression.years import compute_columns

    random = Random(seed)
    pairs = [
        (text, pattern) for pattern in (drawn_pattern(random) for _ in range(700)) for text in random.sample(TEXTS, 5)
    ]
    items = [parse_expression(form, COLUMNS, form) for form in FORMS]
    frame = spark.createDataFrame(pairs, "t string, p string").coalesce(1)
    rows = frame.select(*compute_columns(frame, items)).toArrow().to_pylist()
    wrong, compared = [], 0
    for (text, pattern), row in zip(pairs, rows, strict=True):
        for form, item, wanted in zip(FORMS, items, row.values(), strict=True):
            try:
                value = evaluate(item, {"t": text, "p": pattern})
            except NeedsSpark:
                continue
            compared += 1
            if value != wanted:
                wrong.append(f"{form} of {text!r}, {pattern!r}: model {value!r}, Spark {wanted!r}")
    assert not wrong, "\n".join(wrong[:20])
    assert compared > len(pairs)


@pytest.mark.parametrize(
    "pattern",
    ["\\p{L}", "a++", "(?i)a", "[a&&b]", "[[a]b]", "\\0", "a{", "(|a)*", "\\101", "(?#a)", "(?P<n>a)", "[]a]", "x**"],
)
def test_what_python_may_read_otherwise_needs_spark(pattern: str) -> None:
    with pytest.raises(NeedsSpark):
        JavaPattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "spans"),
    [
        (".", "\r\u2028\u0085a", [(3, 4)]), ("$", "a\r\n", [(1, 1), (3, 3)]), ("|x", "x", [(0, 0), (1, 1)]),
        ("\\B", "", [(0, 0)]), ("\\bb", "a b", [(2, 3)]), ("[^^-]+", "a^-b", [(0, 1), (3, 4)]),
    ],
)  # fmt: skip
def test_java_finds(pattern: str, text: str, spans: list[tuple[int, int]]) -> None:
    assert [match.span() for match in JavaPattern(pattern).matches(text)] == spans
