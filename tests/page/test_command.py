"""The page's commands: in the project's Python, within a time limit, and without leftovers."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
import time
import uuid
from pathlib import Path

import pytest

from lakehouse.errors import ConfigError, LakehouseError, NotFound, TimedOut
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.layout import Layout
from lakehouse.page.applications import LineageNode
from lakehouse.page.command import ask_lag, command_environment, explain, newest_records
from lakehouse.run.scenario.scenario import on_model
from lakehouse.run.start.application import load_app
from lakehouse.semantics.record import Record

from ..run.model_lake import write_lake
from .conftest import manifest, named

PYTHON = Path(sys.executable)
APP = """
import lakehouse as lh

clicks = lh.stream("clicks", key="id string", schema="user string")
app = lh.app(clicks.group_by("user").agg(n=lh.count()).table("visits"))
"""


@pytest.fixture
def shop(tmp_path):
    """An application, its settings and its lake."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "lakehouse.toml").write_text('[kafka]\nbootstrap_servers = "127.0.0.1:1"\n')
    records = [
        Record("clicks", "id", 0, n, n, f"c{n}".encode(), json.dumps({"user": user}).encode(), 1, n)
        for n, user in enumerate(("ann", "bob", "ann"))
    ]
    app = load_app(str(tmp_path / "app.py"))
    write_lake(Layout(str(tmp_path / "lake")), app, records, on_model(app, records))
    return named(tmp_path, manifest(tmp_path / "lake", config=str(tmp_path / "lakehouse.toml")))


def test_a_row_is_explained(shop):
    (row,) = asyncio.run(explain(PYTHON, shop, "visits", "ann", None))
    assert (row["key"], row["found"], row["agrees"], row["records"]) == ({"user": "ann"}, {"n": 2}, True, 2)
    assert [(step["offset"], step["did"], step["row"]) for step in row["steps"]] == [
        (0, "inserted", {"n": 1}), (2, "updated", {"n": 2}),
    ]  # fmt: skip
    assert [step["value"] for step in row["steps"]] == [{"user": "ann"}] * 2, "by its columns, as a row"


@pytest.mark.parametrize("key", ["nobody", "--help", "--app=/etc/passwd", "$(touch gone)", "a b", "'; --", "{{ 7 }}"])
def test_a_key_is_never_an_option_or_a_command(shop, key):
    with pytest.raises(NotFound, match="no record in bronze reaches it"):
        asyncio.run(explain(PYTHON, shop, "visits", key, None))
    assert not (Path(shop.app).parent / "gone").exists()


def test_a_file_beside_the_settings_is_not_imported_as_a_python_module(shop):
    folder = Path(shop.config).parent
    for name in ("typer", "json", "lakehouse", "encodings"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'was_run')!r}, 'w')")
    try:
        (row,) = asyncio.run(explain(PYTHON, shop, "visits", "ann", None))
    finally:
        for name in ("typer", "json", "lakehouse", "encodings"):
            (folder / f"{name}.py").unlink()
    assert row["agrees"]
    assert not (folder / "was_run").exists()


def test_what_is_refused_before_a_process_starts(shop, tmp_path):
    with pytest.raises(NotFound, match="has no table 'other'"):
        asyncio.run(explain(tmp_path / "none", shop, "other", "ann", None))
    with pytest.raises(ConfigError, match="key: found none"):
        asyncio.run(explain(tmp_path / "none", shop, "visits", "", None))
    with pytest.raises(ConfigError, match=r"no Python at .*: run `make setup`"):
        asyncio.run(explain(tmp_path / "none", shop, "visits", "ann", None))


@pytest.mark.rotated
def test_a_kafka_that_does_not_answer_is_no_failure(shop):
    actual = asyncio.run(ask_lag(PYTHON, shop, 60))
    assert actual == {"topics": {"clicks": None}, "running": False}


