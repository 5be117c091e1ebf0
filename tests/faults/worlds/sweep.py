"""Kills a job right after each rename of a run, one after another, and checks what the next run makes of it.

    python -m tests.faults.worlds.sweep                    each rename of two ticks: half an hour
    python -m tests.faults.worlds.sweep --points 17,40-45

The world is that of `world.py` without published topics: the lake is put back before each point, a topic can't be.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.worlds.renames import Renames
from tests.faults.worlds.run import History, catch_up, check_bronze, check_tables, seeds_of
from tests.faults.worlds.world import World


class Sweep:
    """A world with a lake that has some ticks, and records that it has not taken in yet."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.world = World(seed, folder)
        self._base = folder / "base"

    def open(self) -> None:
        """Build the lake that each point begins with."""
        self.world.open(published=0, in_sql=False)
        self.world.send(60)
        catch_up(self.world)
        self.world.send(80)
        self.world.close_windows()
        shutil.copytree(self.world.lake, self._base, symlinks=True)

    def run(self, point: int | None) -> list[str]:
        """Run the job, and kill it after a rename; None for not at all. Return the paths that were renamed."""
        shutil.rmtree(self.world.lake)
        shutil.copytree(self._base, self.world.lake, symlinks=True)

        def on_rename(number: int, path: str) -> None:
            if number == point and self.world.job is not None:
                os.killpg(self.world.job.pid, signal.SIGKILL)

        with Renames(self.world.lake, on_rename) as renames:
            self.world.start_job("--until", "caught-up")
            code = self.world.await_end(600)
        assert code in (0, -signal.SIGKILL), f"the job ended with {code}"
        return renames.paths

    def check(self) -> None:
        """Let the next run finish, and compare the lake with the topics."""
        catch_up(self.world)
        check_tables(self.world, History(self.world, check_bronze(self.world)))


def kind_of(path: str) -> str:
    """Return a path without what is another in each run: numbers, and the names that Spark gives to files."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+", "#", path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=seeds_of, help="such as 17,40-45; each rename if left out")
    parser.add_argument("--seed", type=int, default=1)
    given, violations = parser.parse_args(), 0
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-sweep-"))
    sweep, hit = Sweep(given.seed, folder), Counter[str]()
    try:
        sweep.open()
        whole = sweep.run(None)
        sweep.check()
        print(json.dumps({"renames": len(whole), "kinds": len(set(map(kind_of, whole)))}), flush=True)
        for point in given.points or range(1, len(whole) + 1):
            paths = sweep.run(point)
            path = paths[point - 1] if len(paths) >= point else ""
            hit[kind_of(path)] += 1
            try:
                sweep.check()
                print(json.dumps({"point": point, "after": path}), flush=True)
            except AssertionError as error:
                violations += 1
                print(json.dumps({"point": point, "after": path, "violation": str(error)}), flush=True)
                shutil.copytree(sweep.world.lake, folder / f"violation-{point}", symlinks=True)
        missed = sorted(set(map(kind_of, whole)) - set(hit))
        print(json.dumps({"points": hit.total(), "violations": violations, "kinds_missed": missed}), flush=True)
    finally:
        sweep.world.close()
        if not violations:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
