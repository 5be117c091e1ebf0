"""Alerts on real Kafka, Spark and Delta: once a crossing, across a process that is killed while it tells one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from . import alerting

T = 1_700_000_000_000


@pytest.mark.slow
def test_alerts_are_told_once_across_a_kill(
    lake: Any, broker: Any, cluster: Any, send: Any, records: Any, tmp_path: Path
) -> None:
    cluster.create("alerted-numbers", partitions=1)

    def add(*numbers: tuple[str, int]) -> None:
        sent = [("k", json.dumps({"room": room, "n": n}), T + number) for number, (room, n) in enumerate(numbers)]
        send("alerted-numbers", sent)

    live, told = lake("alerts"), tmp_path / "told"
    add(("r", 7), ("r", 7), ("s", 30), ("r", -5), ("s", 1))
    folder = live.settings.lake.path
    ended = subprocess.run(
        [sys.executable, alerting.__file__, folder, broker.bootstrap_servers, str(told), "2"],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2000:]
    live.run(alerting.application(told), until="caught_up")
    add(("s", -25), ("r", 1), ("r", 1))
    live.run(alerting.application(told), until="caught_up")

    wanted = [
        ("r", "enter", 7, 14), ("s", "enter", None, 30), ("r", "leave", 14, 9), ("s", "leave", 31, 6),
        ("r", "enter", 10, 11),
    ]  # fmt: skip

    def shown(room: str, value: dict[str, Any]) -> tuple[Any, ...]:
        before, after = (side and side["total"] for side in (value["before"], value["after"]))
        return room, value["crossing"], before, after

    published = [(message.key().decode(), json.loads(message.value())) for message in records("alerts")]
    assert [shown(*item) for item in published] == wanted, "each once in the topic"
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    calls = [shown(key["room"], value) for _, key, value in lines]
    assert calls == [*wanted[:2], *wanted[1:]], "the call in which the process was killed is made again"
    ids = [line[0] for line in lines]
    assert ids[1] == ids[2], "it is told as the same"
    assert len(set(ids)) == len(wanted)
    in_topic = [value["alert_id"] for _, value in published]
    assert [identity.removeprefix("tell/") for identity in dict.fromkeys(ids)] == [
        identity.removeprefix("above/") for identity in in_topic
    ]
