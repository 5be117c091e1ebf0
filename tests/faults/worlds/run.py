"""Runs random worlds, and checks what must hold in each of them at the end.

    python -m tests.faults.worlds.run --seeds 1-50        or: make faults SEEDS=1-50
    python -m tests.faults.worlds.run --seeds 17 --keep /tmp/world
    python -m tests.faults.worlds.run --seeds 17 --reduce

A violation prints the seed, what happened and when, and the first thing that differs; the world's folder is kept. With
--reduce the world runs again with its first faults alone, from none on, until it is violated once more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.faults.worlds import oracle, reading
from tests.faults.worlds.world import START_MS, TOPICS, World

VERSIONS_CHECKED = 3
# The oracle says what they have when all windows but the last are closed.
READABLE = ("totals", "latest_orders", "users", "paid", "visits", "sessions")
ONLY_AT_THE_END = ("final_visits", "recent_visits")
# What a job need not live through; it says why in one line, and the next start goes on.
MAY_END = (
    "kill a worker", "kill the broker", "stop the broker", "kill Java", "make a topic anew", "expire records",
    "compact by hand",
)  # fmt: skip
# A job that ends by such a fault already keeps its code.
ENDING = (0, 1)


def live(world: World, faults_max: int | None = None) -> None:
    """Let records flow and faults happen, and let the application catch up at the end. faults_max: None for all."""
    dice, faults = world.dice, world.faults()
    world.send(dice.randint(20, 120))
    faults_of_job: list[str] = []  # since it was started: what it noticed late may end it later
    count = dice.randint(2, 4)
    for _ in range(count if faults_max is None else min(faults_max, count)):
        if not world.has_job():
            world.start_job()
            faults_of_job = []
        # From before its Java runs until it waits for records.
        time.sleep(dice.choice((dice.uniform(0.5, 15), dice.uniform(15, 30))))
        world.send(dice.randint(1, 200))
        time.sleep(dice.uniform(0, 4))
        if not world.has_job():
            code = world.job.returncode if world.job else None
            world.tell(f"the job had ended with {code}")
            assert code in (1, 3), f"after {faults_of_job} the job ended with {code}"
            assert code == 3 or may_end(faults_of_job), f"after {faults_of_job} the job ended with {code}"
            continue
        name = dice.choice(list(faults))
        world.tell(name)
        world.fault_times.append((name, time.time()))
        if name == "terminate":
            world.terminate(ENDING if may_end(faults_of_job) else (0,))
        else:
            faults[name]()
        faults_of_job.append(name)
    world.send(dice.randint(1, 60))
    if world.has_job():
        world.tell("terminate")
        world.terminate(ENDING if may_end(faults_of_job) else (0,))
    world.close_windows()
    catch_up(world)


def may_end(faults: list[str]) -> bool:
    """Say whether a job that had these faults may end by itself."""
    return any(name in MAY_END for name in faults)


def catch_up(world: World) -> None:
    """Run the application until it has caught up: the first command, or after a wait for a Java that is left."""
    for _ in range(3):
        done = world.call("run", world.application.file, "--until", "caught-up")
        if done.returncode == 0:
            world.tell("caught up")
            return
        assert done.returncode == 3, f"run: exit code {done.returncode}\n{done.stderr.decode()[-3000:]}"
        time.sleep(5)
    raise AssertionError("run: the lake is still held 15 seconds later")


def check(world: World) -> None:
    """Compare the lake and its topics with what Kafka has."""
    history = History(world, check_bronze(world))
    check_tables(world, history)
    check_versions(world, history)
    check_reads(world, history)
    for topic, name in world.application.topics.items():
        published = reading.folded_topic(reading.drain(world.servers, topic))
        rows = history.rows(name)
        # A count of nobody is a row, and is published as one.
        published = {key: row for key, row in published.items() if row.get("customers") != 0}
        compare(f"topic {topic}", published, {str(key): row for key, row in rows.items()})
    # A folder of temporary files may be new, and not locked yet, for a minute: after that a start removes it.
    time.sleep(max(0.0, world.last_start + 62 - time.monotonic()))
    app = "--app", world.application.file
    for arguments in (("test", "check", *app), ("test", "audit", "totals", *app, "--deep")):
        done = world.call(*arguments)
        assert done.returncode == 0, (
            f"{' '.join(arguments)}: {done.stdout.decode()[-2000:]}{done.stderr.decode()[-2000:]}"
        )
    log = (world.folder / "job.log").read_text(errors="replace")
    assert "Traceback" not in log, f"the job printed a trace:\n{log[-3000:]}"
    deadline = time.monotonic() + 30  # the Java that a command leaves for the next one has one second
    while (members := world.members()) and time.monotonic() < deadline:
        time.sleep(1)
    assert members == [], f"processes are left: {[item.cmdline()[:8] for item in members]}"
    # The JVM's counters are the system's; the log and the lock of a Java that is kept between commands stay.
    left = [str(path) for path in (world.folder / "tmp").rglob("*") if path.is_file() and not _may_stay(path)]
    assert left == [], f"left in the temporary folder: {left}"


def _may_stay(path: Path) -> bool:
    return path.parent.name.startswith("hsperfdata") or (
        path.parent.name == f"lakehouse-{os.getuid()}" and path.suffix in (".log", ".lock")
    )


def check_bronze(world: World) -> list[reading.Taken]:
    """Each committed record is in bronze once, with its bytes, or the lake says that it was lost; bad ones are apart.

    Returns the records of bronze, those in Avro as JSON.
    """
    present = world.look()
    bronze = sorted(taken for path in world.bronze_tables() for taken in reading.bronze_records(path))
    counts = Counter((taken.topic, taken.record) for taken in bronze)
    known = {(topic, record) for topic, records in world.ledger.items() for record in records.values()}
    too_many = [item for item, count in counts.items() if count > 1 or item not in known]
    assert too_many == [], f"bronze: doubled, or never sent: {too_many[:3]}"
    taken_places = {taken.record.place for taken in bronze}
    gaps = reading.gaps(world.lake)
    for topic, record in known - counts.keys():
        assert record.place not in present[topic], f"bronze lacks what {topic} has: {record}"
        is_explained = record.place in world.gone_before or any(gap.covers(record.place) for gap in gaps)
        assert is_explained, f"bronze lacks {record} of {topic}, and no gap says so"
    wrong = [(gap, place) for gap in gaps for place in taken_places if gap.covers(place)]
    assert wrong == [], f"a gap covers what bronze has: {wrong[:3]}"
    bronze = [_readable(world, taken) for taken in bronze]
    for topic in TOPICS:
        bad = Counter(oracle.bad_places(topic, (taken.record for taken in bronze if taken.topic == topic)))
        for stream in world.application.streams_of(topic):
            records = reading.bronze_records(world.lake / "quarantine" / stream)
            assert Counter(taken.record.place for taken in records) == bad, f"quarantine {stream}"
    return bronze


def _readable(world: World, taken: reading.Taken) -> reading.Taken:
    if taken.topic != "payments" or not world.application.in_avro:
        return taken
    value = oracle.from_avro(taken.record.value, world.writers)
    return taken._replace(record=taken.record._replace(value=value))


class History:
    """What the tables of a world have at each tick: the records of bronze, with the reverts and fixes since then."""

    def __init__(self, world: World, bronze: list[reading.Taken]) -> None:
        self.bronze = bronze
        decisions = decisions_of(world)
        self.reverts = {name: reverts_of(decisions, name) for name in REVERTED.values()}
        ticks = {row["id"]: row["at"] for row in decisions if row["kind"] == "fixed"}
        rows = reading.rows_of(world.lake / "interventions/records")
        self.fixes = [
            (ticks[row["id"]], (row["topic_id"], row["partition"], row["offset"])) for row in rows if row["id"] in ticks
        ]

    def rows(self, name: str, tick: int | None = None, until_ms: int | None = None) -> reading.Rows:
        """Return the rows of a table at a tick, or of the records until some event time; None for now, and for all."""
        known = known_to(self.bronze, self.reverts.get(REVERTED.get(name, ""), []), tick)
        known = [taken for taken in known if until_ms is None or taken.record.timestamp <= until_ms]
        places = {place for fix_tick, place in self.fixes if tick is None or fix_tick <= tick}
        return oracle.TABLES[name].fold(oracle.with_fixes(known, places))


REVERTED = {"totals": "totals", "sizes": "totals", "cities": "cities"}  # tables, with that whose reverts they see


def decisions_of(world: World) -> list[dict[str, Any]]:
    done = world.call("look", "interventions", "--json")
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def reverts_of(decisions: list[dict[str, Any]], table: str) -> list[tuple[int, int]]:
    """Return the reverts of a table: the tick to which it went back, and that at which it did."""
    return sorted(
        ((row["details"]["tick"], row["at"]) for row in decisions if row["kind"] == "revert" and row["table"] == table),
        key=lambda revert: revert[1],
    )


def known_to(
    bronze: list[reading.Taken], reverts: list[tuple[int, int]], tick: int | None = None
) -> list[reading.Taken]:
    """Return the records that a table has at a tick; None for now. A revert takes away what came after its tick."""

    def at(moment: int) -> list[reading.Taken]:
        earlier = [revert for revert in reverts if revert[1] <= moment]
        base, begin = (at(earlier[-1][0]), earlier[-1][1]) if earlier else ([], -1)
        return base + [taken for taken in bronze if begin < taken.tick <= moment]

    return at(bronze[-1].tick if tick is None else tick)


def check_tables(world: World, history: History) -> None:
    """Each table, and its feed replayed from the first version on, is the fold of the records that it has."""
    for name in world.application.tables:
        rows, path, keys = history.rows(name), world.lake / "silver" / name, oracle.TABLES[name].keys
        compare(f"table {name}", reading.table_rows(path, keys), rows)
        compare(f"the feed of {name}", reading.replayed_feed(path, keys), rows)


def check_versions(world: World, history: History) -> None:
    """Old versions are the folds of the records up to their ticks."""
    for name in world.application.tables:
        if name in ONLY_AT_THE_END:
            continue
        path, keys = world.lake / "silver" / name, oracle.TABLES[name].keys
        versions = list(reading.commit_ticks(path))
        for version, tick in world.dice.sample(versions, min(len(versions), VERSIONS_CHECKED)):
            compare(f"{name} at tick {tick}", reading.table_rows(path, keys, version), history.rows(name, tick))


def check_reads(world: World, history: History) -> None:
    """What Spark folds where no version is the answer: a table at a tick, and one at an event time."""
    tables = [name for name in READABLE if name in world.application.tables]
    name, tick = world.dice.choice(tables), world.dice.randint(1, history.bronze[-1].tick)
    compare(f"{name} read at tick {tick}", read(world, name, "--tick", str(tick)), history.rows(name, tick))
    name, time_ms = world.dice.choice(tables), START_MS + world.dice.randrange(60_000)
    moment = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
    rows = history.rows(name, until_ms=time_ms)
    compare(f"{name} read at {moment}", read(world, name, "--at", moment), rows)


def read(world: World, name: str, *moment: str) -> reading.Rows:
    """Return the rows of a table at a moment, by the command."""
    command = (
        "query",
        f"SELECT * FROM {name}",
        *moment,
        "--app",
        world.application.file,
        "--json",
        "--limit",
        "100000",
    )
    done = world.call(*command)
    assert done.returncode == 0, f"{command}: {done.stderr.decode()[-2000:]}"
    return reading.rows_by_key(map(json.loads, done.stdout.splitlines()), oracle.TABLES[name].keys)


def compare(what: str, found: dict[Any, Any], expected: dict[Any, Any]) -> None:
    differing = [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]
    if differing:
        key = min(differing, key=repr)
        raise AssertionError(
            f"{what}: {len(differing)} of {len(expected)} keys differ; {key!r} is {found.get(key)!r:.300}, expected "
            f"{expected.get(key)!r:.300}"
        )


def run_world(seed: int, folder: Path, faults_max: int | None = None) -> dict[str, Any]:
    """Run one world in a new folder, and check it; return facts about it. Raises AssertionError, with its story.

    faults_max: see `live`.
    """
    world = World(seed, folder)
    try:
        try:
            world.open()
            live(world, faults_max)
            check(world)
        finally:
            world.close()
    except Exception as error:
        story = "\n".join(world.story)
        raise AssertionError(f"seed {seed}:\n{story}\n{type(error).__name__}: {error}") from error
    return {**world.facts(), "recovered": recovery_seconds(world), "story": world.story}


def recovery_seconds(world: World) -> list[tuple[str, float]]:
    """Return each fault with the seconds until the next commit of a table, the wait for the next start among them."""
    commits = sorted(path.stat().st_mtime for path in world.lake.glob("silver/*/_delta_log/*.json"))
    later = [(name, [commit for commit in commits if commit > began], began) for name, began in world.fault_times]
    return [(name, round(after[0] - began, 1)) for name, after, began in later if after]


def reduce_world(seed: int, folder: Path) -> int | None:
    """Return with how many of its first faults a world is violated again; None if it never is."""
    for count in range(5):
        try:
            run_world(seed, folder / str(count), count)
        except AssertionError:
            return count
    return None


def summary(worlds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the faults of worlds by kind, and the seconds from one to the next commit: median, and 99 of 100."""
    recovered = [tuple(item) for world in worlds for item in world["recovered"]]
    seconds = sorted(number for _, number in recovered)
    return {
        "worlds": len(worlds),
        "faults": dict(Counter(name for name, _ in recovered)),
        "median_seconds": seconds[len(seconds) // 2] if seconds else None,
        "p99_seconds": seconds[min(len(seconds) * 99 // 100, len(seconds) - 1)] if seconds else None,
    }


def seeds_of(text: str) -> list[int]:
    """Return the seeds of "7", "1-50", "1-3,9"."""
    bounds = [part.partition("-")[::2] for part in text.split(",")]
    return [seed for first, last in bounds for seed in range(int(first), int(last or first) + 1)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("1-3"))
    parser.add_argument("--keep", type=Path, help="keep each world in this folder")
    parser.add_argument("--reduce", action="store_true", help="run a violated world again, with fewer faults")
    given, violations, worlds = parser.parse_args(), 0, list[dict[str, Any]]()
    for seed in given.seeds:
        folder = (
            Path(tempfile.mkdtemp(prefix=f"lakehouse-world-{seed}-")) if given.keep is None else given.keep / str(seed)
        )
        try:
            facts = run_world(seed, folder)
        except AssertionError:
            violations += 1
            traceback.print_exc()
            print(json.dumps({"seed": seed, "violation": True, "folder": str(folder)}), flush=True)
            if given.reduce:
                count = reduce_world(seed, folder.with_name(f"{folder.name}-reduced"))
                print(json.dumps({"seed": seed, "violated_by_its_first_faults": count}), flush=True)
            continue
        worlds.append(facts)
        print(json.dumps(facts), flush=True)
        if given.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({**summary(worlds), "violations": violations}), flush=True)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
