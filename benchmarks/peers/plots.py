"""Plots of what `run.py` and `soak.py` measured, as SVG.

    .venv/bin/python benchmarks/peers/plots.py [--figures FILE] [--soak FILE] [--to FOLDER]

Throughput of each peer, freshness, growth, and the soak: those whose figures are there. Needs matplotlib, which the
extra `demo` brings.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
# The same figures give the same file.
mpl.rcParams |= {"svg.hashsalt": "lakehouse", "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True}
mpl.rcParams |= {"grid.alpha": 0.3, "axes.axisbelow": True, "figure.constrained_layout.use": True}
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.ticker import LogLocator  # noqa: E402

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from figures import batch_seconds, cell, drift  # noqa: E402

OURS, OURS_TOO = "#1f6f8b", "#7fb7c9"
COLORS = {
    "lakehouse": OURS, "recipe": "#8d969e", "recipe, tuned": "#b0b7bd", "Kafka Streams": "#d9a45b",
    "Quix Streams": "#7c9a5e", "delta-rs": "#b5651d",
}  # fmt: skip


def save(name: str, to: Path, said: str) -> None:
    to.mkdir(parents=True, exist_ok=True)
    plt.gcf().text(0.99, -0.01, said, ha="right", va="top", fontsize=7, color="#777777")
    plt.savefig(to / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close()


def throughput(found: dict[str, Any], to: Path, said: str) -> None:
    """Records a second from the command to the last commit, of each peer; lines: the rounds."""
    runs = found["catch_up"]
    if not runs:
        return
    _, places = plt.subplots(1, len(runs), figsize=(5 * len(runs), 3.2), squeeze=False)
    for place, (records, peers) in zip(places[0], runs.items(), strict=True):
        names = list(peers)[::-1]
        for at, name in enumerate(names):
            rates = [int(records) / each["seconds"] / 1000 for each in peers[name]]
            middle = statistics.median(rates)
            spread = [[middle - min(rates)], [max(rates) - middle]]
            place.barh(at, middle, xerr=spread, color=COLORS[name], ecolor="#555555", capsize=2)
            place.text(max(rates), at, f" {middle:.1f}", va="center", fontsize=8)
        place.set_yticks(range(len(names)), names)
        place.set_xlabel("thousand records a second")
        place.set_title(f"catch-up of {int(records):,} records, from a cold start")
        place.margins(x=0.12)
        place.grid(axis="y", visible=False)
    save("throughput", to, said)


def freshness(found: dict[str, Any], to: Path, said: str) -> None:
    """p50 and p99 of bronze and of a table, of lakehouse and of the recipe, on one logarithmic axis."""
    tables = found["parts"].get("freshness")
    if not tables:
        return
    names = ["lakehouse", *(table["title"].split(":")[0] for table in tables[1:])]
    places = [row[0] for row in tables[0]["rows"]]
    plt.figure(figsize=(6.5, 3.2))
    for number, (name, table) in enumerate(zip(names, tables, strict=True)):
        for at, place in enumerate(places):
            middle, most = (cell([table], place, f"{p} (s)") for p in ("p50", "p99"))
            x = at + (number - (len(names) - 1) / 2) * 0.25
            plt.bar(x, middle, 0.22, color=COLORS[name], label=name if at == 0 else None)
            plt.plot([x, x], [middle, most], color="#333333")
            plt.plot([x - 0.06, x + 0.06], [most, most], color="#333333")
            plt.text(x, most, f"{middle:.1f}\n{most:.1f}", ha="center", va="bottom", fontsize=7)
    plt.xticks(range(len(places)), places)
    plt.yscale("log")
    plt.gca().yaxis.set_major_formatter("{x:g}")
    plt.margins(y=0.15)
    plt.ylabel("seconds until readable")
    plt.title("freshness: bars p50, lines to p99")
    plt.grid(axis="x", visible=False)
    plt.legend(frameon=False, ncols=len(names), loc="upper center", bbox_to_anchor=(0.5, -0.1))
    save("freshness", to, said)


def growth(found: dict[str, Any], to: Path, said: str) -> None:
    """Seconds of a batch by the rows of its table, log to log."""
    tables = found["parts"].get("growth")
    if not tables:
        return
    ours = [table for table in tables if "family" in table["columns"]]
    theirs = [{**table, "columns": ["family", *table["columns"][1:]]} for table in tables if table not in ours]
    _, places = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    for place, keys in zip(places, ("local", "random"), strict=True):
        for number, (family, points) in enumerate(batch_seconds(ours, keys).items()):
            shade = (OURS, OURS_TOO)[number % 2]
            place.loglog(list(points), list(points.values()), "o-", color=shade, label=f"lakehouse, {family}")
        for name, points in batch_seconds(theirs, keys).items():
            place.loglog(list(points), list(points.values()), "s:", color=COLORS[name], label=f"{name}, merge alone")
        place.set_title(f"a batch of 1,000 records, {keys} keys")
        place.set_xlabel("rows of the table")
    places[0].set_ylabel("seconds")
    places[0].legend(frameon=False, fontsize=8)
    for place in places:
        place.yaxis.set_major_formatter("{x:g}")
        place.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        place.yaxis.set_minor_formatter("{x:g}")
    save("growth", to, said)


def soak(found: dict[str, Any], to: Path, said: str) -> None:
    """What a soak saw over time, with its slopes."""
    samples = found["samples"]
    _, places = plt.subplots(2, 4, figsize=(14, 5), sharex=True)
    for place, (name, label) in zip(places.flat, found["what"].items(), strict=False):
        points = [(each["seconds"] / 3600, each[name]) for each in samples if each.get(name) is not None]
        place.plot([hours * 60 for hours, _ in points], [value for _, value in points], ".", color=OURS, ms=3)
        late = [point for point in points if point[0] * 3600 >= found["warm"]]
        place.set_title(f"{label}: {drift(late):+.3g} an hour", fontsize=9)
        place.set_ylim(bottom=0)
    for place in places[-1]:
        place.set_xlabel("minutes")
    save("soak", to, said)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    build = HERE.parent.parent / "build" / "peers"
    arguments.add_argument("--figures", type=Path, default=build / "figures.json")
    arguments.add_argument("--soak", type=Path, default=build / "soak.json")
    arguments.add_argument("--to", type=Path, default=HERE.parent / "plots")
    chosen = arguments.parse_args()
    if chosen.figures.exists():
        found = json.loads(chosen.figures.read_text())
        made = found["measured"]
        throughput(found, chosen.to, made.get(next(reversed(found["catch_up"]), ""), ""))
        freshness(found, chosen.to, made.get("freshness", ""))
        growth(found, chosen.to, made.get("growth", ""))
    if chosen.soak.exists():
        found = json.loads(chosen.soak.read_text())
        soak(found, chosen.to, f"{found['when']}, {found['machine']}")


if __name__ == "__main__":
    main()
