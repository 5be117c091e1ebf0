"""`lakehouse repair erase` on real Kafka: a key leaves the lake and the topics; killed at any time, it goes on."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from lakehouse.kafka.embedded.broker import Broker
from tests.erase.test_erasure import files_with
from tests.seeds import seeds

APP = """
import lakehouse as lh

customers = lh.stream({customers!r}, key="id bigint", key_format="json", schema="name string",
                      name="customers")
orders = lh.stream({orders!r}, key="id string", schema="customer_id bigint, amount bigint", name="orders")
known = customers.latest("known")
totals = orders.group_by("customer_id").agg(n=lh.count(), total=lh.sum("amount")).table("totals")
app = lh.app(known, totals, known.changes().to_topic({known!r}), totals.changes(net=True).to_topic({totals!r}))
"""
ERASE = (
    "repair", "erase", "--app", "app.py", "--key", "customers=4711", "--named-by", "orders.customer_id",
    "--value", "Anna Berg",
)  # fmt: skip
COMMAND = "import sys; from lakehouse.cli.main import main; sys.exit(main(sys.argv[1:]))"
ORDERS = 60
LEFT = "SELECT customer_id, n, total FROM totals ORDER BY customer_id"


class Shop:
    """A folder with an application, settings, and records in its topics: a third of the orders are of customer 4711."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder, word = folder, uuid.uuid4().hex[:8]
        self.topics = {name: f"{name}-{word}" for name in ("customers", "orders", "known", "totals")}
        (folder / "app.py").write_text(APP.format(**self.topics))
        (folder / "lakehouse.toml").write_text(
            f'[lake]\npath = "./lake"\n[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n'
        )
        names = {4711: "Anna Berg", 1: "Bo Lind", 2: "Cia Holm"}
        customers: list[dict[str, Any]] = [{"key": str(id), "value": {"name": name}} for id, name in names.items()]
        self.write("customers.jsonl", [*customers, {"key": "4711", "value": "Anna Berg is no JSON"}])
        ids = [*names]
        orders = [{"key": f"o{n}", "value": {"customer_id": ids[n % 3], "amount": n}} for n in range(ORDERS)]
        self.write("orders.jsonl", orders)
        self.left = [
            {"customer_id": ids[k], "n": ORDERS // 3, "total": sum(range(k, ORDERS, 3))} for k in (1, 2)
        ]  # fmt: skip

    def write(self, name: str, records: list[dict[str, Any]]) -> None:
        (self.folder / name).write_text("".join(f"{json.dumps(record)}\n" for record in records))

    @property
    def lake(self) -> Path:
        return self.folder / "lake"


@pytest.fixture
def shop(folder: Path, broker: Broker) -> Shop:
    return Shop(folder, broker)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def fill(shop: Shop, lakehouse: Any) -> None:
    for name in ("customers", "orders"):
        assert lakehouse("kafka", "produce", shop.topics[name], f"{name}.jsonl", "--partitions", "2").code == 0
    run = lakehouse("run", "app.py", "--until", "caught-up")
    assert run.code == 0, run.err


@pytest.mark.slow
def test_a_key_leaves_the_lake_and_the_topics(spark, shop, lakehouse):
    fill(shop, lakehouse)
    plan = lakehouse(*ERASE, "--plan", "--json")
    assert plan.code == 0, plan.err
    (planned,) = lines(plan.out)
    assert planned["records"] == {shop.topics["customers"]: 2, shop.topics["orders"]: 20}
    assert (planned["tables"], planned["published"]) == (
        ["known", "totals"],
        [shop.topics["known"], shop.topics["totals"]],
    )
    assert files_with(shop.lake, b"Anna Berg") != []
    assert "Nothing was changed" in lakehouse(*ERASE, "--plan").out

    erased = lakehouse(*ERASE, "--why", "ticket 12")
    assert erased.code == 0, erased.err
    assert "nothing was found" in erased.out
    assert "Anna Berg" not in erased.out
    assert files_with(shop.lake, b"Anna Berg") == files_with(shop.lake, b'"customer_id": 4711') == []
    assert lines(lakehouse("query", LEFT, "--json").out) == shop.left
    for name, key in (("known", "4711"), ("totals", "4711")):
        records = lines(lakehouse("kafka", "consume", shop.topics[name], "--app", "app.py", "--json").out)
        values = [record["value"] for record in records if str(record["key"]) == key]
        assert values[-1] is None, "the last record of the key is a tombstone"
    assert lakehouse("test", "audit", "totals", "--app", "app.py", "--deep").code == 0
    (shown,) = lines(lakehouse("look", "erasures", "--json").out)
    assert (shown["reason"], shown["searches"][-1]["occurrences"]) == ("ticket 12", 0)
    assert not {"salt", "subject"} & shown.keys()
    assert "ticket 12" in lakehouse("look", "erasures").out
    assert "all rows, without erased records" in lakehouse("look", "interventions", "totals").out

    verified = lakehouse(*ERASE, "--verify", "--json")
    assert (verified.code, lines(verified.out)[0]["found"]) == (0, [])
    again = lakehouse(*ERASE, "--json")
    assert (again.code, lines(again.out)[-1]["id"]) == (0, shown["id"]), "it searches again"
    # The job goes on: the key comes again, as a new person's.
    shop.write("later.jsonl", [{"key": "late", "value": {"customer_id": 4711, "amount": 5}}])
    lakehouse("kafka", "produce", shop.topics["orders"], "later.jsonl")
    assert lakehouse("run", "app.py", "--until", "caught-up").code == 0
    assert lines(lakehouse("query", LEFT, "--json").out) == [*shop.left, {"customer_id": 4711, "n": 1, "total": 5}]
    found = lakehouse(*ERASE, "--verify", "--json")
    assert found.code == 1
    assert {item["in"] for item in lines(found.out)[0]["found"]} >= {"column customer_id", "column value"}


@pytest.mark.slow
def test_the_source_topic_gets_tombstones_that_the_lake_does_not_keep(spark, shop, lakehouse):
    fill(shop, lakehouse)
    erased = lakehouse(*ERASE, "--source", "--json")
    assert erased.code == 0, erased.err
    assert lines(erased.out)[-1]["records"] == {shop.topics["customers"]: 3, shop.topics["orders"]: 20}
    messages = lines(lakehouse("kafka", "consume", shop.topics["customers"], "--json").out)
    by_partition: dict[int, list[Any]] = {}
    for message in messages:
        if str(message["key"]) == "4711":
            by_partition.setdefault(message["partition"], []).append(message["value"])
    assert by_partition
    assert all(values[-1] is None and len(values) > 1 for values in by_partition.values())
    assert files_with(shop.lake, b"Anna Berg") == files_with(shop.lake, b'"customer_id": 4711') == []
    assert lines(lakehouse("query", LEFT, "--json").out) == shop.left


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--key", "4711"), "expected STREAM=KEY"),
        (("--key", "customers=1", "--key", "customers=2"), "is named twice"),
        (("--key", "customers=x"), "id: expected bigint, found 'x'"),
        (("--records", "orders/0=1"), "expected TOPIC[@ID]/PARTITION=FIRST..LAST"),
        ((), "found no key"),
        (("--key", "customers=1", "--plan", "--verify"), "expected one of them"),
    ],
)
def test_a_request_that_can_not_be_is_refused(spark, shop, lakehouse, options, message):
    (shop.lake / "bronze/records/_delta_log").mkdir(parents=True)
    (shop.lake / "bronze/records/_delta_log/00000000000000000000.json").touch()
    outcome = lakehouse("repair", "erase", "--app", "app.py", *options)
    assert outcome.code in (1, 2)
    assert message in outcome.err


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 2, on_spark=True))
def test_an_erasure_that_is_killed_goes_on(spark, shop, lakehouse, seed):
    dice = random.Random(seed)
    fill(shop, lakehouse)
    command = [sys.executable, "-c", COMMAND, *ERASE, "--json"]
    for _ in range(3):
        process = subprocess.Popen(
            command, cwd=shop.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            process.wait(dice.uniform(5, 60))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            time.sleep(2)  # its Java sees that it is gone
            continue
        break
    last = subprocess.run(command, cwd=shop.folder, capture_output=True, text=True, timeout=900, check=False)
    assert last.returncode == 0, last.stderr
    assert files_with(shop.lake, b"Anna Berg") == files_with(shop.lake, b'"customer_id": 4711') == []
    assert lines(lakehouse("query", LEFT, "--json").out) == shop.left
    assert lakehouse("test", "audit", "totals", "--app", "app.py", "--deep").code == 0
    assert lakehouse("repair", "erase", "--verify", *ERASE[4:]).code == 0
