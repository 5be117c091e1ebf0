"""`lakehouse repair rehydrate`: its output and refusals. What it writes: tests/kafka/test_rehydrate.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.topics import Cluster
from lakehouse.semantics.record import Record

from ..written_bronze import write_bronze

T = 1_700_000_000_000


@pytest.fixture
def lake(folder: Path, broker: Broker) -> None:
    """Bronze with the topic clicks: partition 0 whole, partition 1 with a hole; two ticks."""
    (folder / "lakehouse.toml").write_text(
        f'[lake]\npath = "./lake"\n[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n'
    )
    places = ((0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 5, 2), (0, 2, 2))
    write_bronze(
        folder / "lake", [Record("clicks", "id", p, n, T + n, b"k", b"v", tick, T + n) for p, n, tick in places]
    )


@pytest.mark.rotated
def test_it_prints_what_was_written_and_which_offsets_differ(lake, lakehouse):
    out = lakehouse("rehydrate", "clicks", "--to", "cli-clicks").out
    assert out.startswith("5 records of clicks written to topic cli-clicks (created, with 2 partitions), by this run.")
    assert "Offsets differ" in out
    assert "0-5" in out
    assert "4" in out
    again = lakehouse("rehydrate", "clicks", "--to", "cli-clicks").out
    assert again.startswith("5 records of clicks written to topic cli-clicks (2 partitions), 0 of them by this run.")


@pytest.mark.rotated
def test_a_program_reads_json(lake, lakehouse, broker):
    actual = lakehouse("rehydrate", "clicks", "--to", "cli-json", "--tick", "1", "--partitions", "3", "--json")
    data = json.loads(actual.out)
    moved = data.pop("moved")
    assert data == {
        "topic": "clicks", "to": "cli-json", "records": 3, "written": 3, "created": True, "partitions": 3,
        "before_1970": 0,
    }  # fmt: skip
    assert moved[1] == {
        "topic_id": "id", "partition": 1, "records": 1, "from_offset": 0, "last_offset": 0, "to_offset": 0, "holes": 0,
    }  # fmt: skip
    assert actual.err == ""
    cluster = Cluster(broker.bootstrap_servers)
    assert [end for _, end in cluster.offsets(("cli-json", p) for p in range(3)).values()] == [2, 1, 0]
    assert "Every record has the offset" in lakehouse("rehydrate", "clicks", "--to", "cli-json", "--tick", "1").out
    assert lakehouse("rehydrate", "clicks", "--to", "cli-none", "--tick", "0").out.startswith("0 records of clicks")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["clicks", "--to", "a b"], "Kafka allows at most 249 letters"),
        (["../clicks", "--to", "x"], "Kafka allows at most 249 letters"),
        (["visits", "--to", "x"], "'visits' is not in bronze. There are: clicks"),
        (["clicks", "--to", "x", "--partitions", "none"], "--partitions 'none': expected same, or a number from 1"),
        (["clicks", "--to", "x", "--partitions", "0"], "expected same, or a number from 1"),
        (["clicks", "--to", "x", "--partitions", "1"], "has records in partition 1; expected 2 or more"),
        (["clicks", "--to", "x", "--at", "soon"], "at 'soon': expected a time"),
        (
            ["clicks", "--to", "x", "--at", "2026-01-01", "--tick", "1"],
            "found at and tick; expected at most one moment",
        ),
        (["clicks", "--to", "x", "--at", "2026-01-01", "--clock", "wall"], "clock 'wall': expected"),
        (["clicks", "--to", "x", "--at", "2020-01-01", "--clock", "commit"], "no tick of that time or before"),
        (["clicks", "--to", "x", "--tick", "7"], "bronze is at tick 2"),
        (["clicks", "--to", "x", "--offsets", "clicks/0=1"], "partition 1 of topic 'clicks' is not among them"),
        (["clicks", "--to", "x", "--offsets", "clicks"], "expected TOPIC/PARTITION=OFFSET"),
    ],
    ids=str,
)
def test_bad_input(lake, lakehouse, broker, arguments, said):
    actual = lakehouse("rehydrate", *arguments)
    assert (actual.code, actual.out) == (2, "")
    assert said in actual.err
    assert "x" not in Cluster(broker.bootstrap_servers).names()


def test_no_lake(folder, lakehouse):
    actual = lakehouse("rehydrate", "clicks", "--to", "x")
    assert actual.code == 2
    assert "'clicks' is not in bronze. There are: no topics yet" in actual.err
