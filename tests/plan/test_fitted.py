"""The result of a user's function is converted to its declared type, or does not fit."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.plan.expression.fit_values import TypeFit

MOMENT = datetime(2020, 1, 1, 12, tzinfo=UTC)
FITS: list[tuple[str, Any, Any]] = [
    ("bigint", 5, 5), ("bigint", 5.0, 5), ("int", -(2**31), -(2**31)), ("double", 1, 1.0),
    ("float", 0.1, 0.10000000149011612),
    ("decimal(4, 2)", 3, Decimal("3.00")), ("decimal(4, 2)", Decimal("99.99"), Decimal("99.99")),
    ("decimal(38, 0)", Decimal("9" * 38), Decimal("9" * 38)), ("decimal(2, 2)", 0, Decimal("0.00")),
    ("decimal(2, 2)", Decimal("0e999999999"), Decimal("0.00")), ("decimal(2, 2)", Decimal("0.05"), Decimal("0.05")),
    ("string", "a", "a"), ("boolean", True, True), ("binary", bytearray(b"a"), b"a"),
    ("date", date(2020, 1, 1), date(2020, 1, 1)),
    ("timestamp", datetime(2020, 1, 1, 12), MOMENT),
    ("timestamp", MOMENT.astimezone(timezone(timedelta(hours=3))), MOMENT),
    ("array<double>", (1, None), [1.0, None]), ("map<string, int>", {"a": 1.0}, {"a": 1}),
    ("struct<n: bigint, x: double>", {"n": 1}, {"n": 1, "x": None}), ("struct<n: bigint>", None, None),
    ("bigint", np.int64(3), 3), ("array<float>", [np.float32(0.1)], [0.10000000149011612]),
    ("boolean", np.bool_(True), True), ("string", np.str_("a"), "a"),
]  # fmt: skip
UNFIT: list[tuple[str, Any]] = [
    ("bigint", 1.5), ("bigint", 2**63), ("bigint", "1"), ("bigint", True), ("int", 2**31), ("double", "x"),
    ("bigint", float("nan")), ("bigint", float("inf")), ("decimal(4, 2)", Decimal("1.001")), ("decimal(4, 2)", 100),
    ("decimal(4, 2)", Decimal("NaN")), ("string", 1), ("boolean", 1), ("date", MOMENT),
    ("timestamp", date(2020, 1, 1)),
    ("array<int>", "ab"), ("map<string, int>", {None: 1}), ("struct<n: bigint>", [1]),
    ("struct<n: bigint>", {"n": "x"}), ("struct<n: bigint, m: bigint>", {"N": 1}),
    ("struct<n: bigint>", {"n": 1, "m": 2}),
    ("bigint", np.float64(1.5)), ("string", "a\ud800"), ("map<string, int>", {"\udc00": 1}),
    ("array<struct<s: string>>", [{"s": "\udfff"}]), ("decimal(38, 2)", Decimal("1e50")),
    ("decimal(38, 2)", Decimal("1e999999999")), ("decimal(4, 2)", Decimal("1e-999999999")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "wanted"), FITS)
def test_fits(kind: str, value: Any, wanted: Any) -> None:
    made = TypeFit(kind)(value)
    assert (made, str(made)) == (wanted, str(wanted))


@pytest.mark.parametrize(("kind", "value"), UNFIT)
def test_does_not_fit(kind: str, value: Any) -> None:
    with pytest.raises((ValueError, OverflowError)):
        TypeFit(kind)(value)


def test_a_zero_that_does_not_fit_is_refused() -> None:
    with pytest.raises(PlanError, match="zero='' does not fit accumulator='bigint'"):
        lh.aggregate("n", zero="", add=max, accumulator="bigint")
