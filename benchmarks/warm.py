"""Commands that people give, each as a process of its own: cold, and on a Spark that the command before has left.

    .venv/bin/python benchmarks/warm.py [--rounds N] [--records N]
    .venv/bin/python benchmarks/warm.py --growth N      N commands one after the other: does a kept Spark grow?

Wall and processor seconds, medians of N rounds; the first command on a Spark that is kept, which starts it, is not
among them. Processor seconds: of Python, of Spark's JVM and its Python workers; not of Kafka. Then the memory of the
idle Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

import psutil
from common import TOPIC, lake_and_broker, record, show

from lakehouse.kafka.produce import produce

APP = f"""
import lakehouse as lh
events = lh.stream("{TOPIC}", key="id string", schema="kind string, amount bigint, note string")
app = lh.app(events.latest("latest"), events.group_by("id").agg(n=lh.count()).table("counts"))
"""
RUN = ("run", "--until", "caught-up")
START_MS, STEP_MS = 1_700_000_000_000, 1_000
COLLECTED_SECONDS = 6.0  # until the idle Spark has given memory back


class Desk:
    """A folder in which commands are given; keep: how long their Spark waits."""

    def __init__(self, folder: Path, servers: str, keep: str) -> None:
        self.folder, self.keep, self.java_pid = folder, keep, 0
        self._environ = os.environ | {
            "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": servers,
            "LAKEHOUSE_LAKE_PATH": str(folder / "lake"),
            "LAKEHOUSE_LAKE_APP": str(folder / "app.py"),
            "LAKEHOUSE_SPARK_KEEP": keep,
        }

    def give(self, *arguments: str) -> tuple[float, float, str]:
        """Run a command; return its wall and processor seconds, and what it printed."""
        began, kept_before = time.monotonic(), processor_seconds(self.java_pid)
        command = [sys.executable, "-P", "-m", "lakehouse.cli.main", *arguments]
        with subprocess.Popen(
            command, cwd=self.folder, env=self._environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            seconds: dict[int, float] = {}
            while process.poll() is None:
                with suppress(psutil.NoSuchProcess):
                    own = psutil.Process(process.pid)
                    seconds |= {one.pid: processor_seconds(one.pid) for one in (own, *own.children(recursive=True))}
                time.sleep(0.02)
            took = time.monotonic() - began
            out = process.stdout.read() if process.stdout else ""
        if process.returncode:
            raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}:\n{out}")
        return took, sum(seconds.values()) + processor_seconds(self.java_pid) - kept_before, out

    def find_java(self) -> None:
        """Take note of the Spark that is kept."""
        (engine,) = json.loads(self.give("spark", "status", "--json")[2])
        self.java_pid = engine["pid"]

    def memory(self) -> float:
        """The resident memory of the idle Spark, in MB."""
        time.sleep(COLLECTED_SECONDS)
        return psutil.Process(self.java_pid).memory_info().rss / 1e6


def measure_growth(desk: Desk, servers: str, commands: int, records: int) -> None:
    """Give commands in turn, each with work to do now and then; print what the idle Spark has every tenth of them."""
    dice, sent, rows = random.Random(7), 0, []
    kinds = (
        RUN, ("query", "select count(*) from counts", "--tick", "1"), ("test", "audit", "latest"),
        ("past", "changes", "counts", "--per-event", "--limit", "5"), RUN,
    )  # fmt: skip
    took: list[float] = []
    for number in range(commands):
        command = kinds[number % len(kinds)]
        if number % len(kinds) == 0:
            produce(servers, {}, TOPIC, (record(n, dice, START_MS + n * STEP_MS) for n in range(sent, sent + records)))
            sent += records
        took.append(desk.give(*command)[0])
        if number == 0:
            desk.find_java()
        if (number + 1) % max(commands // 10, 1) == 0:
            memory, java = desk.memory(), psutil.Process(desk.java_pid)
            facts = (memory, java.num_threads(), java.num_fds(), median(took))
            rows.append([str(number + 1), *[f"{fact:,.0f}" for fact in facts[:3]], f"{facts[3]:.1f}"])
            print(*rows[-1], flush=True)
            took.clear()
    show("one Spark, idle after so many commands", ["commands", "MB", "threads", "open files", "s a command"], rows)


def processor_seconds(pid: int) -> float:
    """The processor seconds of a process so far, with those of its children that have ended; 0.0 if there is none."""
    with suppress(psutil.NoSuchProcess):
        times = psutil.Process(pid).cpu_times() if pid else None
        return 0.0 if times is None else times.user + times.system
    return 0.0


def measure(desk: Desk, servers: str, records: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Give the commands in turn; return the wall and processor seconds of each."""
    dice, sent = random.Random(7), 0

    def send() -> None:
        nonlocal sent
        produce(servers, {}, TOPIC, (record(n, dice, START_MS + n * STEP_MS) for n in range(sent, sent + records)))
        sent += records

    send()
    desk.give(*RUN)
    if desk.keep != "off":
        desk.find_java()
    key = json.loads(desk.give("query", "select id from counts limit 1", "--json")[2].splitlines()[0])["id"]
    figures: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        send()
        # The last tick has half of its records then: no version of the table is of that moment.
        between = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((START_MS + (sent - records // 2) * STEP_MS) / 1000))
        for name, arguments in {
            f"run --until caught-up, {records:,} records": RUN,
            "run --until caught-up, nothing to do": RUN,
            "task ingest of a catch-up, nothing to do": (*RUN, "--only", "ingest", "--json"),
            "task silver of a catch-up, nothing to do": (*RUN, "--only", "silver", "--json"),
            "past explain": ("past", "explain", "counts", "--key", key),
            "query --at, between two versions": (
                "query", "select count(*) from counts", "--at", between, "--app", str(desk.folder / "app.py"),
            ),
            "past changes --per-event": ("past", "changes", "counts", "--per-event", "--from", "1", "--key", key),
        }.items():  # fmt: skip
            took, processor, _ = desk.give(*arguments)
            figures.setdefault(name, []).append((took, processor))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--growth", type=int, default=0)
    given = parser.parse_args()
    if given.growth:
        with lake_and_broker() as (settings, broker):
            folder = Path(settings.lake.path).parent
            (folder / "app.py").write_text(APP)
            desk = Desk(folder, broker.bootstrap_servers, "10 minutes")
            try:
                measure_growth(desk, broker.bootstrap_servers, given.growth, given.records)
            finally:
                desk.give("spark", "stop")
        return
    found = {}
    for keep in ("off", "10 minutes"):
        with lake_and_broker() as (settings, broker):
            folder = Path(settings.lake.path).parent
            (folder / "app.py").write_text(APP)
            desk = Desk(folder, broker.bootstrap_servers, keep)
            try:
                found[keep] = measure(desk, broker.bootstrap_servers, given.records, given.rounds)
                memory = desk.memory() if desk.java_pid else 0.0
            finally:
                if desk.java_pid:
                    desk.give("spark", "stop")
    rows = []
    for name, cold in found["off"].items():
        kept = found["10 minutes"][name]
        values = [median(figure[place] for figure in figures) for place in (0, 1) for figures in (cold, kept)]
        rows.append([name, *[f"{value:.1f}" for value in values], f"{values[1] / values[0]:.2f}"])
    show(
        f"commands, medians of {given.rounds}; memory of the idle Spark at the end: {memory:,.0f} MB",
        ["command", "cold (s)", "kept (s)", "cold, processor", "kept, processor", "kept / cold"],
        rows,
    )


if __name__ == "__main__":
    main()
