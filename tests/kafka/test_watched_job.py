"""A continuous run is watched from beside its queries: lag, a Kafka that goes away, metrics; and a catalog is told."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import KafkaUnavailable
from lakehouse.run.lake import Lake
from lakehouse.run.watch import watching
from lakehouse.run.watch.event import JobEvent
from lakehouse.settings.config import Lineage, Log, Metrics

WAIT_SECONDS = 120.0


@pytest.mark.slow
def test_a_continuous_run_is_watched(
    lake: Callable[..., Lake],
    cluster: Any,
    send: Callable[..., int],
    latest: Callable[..., lh.App],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.2)
    cluster.create("watched", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    settings = replace(
        lake().settings, metrics=Metrics(free), log=Log(lag_seconds=0.2), lineage=Lineage("http://127.0.0.1:9/"),
    )  # fmt: skip
    heard: list[JobEvent] = []
    stop = threading.Event()
    job = threading.Thread(
        target=Lake(settings=settings).run, args=(latest("watched"),), kwargs={"stop": stop, "listen": heard.append}
    )

    def wait(kind: str, records: int = 0) -> JobEvent:
        until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until:
            for event in [*heard]:
                if (event.kind, event.records) == (kind, records):
                    return event
            time.sleep(0.05)
        raise AssertionError(f"no {kind} with {records} records among {heard}")

    send("watched", [(f"k{n}", f"word {n}", 1000 + n) for n in range(3)] + [(None, "lost", 2000)])
    job.start()
    try:
        assert wait("lineage failed").details["message"].startswith("http://127.0.0.1:9/: ")
        assert wait("lag", 4).details == {"topics": {"watched": {"0": 4}}}
        assert wait("tick", 4).details["took"] > 0
        assert wait("batch", 4).details["took"] > 0
        wait("lag")
        real = watching.count_waiting
        monkeypatch.setattr(watching, "count_waiting", _away)
        wait("kafka away")
        monkeypatch.setattr(watching, "count_waiting", real)
        wait("kafka back")
        with urllib.request.urlopen(f"http://127.0.0.1:{free}/metrics", timeout=5) as answer:
            data = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")
    finally:
        stop.set()
        job.join()
    assert not [event for event in heard if event.kind == "watch failed"]
    assert {name: float(data[name]) for name in data if name.startswith("lakehouse_table") or "lag" in name} == {
        'lakehouse_table_tick{table="watched"}': 1, 'lakehouse_table_rows{table="watched"}': 3,
        'lakehouse_table_behind_records{table="watched"}': 0, 'lakehouse_table_behind_seconds{table="watched"}': 0,
        'lakehouse_table_records_total{table="watched"}': 4, 'lakehouse_lag_records{partition="0",topic="watched"}': 0,
        'lakehouse_watch_failures_total{part="lag"}': 0,
    } | {n: float(data[n]) for n in data if "_created" in n and ("table_records" in n or "lag" in n)}  # fmt: skip
    assert float(data['lakehouse_null_keys_total{table="watched"}']) == 1
    assert float(data['lakehouse_batch_seconds_count{part="tables"}']) == 1


def _away(*_: object) -> Any:
    raise KafkaUnavailable("no answer")
