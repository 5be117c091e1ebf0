"""Any text is an expression that the model evaluates, one that needs Spark, or one that is refused: never a trace."""

from __future__ import annotations

from random import Random

import pytest

import lakehouse as lh
from lakehouse.errors import ExpressionError, NeedsSpark, PlanError
from lakehouse.plan.spark_functions.table import ALLOWED
from lakehouse.testing import Replay
from tests.seeds import seeds

SCHEMA = (
    "a int, b bigint, x double, name string, at timestamp, dt date, xs array<int>, ss array<string>, "
    "m map<string, int>, st struct<x: int, y: string>, d decimal(6, 2), bo boolean, raw binary"
)
STREAM = lh.stream("s", key="id string", schema=SCHEMA)
VALUES = (
    {"a": 1, "b": 2**62, "x": 2.5, "name": "x", "at": "2026-01-31T12:00:00Z", "dt": "2026-01-31", "xs": [1, 2, None],
     "ss": ["a", None], "m": {"k": 1}, "st": {"x": 1, "y": "z"}, "d": 1.25, "bo": True, "raw": "YQ=="},
    {"a": -5, "x": "NaN", "name": "", "xs": [], "m": {}, "bo": False},
    {},
)  # fmt: skip
LEAVES = (
    "a", "b", "x", "name", "at", "dt", "xs", "ss", "m", "st", "d", "bo", "raw", "st.x", "m['k']", "xs[0]", "null", "1",
    "-1", "0", "2.5", "1e3", "'x'", "''", "'2026-01-31'", "true", "rowtime", "interval 1 day", "date'2026-01-01'",
    "array(1, 2)", "map('k', 1)", "struct(1 AS x)", "9223372036854775807", "1L", "X'61'", "v -> v", "(v, w) -> v",
    "v -> v + 1", "v -> v is null", "cast(null as int)",
)  # fmt: skip
BETWEEN = ("+", "-", "*", "/", "%", "=", "<>", "<", "and", "or", "||", "<=>", "like", "rlike", "div", "in", "is", "&")
TYPES = ("int", "bigint", "string", "double", "date", "timestamp", "decimal(10, 2)", "boolean", "binary", "array<int>")
FUNCTIONS = sorted(ALLOWED)


def expression(dice: Random, depth: int) -> str:
    if not depth or dice.random() < 0.3:
        return dice.choice(LEAVES)

    def inner() -> str:
        return expression(dice, depth - 1)

    match dice.randrange(8):
        case 0 | 1 | 2:
            arguments = [inner() for _ in range(dice.choice((0, 1, 1, 2, 2, 3, 4)))]
            return f"{dice.choice(FUNCTIONS)}({', '.join(arguments)})"
        case 3:
            return f"({inner()} {dice.choice(BETWEEN)} {inner()})"
        case 4:
            return f"case when {inner()} then {inner()} else {inner()} end"
        case 5:
            return f"cast({inner()} as {dice.choice(TYPES)})"
        case 6:
            return dice.choice((f"{inner()}[{inner()}]", f"{inner()}.x", f"-{inner()}", f"not {inner()}"))
    return f"{inner()} between {inner()} and {inner()}"


def try_out(text: str) -> None:
    """Declare an expression and evaluate it on the model; whatever is no error of lakehouse's fails the test."""
    try:
        replay = Replay(lh.app(STREAM.select(v=text).latest("t")))
        for number, value in enumerate(VALUES):
            replay.send("s", key=str(number), value=value)
        replay.run()
    except (PlanError, NeedsSpark):
        pass
    except Exception as error:
        raise AssertionError(f"{text!r} ends in a {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("seed", seeds(1, 7))
def test_any_expression_has_a_value_or_a_message(seed: int) -> None:
    dice = Random(seed)
    for _ in range(500):
        try_out(expression(dice, dice.choice((1, 1, 2, 2, 3))))


@pytest.mark.parametrize("text", ["a.b = 1", "xs.a", "split(name, a)", "substr(name)", "timestampadd('', 1, at)"])
def test_arguments_that_the_model_does_not_take_need_spark(text: str) -> None:
    try_out(text)


@pytest.mark.parametrize(
    "text", ["map(1, 2, 3)", "ceil()", "map(1)", "date_diff(ss[1], a, a)", "not regexp_replace(b, b)",
             "cast(regexp_replace(b, b) AS array<int>)", "a in (regexp_replace(name, 'x'))"],
)  # fmt: skip
def test_a_call_with_other_arguments_is_told(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"stream 's': select: .* a function has other arguments than it takes"):
        STREAM.select(v=text)
