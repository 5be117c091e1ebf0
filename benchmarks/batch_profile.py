"""Where the time of a run goes: its Spark jobs, one line each, and the time in which no job runs.

    .venv/bin/python benchmarks/batch_profile.py run [--records N]       a catch-up, profiled
    .venv/bin/python benchmarks/batch_profile.py show EVENT_LOG          any run of Spark that wrote its events

For a run of your own: in lakehouse.toml, [spark] options, set "spark.eventLog.enabled" = "true",
"spark.eventLog.compress" = "false" and "spark.eventLog.dir" to a folder that exists; run, and show what is in it.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from common import TOPIC, app, lake_and_broker, record, show

from lakehouse.kafka.produce import produce
from lakehouse.run.lake import Lake


@dataclass(slots=True)
class Job:
    """A Spark job: when it ran (milliseconds), what it was for, its tasks and the seconds that they computed."""

    began: int
    ended: int
    what: str
    tasks: int = 0
    cpu: float = 0.0


def jobs_of(log: Path) -> list[Job]:
    """Return the jobs of an event log, in order of their beginning."""
    jobs: dict[int, Job] = {}
    job_of: dict[int, int] = {}
    for line in log.read_text().splitlines():
        event = json.loads(line)
        match event["Event"]:
            case "SparkListenerJobStart":
                properties = event.get("Properties") or {}
                what = properties.get("spark.job.description") or properties.get("callSite.short") or ""
                stage = event["Stage Infos"][-1]["Stage Name"] if event["Stage Infos"] else ""
                pool = properties.get("spark.scheduler.pool") or "-"
                began = event["Submission Time"]
                jobs[event["Job ID"]] = Job(began, began, f"[{pool}] {' '.join(what.split())[:40]} | {stage[:60]}")
                job_of |= dict.fromkeys(event["Stage IDs"], event["Job ID"])
            case "SparkListenerJobEnd":
                jobs[event["Job ID"]].ended = event["Completion Time"]
            case "SparkListenerTaskEnd" if event["Stage ID"] in job_of and event.get("Task Metrics"):
                job = jobs[job_of[event["Stage ID"]]]
                job.tasks += 1
                job.cpu += event["Task Metrics"]["Executor CPU Time"] / 1e9
    return sorted(jobs.values(), key=lambda job: job.began)


def report(log: Path) -> None:
    """Print the jobs, and the seconds in which none ran."""
    jobs = jobs_of(log)
    first = jobs[0].began
    rows, until, idle = [], first, 0
    for job in jobs:
        gap = max(0, job.began - until)
        idle += gap
        rows.append(
            [f"{(job.began - first) / 1000:.2f}", f"{gap / 1000:.2f}", f"{(job.ended - job.began) / 1000:.2f}",
             str(job.tasks), f"{job.cpu:.2f}", job.what]
        )  # fmt: skip
        until = max(until, job.ended)
    for row in rows:
        print("{:>8} {:>7} {:>7} {:>5} {:>7}  {}".format(*row))
    by: dict[str, list[float]] = defaultdict(list)
    for job in jobs:
        by[job.what].append((job.ended - job.began) / 1000)
    show(
        f"{len(jobs)} jobs in {(until - first) / 1000:.1f} s, {idle / 1000:.1f} s of them without a job, "
        f"{sum(job.cpu for job in jobs):.1f} s computed in tasks",
        ["what", "jobs", "seconds"],
        [[what, str(len(times)), f"{sum(times):.2f}"] for what, times in sorted(by.items(), key=lambda i: -sum(i[1]))],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--records", type=int, default=1_000_000)
    commands.add_parser("show").add_argument("log", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "show":
        report(chosen.log)
        return
    dice = random.Random(7)
    with tempfile.TemporaryDirectory() as folder, lake_and_broker() as (settings, broker):
        produce(broker.bootstrap_servers, {}, TOPIC, (record(n, dice) for n in range(chosen.records)))
        options = {**settings.spark.options, "spark.eventLog.enabled": "true", "spark.eventLog.dir": folder}
        options |= {"spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false"}
        settings = replace(settings, spark=replace(settings.spark, options=options))
        lake = Lake(settings=settings)
        lake.run(app, until="caught_up", listen=lambda event: print(event))
        lake.spark.stop()
        report(next(path for path in Path(folder).iterdir()))


if __name__ == "__main__":
    main()
