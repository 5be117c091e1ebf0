"""Kafka's primitives, byte for byte as its own serializers write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.formats.codec.primitive import decode_primitive, encode_primitive
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column

BYTES: list[tuple[str, Any, str]] = [
    ("string", "Zoë", "5a6fc3ab"), ("string", "", ""), ("int", 1, "00000001"), ("int", -2, "fffffffe"),
    ("bigint", 1, "0000000000000001"), ("bigint", -(2**63), "8000000000000000"), ("double", 1.5, "3ff8000000000000"),
    ("binary", b"\x00\xff", "00ff"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "data"), BYTES)
def test_bytes(kind: str, value: Any, data: str) -> None:
    columns = (Column("v", kind),)
    assert encode_primitive({"v": value}, columns).hex() == data
    assert decode_primitive(bytes.fromhex(data), columns) == {"v": value}


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        ("int", "0000000000000001", r"expected 4 bytes \(int\), found 8: 0x0000000000000001"),
        ("bigint", "00000001", r"expected 8 bytes \(bigint\), found 4"),
        ("double", "", r"expected 8 bytes \(double\), found 0"),
        ("string", "61ff", "expected UTF-8, found byte 0xff at 1"),
    ],
)
def test_bytes_that_do_not_fit(kind: str, data: str, reason: str) -> None:
    with pytest.raises(Unfit, match=reason):
        decode_primitive(bytes.fromhex(data), (Column("v", kind),))


@pytest.mark.parametrize(("kind", "value"), [("int", 2**31), ("bigint", 2**63), ("double", "x")])
def test_values_that_do_not_fit(kind: str, value: Any) -> None:
    with pytest.raises(Unfit, match="can't be written"):
        encode_primitive({"v": value}, (Column("v", kind),))


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
def test_what_is_written_is_read_again(i: int, n: int, d: float) -> None:
    for kind, value in (("int", i), ("bigint", n), ("double", d)):
        columns = (Column("v", kind),)
        assert decode_primitive(encode_primitive({"v": value}, columns), columns) == {"v": value}
