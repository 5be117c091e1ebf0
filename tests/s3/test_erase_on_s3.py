"""An erasure on s3a://: the same as on a disk, and no object of the store holds the key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.kafka.embedded.broker import Broker
from tests.erase.test_erasure import files_with
from tests.s3.server import ObjectStore
from tests.s3.test_a_lake_on_s3 import Project

pytestmark = pytest.mark.slow

ERASE = ("repair", "erase", "--key", "orders=o3", "--named-by", "orders.customer", "--value", "zoe-quist")
RECORDS = [
    {"key": f"o{n}", "value": {"customer": "zoe-quist" if n % 3 == 0 else f"c{n % 3}", "amount": n}} for n in range(12)
]


def test_an_erasure_on_an_object_store(tmp_path: Path, broker: Broker, object_store: ObjectStore) -> None:
    project = Project(tmp_path, broker, object_store)
    (tmp_path / "orders.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in RECORDS))
    project.run("kafka", "produce", project.topic, "orders.jsonl", "--partitions", "2")
    project.run("run", "--until", "caught-up")
    objects = object_store.files(project.uri)
    assert files_with(objects, b"zoe-quist") != []

    (first, *_) = [json.loads(line) for line in project.run(*ERASE, "--json", code=1).splitlines() if "found" in line]
    assert first["records"] == {project.topic: 1}
    assert first["found"], "the other orders of the customer have the name"
    by_name = ("repair", "erase", "--named-by", "orders.customer=zoe-quist")
    (done, *_) = [json.loads(line) for line in project.run(*by_name, "--json").splitlines() if "found" in line]
    assert (done["records"], done["found"]) == ({project.topic: 3}, [])
    assert files_with(objects, b"zoe-quist") == []
    answer = project.run("query", "SELECT customer, orders FROM totals ORDER BY customer", "--csv")
    assert "customer,orders\nc1,4\nc2,4\n" in answer
    project.run("test", "audit", "totals", "--deep")
    project.run(*by_name, "--verify")
    project.run("run", "--until", "caught-up")
