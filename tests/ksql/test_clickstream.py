"""docs/clickstream.md: its statements, together, are an application that gives these rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ksql.script import application
from lakehouse.testing import Replay

PAGE = Path(__file__).parents[2] / "docs" / "clickstream.md"


@pytest.fixture(scope="module")
def replay() -> Replay:
    statements = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return Replay(application("\n".join(statements)))


def click(second: int, user: int, status: int = 200, ip: str = "10.0.0.1") -> dict[str, Any]:
    value = {"time": "x", "ip": ip, "request": "GET /", "status": status, "userid": user, "bytes": 10, "agent": "a"}
    return {"value": value, "timestamp": second * 1000}


def test_the_page(replay: Replay) -> None:
    replay.send("clickstream_users", key="7", value={"username": "Ann", "city": "Rome"})
    replay.send("clickstream_codes", key=404, value={"definition": "Not found"})
    for item in (click(1, 7), click(2, 7), click(61, 7, 404), click(62, 8), click(500, 7)):
        replay.send("clickstream", **item)
    for second in range(600, 606):
        replay.send("clickstream", **click(second, 9, 404))
    actual = replay.run()
    assert [(r["USERID"], r["EVENT_TS"], r["EVENTS"]) for r in actual.rows("EVENTS_PER_MIN")] == [
        (7, 0, 2), (7, 60_000, 1), (7, 480_000, 1), (8, 60_000, 1), (9, 600_000, 6),
    ]  # fmt: skip
    assert [(r["USERNAME"], r["EVENT_TS"], r["EVENTS"]) for r in actual.rows("CLICK_USER_SESSIONS")] == [
        ("Ann", 61_000, 3), ("Ann", 500_000, 1),
    ]  # fmt: skip
    assert [(r["K1"], r["K2"], r["K3"], r["COUNT"]) for r in actual.rows("USER_IP_ACTIVITY")] == [
        ("Ann", "10.0.0.1", "Rome", 2)
    ]
    assert {(r["STATUS"], r["ERRORS"]) for r in actual.rows("ERRORS_PER_MIN_ALERT")} == {(404, 6)}
    assert [(r["DEFINITION"], r["EVENT_TS"], r["COUNT"]) for r in actual.rows("ENRICHED_ERROR_CODES_COUNT")] == [
        ("Not found", 600_000, 6)
    ]
    assert [r["USERNAME"] for r in actual.topic("USER_CLICKSTREAM")][:4] == ["Ann", "Ann", "Ann", None]
