"""An application kept by several processes: a stream that all of them read has each bad record once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import lakehouse as lh
from lakehouse.kafka.topics import Cluster
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.run.start.division import part_of
from tests.seeds import draw

SILVER = ("silver",)
SECONDS = 300


def application(topic: str) -> lh.App:
    stream = lh.stream(topic, key="k string", schema="amount bigint", name="amounts")
    sums = stream.group_by("k").agg(n=lh.count(), total=lh.sum("amount")).table("sums")
    large = stream.filter("amount > 5").latest("large")
    return lh.app(
        sums.changes().to_topic(f"{topic}-sums"), large.changes().to_topic(f"{topic}-large"),
        stream.to_topic(f"{topic}-raw"),
    )  # fmt: skip


def bad_places(layout: Layout) -> list[tuple[int, int]]:
    columns = ["partition", "offset"]
    rows = reader.open_dataset(layout.quarantine("amounts")).to_table(columns=columns).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


@pytest.mark.rotated
def test_parts_write_one_quarantine_in_turns(lake, cluster, send, ingest) -> None:
    """Each tick has a bad record. Whichever part comes to it first writes it, and no other does."""
    cluster.create("parts-turns")
    one, app = lake(), application("parts-turns")
    layout = Layout(one.settings.lake.path)
    parts = [part_of(app, f"{number}/3") for number in (1, 2, 3)]
    assert [[source.name for source in part.sources] for part in parts] == [["amounts"]] * 3

    def send_tick() -> None:
        send("parts-turns", [("a", '{"amount": 3}'), ("b", '{"amount": "x"}'), ("c", '{"amount": 9}')])
        ingest(one, app)

    def run(*numbers: int) -> None:
        for number in numbers:
            one.run(parts[number - 1], until="caught_up", parts=SILVER)

    send_tick()
    run(1)
    assert bad_places(layout) == [(0, 1)]
    send_tick()
    run(2)
    send_tick()
    run(1, 3, 2)
    assert bad_places(layout) == [(0, 1), (0, 4), (0, 7)]
    assert {row.k: (row.n, row.total) for row in one.read(app.table("sums")).collect()} == {"a": (3, 9), "c": (3, 27)}
    for table in app.tables:
        assert one.audit(app, table).ok


FILE = """
import lakehouse as lh
from tests.kafka.test_several_processes import application

app = application({topic!r})
"""


class Keeper:
    """A process that keeps a part of an application, or ingests for all; its output is in a file."""

    def __init__(self, folder: Path, *arguments: str, app_file: str = "app.py") -> None:
        self._command = [str(Path(sys.executable).with_name("lakehouse")), "run", "--app", app_file, *arguments]
        self._folder = folder
        self.output = folder / f"{'-'.join((app_file, *arguments)).replace('/', '-')}.txt"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, stdout=output, stderr=output, env=environment, start_new_session=True
            )

    def kill(self) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End it as systemd does; it must say 0."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(SECONDS)
        assert code == 0, self.output.read_text()

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None


@contextmanager
def ended(keeper: Keeper) -> Iterator[Keeper]:
    try:
        yield keeper
    finally:
        if keeper.is_alive:
            keeper.kill()


def table_ticks(layout: Layout, names: tuple[str, ...]) -> list[int]:
    existing = set(reader.table_names(layout, "silver"))
    return [reader.read_table_facts(layout, "silver", name).tick if name in existing else -1 for name in names]


@pytest.mark.slow
def test_processes_with_sigkills_give_the_tables_of_one(broker, tmp_path, lake, send, records) -> None:
    """Four processes at once: one ingests, three keep a part each. One is killed while it works, and started again."""
    seed = draw()
    print(f"seed {seed}")
    rng = random.Random(seed)
    topic = f"parts-killed-{seed}"
    cluster = Cluster(broker.bootstrap_servers)
    cluster.create(topic, partitions=2)
    layout = Layout(str(tmp_path / "shared"))
    (tmp_path / "app.py").write_text(FILE.format(topic=topic))
    (tmp_path / "lakehouse.toml").write_text(
        f"[lake]\npath = {json.dumps(layout.root)}\n"
        f"[kafka]\nbootstrap_servers = {json.dumps(broker.bootstrap_servers)}\n"
    )
    sent: list[tuple[str, int | None]] = []

    def send_some() -> None:
        batch = [(f"k{rng.randrange(20)}", rng.choice([rng.randrange(10), None])) for _ in range(rng.randrange(20, 60))]
        values = ['{"amount": "x"}' if amount is None else json.dumps({"amount": amount}) for _, amount in batch]
        send(topic, [(key, value) for (key, _), value in zip(batch, values, strict=True)])
        sent.extend(batch)

    keepers = [Keeper(tmp_path, "--only", "ingest")]
    keepers += [Keeper(tmp_path, "--only", "silver", "--part", f"{number}/3") for number in (1, 2, 3)]
    with ExitStack() as stack:
        for keeper in keepers:
            stack.enter_context(ended(keeper)).start()
        victim = rng.choice(keepers[1:])
        for step in range(6):
            send_some()
            time.sleep(rng.uniform(1, 12))
            assert all(keeper.is_alive for keeper in keepers), [keeper.output.read_text() for keeper in keepers]
            if step in (2, 4):
                victim.kill()
                victim.start()
        deadline = time.monotonic() + SECONDS
        good = [(key, amount) for key, amount in sent if amount is not None]
        expected = {key: sum(a for k, a in good if k == key) for key in {key for key, _ in good}}
        while time.monotonic() < deadline:
            time.sleep(2)
            if min(table_ticks(layout, ("sums", "large"))) < 1 or len(records(f"{topic}-raw")) < len(good):
                continue
            rows = reader.open_dataset(layout.silver("sums")).to_table().to_pylist()
            if {row["k"]: row["total"] for row in rows} == expected:
                break
        for keeper in reversed(keepers):
            keeper.stop()
    app = application(topic)
    one = lake("shared")
    for part in ("1/3", "2/3", "3/3"):
        one.run(part_of(app, part), until="caught_up", parts=SILVER)
    assert {row.k: row.total for row in one.read(app.table("sums")).collect()} == expected
    assert {row.k for row in one.read(app.table("large")).collect()} == {key for key, amount in good if amount > 5}
    assert len(bad_places(layout)) == len(set(bad_places(layout))) == len(sent) - len(good)
    assert len(records(f"{topic}-raw")) == len(good)
    for table in app.tables:
        assert one.audit(app, table, deep=True).ok
