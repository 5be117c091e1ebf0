"""The parts beside catch-up: which scripts measure them, and what of their tables is held against a target.

Each script runs in a process of its own, prints its tables, and leaves them as JSON lines, too (`common.show`).
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from catching_up import PeerFailed, watched
from figures import Figure, Table, batch_seconds, cell, slopes

BENCHMARKS = Path(__file__).resolve().parent.parent
Tables = Sequence[Table]
Command = Sequence[str]


@dataclass(frozen=True, slots=True)
class Part:
    """What is run, at two sizes, and how its tables become figures. A command: a script of benchmarks/, its options."""

    quick: Sequence[Command]
    full: Sequence[Command]
    figures: Callable[[Tables], list[Figure]]


def further_tables(tables: Tables) -> list[Figure]:
    many = tables[0]  # the tick with many records, in seconds
    column = "a further table, of the first one's time: once"
    found = {row[0]: cell([many], row[0], column) for row in many["rows"] if row[0] != "1"}
    return [
        Figure("a further table", f"each further one of {number} / the first's silver", cost, "x", 0.25)
        for number, cost in found.items()
    ]


def freshness(tables: Tables) -> list[Figure]:
    ours, theirs = tables[0], {table["title"].split(":")[0]: table for table in tables[1:]}
    silver = ["silver latest", "silver counts"]
    found = {
        (place, p): max(cell([ours], row, f"{p} (s)") for row in rows)
        for place, rows in (("bronze", ["bronze"]), ("silver", silver))
        for p in ("p50", "p99")
    }
    targets = {("bronze", "p50"): 0.8, ("bronze", "p99"): 1.5, ("silver", "p50"): 3.0, ("silver", "p99"): 6.0}
    figures = [Figure("freshness", f"{place} {p}", found[place, p], target=to) for (place, p), to in targets.items()]
    for peer, table in theirs.items():
        for place, rows in (("bronze", ["bronze"]), ("silver", silver)):
            slower = max(cell([table], row, "p50 (s)") for row in rows) / found[place, "p50"]
            what, target = f"{peer}'s {place} p50 / lakehouse's", 4.0 if peer == "recipe" else None
            figures.append(Figure("freshness", what, slower, "x", target, at_least=True))
    return figures


def start(tables: Tables) -> list[Figure]:
    return [
        Figure("start", f"{lake}: the first commit of {place}", cell(tables, lake, column), target=target)
        for lake in ("a new lake", "a lake that exists")
        for place, column, target in (("bronze", "first commit of bronze", 8.0), ("silver", "tables", 12.0))
    ]


def killed(tables: Tables) -> list[Figure]:
    return [
        Figure("SIGKILL", f"to the first commit of {place}", cell(tables, place, "median"), target=12.0)
        for place in ("bronze", "silver")
    ]


def growth(tables: Tables) -> list[Figure]:
    """The largest slope between neighbouring sizes: what more rows cost where they cost most."""
    return [
        Figure("growth", f"{family}, {keys} keys: slope, log to log", max(slopes(points)), "", target)
        for keys, target in (("local", 0.3), ("random", 0.7))
        for family, points in batch_seconds(tables, keys).items()
        if len(points) > 1
    ]


def rebuild(tables: Tables) -> list[Figure]:
    figures, rates = [], {}
    for table in tables:
        if "records a second" in table["columns"]:
            records = table["title"].split(" ")[0]
            for what in ("count and sum", "latest"):
                ours = cell([table], f"{what}, from bronze", "seconds")
                slower = ours / cell([table], f"{what}, the batch job", "seconds")
                figures.append(Figure("rebuild", f"{what}, {records} records / the batch job", slower, "x", 1.3))
                rates.setdefault(what, []).append(ours / float(records.replace(",", "")))
    for what, each in rates.items():
        if len(each) > 1:
            said = f"{what}: a record of the largest / of the smallest"
            figures.append(Figure("rebuild", said, each[-1] / each[0], "x", 1.1))
    return figures


def versions(tables: Tables) -> list[Figure]:
    now = cell(tables, "now", "seconds")
    asked = (
        ("a version by its tick / now", "the same version, by its tick", 1.3),
        ("between versions / now", "between versions, a tick past one", 3.0),
    )
    return [
        Figure("the past", what, cell(tables, row, "seconds") / now, "x", target) for what, row, target in asked
    ]  # fmt: skip


def many_tables(tables: Tables) -> list[Figure]:
    (table,) = tables
    least, most = table["rows"][0][0], table["rows"][-1][0]
    falls = cell(tables, most, "a table") / cell(tables, least, "a table")
    seconds = cell(tables, most, "a batch")
    return [
        Figure("many tables", f"a batch of 1,000 records into {most}", seconds, target=15.0),
        Figure("many tables", f"a table's share of it, of {most} / of {least}", falls, "x", 1.0),
    ]


def sized(script: str, **options: str) -> Command:
    return [script, *[word for name, given in options.items() for word in (f"--{name}", *given.split())]]


def catching_recipe(*words: str) -> list[Command]:
    return [["freshness.py", *words], ["peers/recipe_freshness.py", *words]]


PARTS: Mapping[str, Part] = {
    "tables": Part(
        [sized("tables.py", records="100000", rounds="1", tables="2")],
        [sized("tables.py", records="1000000", rounds="3", tables="2 4")],
        further_tables,
    ),
    "freshness": Part(
        catching_recipe("--seconds", "15", "--warm", "15"),
        [
            *catching_recipe("--seconds", "600", "--warm", "60"),
            ["peers/recipe_freshness.py", "--seconds", "600", "--warm", "60", "--tuned"],
        ],
        freshness,
    ),
    "start": Part([sized("start.py", rounds="1")], [sized("start.py", rounds="3")], start),
    "killed": Part([sized("killed.py", rounds="1")], [sized("killed.py", rounds="5")], killed),
    "growth": Part(
        [sized("operators.py", families="count,latest", sizes="10000,100000", batches="2")],
        [
            sized("operators.py", families="count,latest", sizes="100000,1000000,10000000"),
            sized("peers/merge_growth.py", sizes="100000 1000000 10000000"),
        ],
        growth,
    ),
    "rebuild": Part(
        [sized("rebuild.py", rows="200000", distances="1", reads="1")],
        [
            sized("rebuild.py", rows=rows, distances="1", reads="3")
            for rows in ("1000000", "5000000", "20000000")
        ],
        rebuild,
    ),
    "versions": Part(
        [sized("time_travel.py", rows="80000", ticks="8", reads="1")],
        [sized("time_travel.py", rows="400000", ticks="8", reads="3")],
        versions,
    ),
    "many": Part(
        [sized("many_tables.py", tables="1 10", batches="2")],
        [sized("many_tables.py", tables="1 10 50", batches="5")],
        many_tables,
    ),
}  # fmt: skip


def measure(name: str, *, full: bool) -> tuple[list[Table], list[Figure]]:
    """Run a part; return its tables and its figures, the largest memory among them. Raises PeerFailed."""
    part, tables, largest = PARTS[name], [], 0.0
    for script, *options in part.full if full else part.quick:
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            command = [sys.executable, str(BENCHMARKS / script), *options]
            printed, _, memory = watched(command, {"LAKEHOUSE_BENCHMARK_JSON": file.name, "COLUMNS": "160"})
            print(printed, flush=True)
            found = [json.loads(line) for line in Path(file.name).read_text().splitlines()]
        if not found:
            raise PeerFailed(f"{script} told nothing")
        tables += found
        largest = max(largest, memory if script.count("/") == 0 else 0.0)
    return tables, [*part.figures(tables), Figure(name, "memory of the whole job", largest, "GB", 3.0)]
