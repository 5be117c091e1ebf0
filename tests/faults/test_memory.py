"""A value that is small in Kafka and larger than Spark's memory: named at the next start, left out when accepted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.topics import Cluster

APP = """
import lakehouse as lh

app = lh.app(lh.stream("memory", key="k string", schema="word string", format="kafka").latest("words"))
"""
SIZE = 300 << 20


@pytest.mark.slow
def test_a_value_larger_than_sparks_memory_does_not_stop_everything_forever(broker: Broker, tmp_path: Path) -> None:
    Cluster(broker.bootstrap_servers).create("memory", partitions=1)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd", "log_level": 0}
    producer = Producer({**settings, "message.max.bytes": 1_000_000_000})
    for key, value in (("a", b"1"), ("large", bytes(SIZE)), ("b", b"2")):
        producer.produce("memory", value=value, key=key, partition=0)
        assert producer.flush(60) == 0
    (tmp_path / "app.py").write_text(APP)

    def run(**environ: str) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ, "LAKEHOUSE_LAKE_PATH": str(tmp_path / "lake"), "LAKEHOUSE_SPARK_MEMORY": "700m",
            "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers, **environ,
        }  # fmt: skip
        line = [sys.executable, "-m", "lakehouse.cli.main", "run", "app.py", "--until", "caught-up", "--json"]
        return subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280, check=False)

    first = run()
    assert first.returncode == 1, first.stdout
    assert "Spark's process ended while it read tick 1" in first.stderr
    second = run()
    assert second.returncode == 1, second.stdout
    assert f"offsets [1, 2): a record of {SIZE + 5:,} bytes, larger than max_record_bytes" in second.stderr
    third = run(LAKEHOUSE_RUN_ON_DATA_LOSS="record")
    assert third.returncode == 0, third.stderr
    events = [json.loads(line) for line in [*second.stdout.splitlines(), *third.stdout.splitlines()] if line.strip()]
    assert sum(event["records"] for event in events if event.get("event") == "tick") == 2