def test_topics_that_bronze_does_not_have_yet_wait_in_kafka_too(shop, broker):
    """A new application read "0 records waiting in Kafka" while all of its records waited."""
    new, missing, written = (f"page-{name}-{uuid.uuid4().hex[:8]}" for name in ("new", "missing", "written"))
    Path(shop.config).write_text(f'[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n')
    for topic in (new, written):
        Cluster(broker.bootstrap_servers).create(topic, partitions=2)
        produce(broker.bootstrap_servers, {}, topic, [ProducerRecord(b"k%d" % n, b"{}", 1_000) for n in range(5)])
    nodes = [LineageNode(f"topic:{name}", "topic", name) for name in (new, missing, written)]
    edges = [(f"topic:{new}", "stream:clicks"), (f"topic:{missing}", "stream:clicks"),
             ("stream:clicks", f"topic:{written}")]  # fmt: skip
    shop = dataclasses.replace(shop, nodes=(*shop.nodes, *nodes), edges=(*shop.edges, *edges))
    actual = asyncio.run(ask_lag(PYTHON, shop, 60))
    assert actual == {"topics": {"clicks": None, new: 5, missing: None}, "running": True}


def test_the_newest_records_of_a_topic_come_first_with_all_their_digits(shop, broker):
    topic = f"-page-{uuid.uuid4().hex[:8]}"  # Kafka allows a name like an option's
    Path(shop.config).write_text(f'[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n')
    Cluster(broker.bootstrap_servers).create(topic, partitions=2)
    node = LineageNode(f"changelog:{topic}", "changelog", topic)
    shop = dataclasses.replace(shop, nodes=(*shop.nodes, node))
    assert asyncio.run(newest_records(PYTHON, shop, topic)) == []
    values = [f'{{"n": {n}, "big": 0.{n}2345678901234567890123}}'.encode() for n in range(1, 30)]
    records = [ProducerRecord(b"k%d" % n, value, 1_000 * n) for n, value in enumerate(values, 1)]
    produce(broker.bootstrap_servers, {}, topic, [*records, ProducerRecord(b"\xff", None, 99_000)])
    actual = asyncio.run(newest_records(PYTHON, shop, topic))
    assert (actual[0]["key"], actual[0]["value"], actual[0]["timestamp"]) == ("/w==", None, "1970-01-01T00:01:39Z")
    assert [item["key"] for item in actual[1:]] == [f"k{n}" for n in range(29, 10, -1)]
    assert actual[1]["value"] == '{"n":29,"big":0.292345678901234567890123}'
    for name in ("other", "--help", "visits"):
        with pytest.raises(NotFound, match=f"has no topic '{name}'; its topics are: {topic}, clicks"):
            asyncio.run(newest_records(PYTHON, shop, name))


def script(folder: Path, text: str) -> Path:
    """A stand-in for the project's Python, which does something else than the command."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_command_that_takes_too_long_is_ended_with_its_children(shop, tmp_path):
    python = script(tmp_path, f"sleep 300 & echo $! > {tmp_path}/pid; trap '' TERM; wait; wait")
    begun = time.monotonic()
    with pytest.raises(TimedOut, match="did not finish within 1 s"):
        asyncio.run(explain(python, shop, "visits", "ann", None, 1.0))
    assert time.monotonic() - begun < 20
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo 'error: it broke' >&2; exit 1", "exit code 1: it broke"),
        ("kill -ABRT $$", "exit code -6"),
        ("echo no json", "printed no JSON"),
        ("true", "printed nothing"),
        ("head -c 9000000 /dev/zero", r"printed 9,\d+ bytes|printed 9,000,000 bytes"),
    ],
)
def test_a_command_that_fails_says_so(shop, tmp_path, text, said):
    with pytest.raises(LakehouseError, match=said):
        asyncio.run(explain(script(tmp_path, text), shop, "visits", "ann", None))


def test_airflows_own_variables_are_not_passed_on():
    data = {
        "PATH": "/usr/bin", "AIRFLOW__CORE__FERNET_KEY": "secret", "LAKEHOUSE_RUN_TRIGGER_SECONDS": "5",
        "LAKEHOUSE_PYTHON": "/x", "HOME": "/root",
    }  # fmt: skip
    assert command_environment(Path("/venv/bin/python"), data) == {
        "PATH": "/venv/bin:/usr/bin", "LAKEHOUSE_RUN_TRIGGER_SECONDS": "5", "HOME": "/root",
    }  # fmt: skip
