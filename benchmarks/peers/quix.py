"""Quix Streams counts a topic's records by key, exactly once, in two processes. Runs in an environment of its own.

Arguments: servers, topic, state folder, records, the group's name. Its state is RocksDB with a changelog topic, which
the runner reads to check the counts. What it does not do here: it writes no table, and keeps no last values.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from quixstreams import Application

PARTITIONS = 4
PROCESSES = 2


def count(value: bytes, state: Any) -> int:
    number: int = state.get("n", 0) + 1
    state.set("n", number)
    return number


def work(servers: str, topic: str, folder: str, group: str, number: int) -> None:
    """Count in this process until SIGTERM."""
    app = Application(
        broker_address=servers, consumer_group=group, auto_offset_reset="earliest", state_dir=f"{folder}/{number}",
        processing_guarantee="exactly-once", loglevel="ERROR",
    )  # fmt: skip
    rows = app.dataframe(app.topic(topic, key_deserializer="str", value_deserializer="bytes"))
    rows.apply(count, stateful=True)
    app.run()


def committed(consumer: Consumer, topic: str) -> int:
    found = consumer.committed([TopicPartition(topic, partition) for partition in range(PARTITIONS)], timeout=10)
    return sum(max(0, each.offset) for each in found)


def main() -> None:
    began = time.time()
    servers, topic, folder, records, group = sys.argv[1:]
    arguments = [(servers, topic, folder, group, number) for number in range(PROCESSES)]
    workers = [multiprocessing.Process(target=work, args=each) for each in arguments]
    for worker in workers:
        worker.start()
    # A consumer that only asks what the group committed: it never joins.
    asking = Consumer({"bootstrap.servers": servers, "group.id": group})
    while committed(asking, topic) < int(records):
        if dead := [worker.exitcode for worker in workers if not worker.is_alive()]:
            raise SystemExit(f"a worker ended with {dead}")
        time.sleep(0.05)
    print(json.dumps({"began": began * 1000, "done": time.time() * 1000}), flush=True)
    asking.close()
    for worker in workers:
        os.kill(worker.pid or 0, signal.SIGTERM)
        worker.join()


if __name__ == "__main__":
    main()
