"""A stream-table join beside Kafka Streams': the same broker, records, cores and memory, each in turn.

    .venv/bin/python benchmarks/peers/join.py [--clicks N] [--users N] [--rounds N]

Clicks find the user of their key; kept is the last joined record of each user. Both catch up from the beginning of both
topics, cold, exactly once. What they made is checked. Seconds count from the command to the last commit; "after start"
from the moment when Spark is up, or Kafka Streams' main method begins.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from deltalake import DeltaTable

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from catching_up import KafkaStreams, Measured, check, committed, watched  # noqa: E402
from common import show  # noqa: E402
from work import MEMORY, PARTITIONS, Work  # noqa: E402

from lakehouse.kafka.embedded.broker import Broker  # noqa: E402
from lakehouse.kafka.produce import ProducerRecord, produce  # noqa: E402
from lakehouse.kafka.topics import Cluster  # noqa: E402

T = 1_700_000_000_000


class Records:
    """The records of both topics, all users before the clicks; and the last amount of each user that has clicks."""

    def __init__(self, clicks: int, users: int) -> None:
        self._clicks, self._users = clicks, users
        self.amounts: dict[str, int] = {}

    def users(self) -> Iterator[ProducerRecord]:
        for number in range(self._users):
            yield ProducerRecord(f"u{number}".encode(), b'{"city": "city %d"}' % (number % 100), T)

    def clicks(self) -> Iterator[ProducerRecord]:
        dice = random.Random(5)
        for number in range(self._clicks):
            key, amount = f"u{dice.randrange(self._users)}", number % 1000
            self.amounts[key] = amount
            value = {"amount": amount, "note": "a note of some length, as they are in real life"}
            yield ProducerRecord(key.encode(), json.dumps(value).encode(), T + 1 + number)

    @property
    def expected(self) -> tuple[int, int]:
        return len(self.amounts), sum(self.amounts.values())


def ours(work: Work, records: Records) -> Measured:
    printed, started, memory = watched([sys.executable, str(HERE / "joined.py"), work.text()])
    table = Path(work.folder, "silver", "joined")
    columns = DeltaTable(str(table)).to_pyarrow_table(columns=["city", "amount"]).to_pandas()
    check("lakehouse", (int(columns["city"].count()), int(columns["amount"].sum())), records.expected)
    done, ready = committed(table)[1], json.loads(printed.splitlines()[-1])["ready"] / 1000
    return {"seconds": done - started, "after start": done - ready, "memory": memory}


def theirs(path: str, work: Work, records: Records) -> Measured:
    settings = [f"-Xmx{work.memory}", f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"]
    told = [work.servers, "clicks", "users", f"{work.folder}/state", str(work.records), Path(work.folder).name]
    printed, started, memory = watched(["java", *settings, "-cp", path, "JoinTable", *told])
    found = json.loads(printed.splitlines()[-1])
    check("Kafka Streams", (found["rows"], found["sum"]), records.expected)
    done = found["done"] / 1000
    return {"seconds": done - started, "after start": done - found["began"] / 1000, "memory": memory}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--clicks", type=int, default=1_000_000)
    arguments.add_argument("--users", type=int, default=100_000)
    arguments.add_argument("--rounds", type=int, default=3)
    chosen = arguments.parse_args()
    found: dict[str, list[Measured]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="lakehouse-join-") as name, Broker(Path(name, "kafka")) as broker:
        path = KafkaStreams(Path(name)).path
        records, cluster = Records(chosen.clicks, chosen.users), Cluster(broker.bootstrap_servers)
        for topic, made in (("users", records.users()), ("clicks", records.clicks())):
            cluster.create(topic, PARTITIONS, {"retention.ms": "-1"})
            produce(broker.bootstrap_servers, {}, topic, made)
        for number in range(chosen.rounds):
            for peer in ("lakehouse", "Kafka Streams")[:: 1 if number % 2 == 0 else -1]:
                with tempfile.TemporaryDirectory(prefix="peer-", dir=name) as folder:
                    work = Work(broker.bootstrap_servers, folder, chosen.clicks + chosen.users, MEMORY)
                    measured = ours(work, records) if peer == "lakehouse" else theirs(path, work, records)
                    found[peer].append(measured)
    parts = ("seconds", "after start", "memory")
    rows = [
        [peer, *(f"{statistics.median(each[part] for each in of):.1f}" for part in parts)] for peer, of in found.items()
    ]
    title = f"{chosen.clicks:,} clicks joined with {chosen.users:,} users: medians of {chosen.rounds} rounds"
    show(title, ["peer", *parts], rows)


if __name__ == "__main__":
    main()
