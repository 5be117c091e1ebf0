"""SIGKILL at each commit point, and at any moment: nothing lost, nothing doubled. Real processes, a real broker.

Every child starts from what the previous one left, so each kill also tests the recovery from the one before.
"""

from __future__ import annotations

import random
import threading
import time

import pytest

from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.semantics.moment import AtTick


def bronze_places(path: str) -> list[tuple[str, int, int]]:
    rows = reader.open_dataset(path).to_table(columns=["topic", "partition", "offset"]).to_pylist()
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def check_bronze(world) -> None:
    """Every offset of both topics is there once."""
    layout = Layout(str(world.folder))
    result = bronze_places(layout.records) + bronze_places(layout.own_records(world.driver.OWN))
    wanted = []
    for topic, partitions in ((world.driver.ORDERS, 3), (world.driver.OWN, 2)):
        for (_, partition), (_, end) in world.cluster.offsets((topic, p) for p in range(partitions)).items():
            wanted += [(topic, partition, offset) for offset in range(end)]
    assert sorted(result) == sorted(wanted)


def run_points(world, killed, lake, points: tuple[str, ...]) -> None:
    for point in points:
        world.send(60)
        killed(point)
    one = lake("lake")
    one.run(world.driver.application(), until="caught_up")
    check_bronze(world)
    world.check(one)


@pytest.mark.slow
def test_killed_between_the_tables_of_a_tick_and_between_the_merges_of_a_batch(world, killed, lake) -> None:
    run_points(world, killed, lake, ("append:after:1", "merge:after:1"))


@pytest.mark.slow
def test_killed_at_each_commit_point(world, killed, lake) -> None:
    run_points(
        world, killed, lake,
        (
            "bronze:before:1", "bronze:after:1", "checkpoint:ingest:0", "merge:before:1", "merge:after:1",
            "merge:after:3", "publish:before:2", "transaction:before:2", "publish:after:2", "checkpoint:silver:0",
        ),
    )  # fmt: skip


@pytest.mark.slow
def test_killed_between_the_commits_of_a_chain_of_tables(world, killed, lake) -> None:
    """A join of streams, a join of rows and sums of these: each goes on where it was, and they fit each other again."""
    for point in ("merge:after:3", "transaction:before:2"):
        world.send(60)
        killed(point, "--chain")
    one = lake("lake")
    one.run(world.driver.chain(), until="caught_up")
    check_bronze(world)
    world.check_chain(one)


@pytest.mark.slow
def test_killed_between_and_inside_the_transactions_of_one_tick(world, killed, lake) -> None:
    """A changelog that was published in part goes on where it ended: no change is lost or comes twice."""
    for point in ("part:before:3", "part:after:1", "sent:before:20", "transaction:before:4", "part:after:2"):
        world.send(60)
        killed(point, "--small")
    one = lake("lake")
    one.run(world.driver.application(), until="caught_up")
    world.check(one)


# It is recorded before the point "decision", which completes its tick.
DECIDED = ("decision:before:1", "decision:after:1", "applied:before:1", "applied:after:1", "asked:after:1")
STEPS = ("anchor:before:1", "anchor:after:1", "asked:before:1", *DECIDED)


@pytest.mark.slow
def test_a_backfill_killed_at_every_step(world, killed, lake) -> None:
    """Once decided, the next run applies it, without another request; until then the table stays as it was."""
    world.send(60)
    app = world.driver.application()
    for point in ("build:before:1", "build:after:1", "compare:after:1", *STEPS):
        killed(point, "--damage", "--backfill")
        world.send(5)
        one = lake("lake")
        one.run(app, until="caught_up")
        if point not in DECIDED:
            assert one.backfill(app, app.table("by_id")).tick is not None, point
        check_bronze(world)
        world.check(one)


@pytest.mark.slow
def test_a_revert_killed_at_every_step(world, killed, lake) -> None:
    app = world.driver.application()
    by_id = app.table("by_id")
    world.send(60)
    one = lake("lake")
    one.run(app, until="caught_up")
    then = sorted(map(tuple, one.read(by_id, tick=1).collect()))
    for point in STEPS:
        world.send(20)
        killed(point, "--revert")
        one.run(app, until="caught_up")
        outcome = one.revert(app, by_id, AtTick(1))
        assert (outcome.tick is None) == (point in DECIDED), point
        assert sorted(map(tuple, one.read(by_id).collect())) == then, point
        check_bronze(world)


def killed_at_random_moments(world, *arguments: str, kills: int, pace_ms: int = 0, pause_s: float = 0.05) -> None:
    """Kill a job several times, at any moment after its first commit, while records come."""
    done = threading.Event()
    failure: list[BaseException] = []

    def produce() -> None:
        try:
            while not done.wait(pause_s):
                world.send(10, pace_ms)
        except BaseException as error:
            failure.append(error)

    seed = random.randrange(1_000_000)
    print(f"moments: seed {seed}")
    moments = random.Random(seed)
    producer = threading.Thread(target=produce)
    producer.start()
    try:
        for _ in range(kills):
            child = world.start("--stay", *arguments)
            assert child.stdout is not None
            for line in child.stdout:  # the first commit: any moment after it will do
                if not line.startswith("ready"):
                    break
            else:
                pytest.fail(f"the child ended by itself\n{world.log()}")
            time.sleep(moments.uniform(0.0, 6.0))
            child.kill()
            child.wait(30)
    finally:
        done.set()
        producer.join(60)
    assert not failure


@pytest.mark.slow
def test_killed_at_random_moments_while_records_come(world, lake) -> None:
    killed_at_random_moments(world, kills=5)
    one = lake("lake")
    one.run(world.driver.application(), until="caught_up")
    check_bronze(world)
    world.check(one)


@pytest.mark.slow
def test_killed_at_random_moments_of_joins(world, lake) -> None:
    """What waits in a join of streams, what refers to changed rows, and sums of it, are as in a run without kills."""
    killed_at_random_moments(world, "--joins", kills=4, pace_ms=20, pause_s=0.2)
    one = lake("lake")
    one.run(world.driver.joins(), until="caught_up")
    check_bronze(world)
    world.check_joins(one)
