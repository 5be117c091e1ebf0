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
from pathlib import Path
from typing import Any

from tests.faults.worlds import oracle
from tests.faults.worlds.world import TOPICS, World

VERSIONS_CHECKED = 4
# What a job need not live through; it says why in one line, and the next start goes on.
MAY_END = ("kill a worker", "kill the broker", "stop the broker", "kill Java")
# A job that ends by such a fault already keeps its code.
ENDING = (0, 1)


def live(world: World, faults_max: int | None = None) -> None:
    """Let records flow and faults happen, and let the application catch up at the end. faults_max: None for all."""
    dice, faults = world.dice, world.faults()
    world.send(dice.randint(20, 120))
    name = ""
    count = dice.randint(2, 4)
    for _ in range(count if faults_max is None else min(faults_max, count)):
        if not world.has_job():
            world.start_job()
        # From before its Java runs until it waits for records.
        time.sleep(dice.choice((dice.uniform(0.5, 15), dice.uniform(15, 30))))
        world.send(dice.randint(1, 200))
        time.sleep(dice.uniform(0, 4))
        if not world.has_job():
            code = world.job.returncode if world.job else None
            world.tell(f"the job had ended with {code}")
            assert code in (1, 3), f"after {name or 'nothing'} the job ended with {code}"
            assert code == 3 or name in MAY_END, f"after {name or 'nothing'} the job ended with {code}"
            continue
        earlier, name = name, dice.choice(list(faults))
        world.tell(name)
        world.fault_times.append((name, time.time()))
        if name == "terminate":
            world.terminate(ENDING if earlier in MAY_END else (0,))
        else:
            faults[name]()
    world.send(dice.randint(1, 60))
    if world.has_job():
        world.tell("terminate")
        world.terminate(ENDING if name in MAY_END else (0,))
    world.close_windows()
    catch_up(world)


def catch_up(world: World) -> None:
    """Run the application until it has caught up: the first command, or after a wait for a Java that is left."""
    for _ in range(3):
        done = world.call("run", "app.py", "--until", "caught-up")
        if done.returncode == 0:
            world.tell("caught up")
            return
        assert done.returncode == 3, f"run: exit code {done.returncode}\n{done.stderr.decode()[-3000:]}"
        time.sleep(5)
    raise AssertionError("run: the lake is still held 15 seconds later")


def check(world: World) -> None:
    """Compare the lake and its topics with what Kafka has."""
    topics = {name: oracle.drain(world.servers, name) for name in TOPICS}
    bronze = check_bronze(world, topics)
    reverts = reverts_of(world)
    check_tables(world, bronze, reverts)
    check_versions(world, bronze, reverts)
    for topic, name in (("totals-changes", "totals"), ("latest-changes", "latest_orders")):
        published = oracle.folded_topic(oracle.drain(world.servers, topic))
        compare(f"topic {topic}", published, oracle.FOLDS[name](known_to(name, bronze, reverts)))
    # A folder of temporary files may be new, and not locked yet, for a minute: after that a start removes it.
    time.sleep(max(0.0, world.last_start + 62 - time.monotonic()))
    for arguments in (("test", "check", "--app", "app.py"), ("test", "audit", "totals", "--app", "app.py", "--deep")):
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


def check_bronze(world: World, topics: dict[str, list[oracle.Stored]]) -> list[oracle.Taken]:
    """Each committed record is in bronze once, with its bytes, and in its quarantine if it is bad."""
    paths = [world.lake / "bronze/records", world.lake / "bronze/own/clicks"]
    bronze = sorted(taken for path in paths if path.is_dir() for taken in oracle.bronze_records(path))
    counts = Counter((taken.topic, *taken.record) for taken in bronze)
    wanted = Counter((topic, *record) for topic, records in topics.items() for record in records)
    assert counts == wanted, (
        f"bronze: too many {list((counts - wanted).items())[:3]}, too few {list((wanted - counts).items())[:3]}"
    )
    for topic in TOPICS:
        path = world.lake / "quarantine" / topic
        rows = oracle.bronze_records(path) if (path / "_delta_log").is_dir() else []
        places = Counter(taken.record[:2] for taken in rows)
        assert places == Counter(oracle.bad_places(topic, topics[topic])), f"quarantine {topic}"
    return bronze


def reverts_of(world: World) -> list[tuple[int, int]]:
    """Return the reverts of the table `totals`: the tick to which it went back, and that at which it did."""
    done = world.call("look", "interventions", "totals", "--json")
    assert done.returncode == 0, done.stderr.decode()
    decisions = [json.loads(line) for line in done.stdout.splitlines()]
    reverts = [(row["details"]["tick"], row["at"]) for row in decisions if row["kind"] == "revert"]
    return sorted(reverts, key=lambda revert: revert[1])


def known_to(
    name: str, bronze: list[oracle.Taken], reverts: list[tuple[int, int]], tick: int | None = None
) -> list[oracle.Taken]:
    """Return the records that a table has at a tick; None for now. A revert takes away what came after its tick."""
    own_reverts = reverts if name in ("totals", "sizes") else []

    def at(moment: int) -> list[oracle.Taken]:
        earlier = [revert for revert in own_reverts if revert[1] <= moment]
        base, begin = (at(earlier[-1][0]), earlier[-1][1]) if earlier else ([], -1)
        return base + [taken for taken in bronze if begin < taken.tick <= moment]

    return at(bronze[-1].tick if tick is None else tick)


def check_tables(world: World, bronze: list[oracle.Taken], reverts: list[tuple[int, int]]) -> None:
    """Each table, and its feed replayed from the first version on, is the fold of the records that it has."""
    for name, fold in oracle.FOLDS.items():
        rows, path = fold(known_to(name, bronze, reverts)), world.lake / "silver" / name
        compare(f"table {name}", oracle.table_rows(path, name), rows)
        compare(f"the feed of {name}", oracle.replayed_feed(path, name), rows)


def check_versions(world: World, bronze: list[oracle.Taken], reverts: list[tuple[int, int]]) -> None:
    """Old versions are the folds of the records up to their ticks."""
    for name in ("totals", "latest_orders", "cities"):
        path = world.lake / "silver" / name
        versions = list(oracle.commit_ticks(path))
        for version, tick in world.dice.sample(versions, min(len(versions), VERSIONS_CHECKED)):
            known = known_to(name, bronze, reverts, tick)
            compare(f"{name} at tick {tick}", oracle.table_rows(path, name, version), oracle.FOLDS[name](known))


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
