"""lakehouse beside what people would pick instead, and whatever else has a target, in one run on one machine.

    .venv/bin/python benchmarks/peers/run.py --quick     200,000 records, one round, a few parts: about 5 minutes
    .venv/bin/python benchmarks/peers/run.py --full      1 and 5 million records, three rounds, every part: hours
    .venv/bin/python benchmarks/peers/run.py [--records N ...] [--rounds N] [--peers NAME ...] [--parts NAME ...]
    .venv/bin/python benchmarks/peers/run.py --full --add --records 0 --parts growth     one part, beside earlier ones

Needs a quiet machine: the load before it began is noted. Each peer catches up with the same topic from its beginning,
in turn, in a process of its own, cold, with the same cores and heap; every second round runs backwards; medians count.
Left in --out (build/peers): figures.json, with all that was measured, and figures.md. `plots.py` draws from the first.
With --add the two keep what earlier runs left there and this one does not measure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from catching_up import PROJECT, Measured, Peer, PeerFailed, peer  # noqa: E402
from common import LOAD, machine  # noqa: E402
from figures import Figure, catch_up_figures, figures_table, medians, peers_table  # noqa: E402
from parts import PARTS, measure  # noqa: E402
from work import MEMORY, PARTITIONS, TOPIC, Records, Work  # noqa: E402

from lakehouse.kafka.embedded.broker import Broker  # noqa: E402
from lakehouse.kafka.produce import produce  # noqa: E402
from lakehouse.kafka.topics import Cluster  # noqa: E402

PEERS = ("lakehouse", "recipe", "recipe, tuned", "Kafka Streams", "Quix Streams", "delta-rs")
QUICK_PARTS = ("start", "versions", "rebuild")
WHAT_PEERS_DO_NOT = """
One table of a count and the last values of each key; every result is checked. What the others do not do:

- **the recipe**: no bad records, tombstones, late records, or positions; a batch counts twice after a kill between its
  MERGE and its checkpoint. *Tuned*: with our session's settings for small machines.
- **Kafka Streams**, **Quix Streams**: exactly once, but the count alone, in a state store of their own; no table, no
  bronze, no history.
- **delta-rs**: one Python process; no exactly-once, no bad records, no tombstones. Its two tables take turns, so its
  bronze ends shortly before silver.
"""


def catch_up(records: int, rounds: int, chosen: dict[str, Peer], failed: dict[str, str]) -> dict[str, list[Measured]]:
    """Let each peer catch up with a topic of so many records, `rounds` times; return what was measured.

    A peer that fails is taken out of `chosen`, and `failed` says why.
    """
    found: dict[str, list[Measured]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="lakehouse-peers-") as place, Broker(Path(place, "kafka")) as broker:
        given = Records(records)
        Cluster(broker.bootstrap_servers).create(TOPIC, PARTITIONS)
        produce(broker.bootstrap_servers, {}, TOPIC, given)
        for number in range(rounds):
            for name in list(chosen) if number % 2 == 0 else list(reversed(chosen)):
                with tempfile.TemporaryDirectory(prefix="peer-", dir=place) as folder:
                    work = Work(broker.bootstrap_servers, folder, records, MEMORY)
                    try:
                        took = chosen[name](work, given)
                    except PeerFailed as error:
                        failed[name] = str(error)
                        del chosen[name]
                        found.pop(name, None)
                        continue
                found[name].append(took)
                print(f"{records:,} records, round {number + 1}, {name}: {took['seconds']:.1f} s", flush=True)
    return dict(found)


def revision() -> str:
    """The commit that was measured."""
    asked = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True).stdout.strip()


def nothing() -> dict[str, Any]:
    """What figures.json holds: by records or part what was measured, and the machine and moment; before all of it."""
    return {"measured": {}, "catch_up": {}, "parts": {}, "figures": {}, "failed": {}}


def earlier(out: Path) -> dict[str, Any]:
    """What earlier runs left in figures.json; empty without one."""
    file = out / "figures.json"
    return dict(json.loads(file.read_text())) if file.exists() else nothing()


def written(found: dict[str, Any], out: Path) -> None:
    """Write figures.json and figures.md; after each part, so that a run that is stopped leaves what it has."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "figures.json").write_text(json.dumps(found, indent=1) + "\n")
    text = []
    for records, rounds in found["catch_up"].items():
        text.append(f"## Catch-up of {int(records):,} records: seconds, memory in GB\n")
        text.append(peers_table({name: medians(each) for name, each in rounds.items()}))
    figures = [Figure.of(each) for name in found["figures"].values() for each in name]
    text += [WHAT_PEERS_DO_NOT, "## Targets\n", figures_table(figures)]
    together: dict[str, list[str]] = defaultdict(list)
    for name, said in found["measured"].items():
        together[said].append(f"{int(name):,} records" if name.isdigit() else name)
    text += [f"- {', '.join(names)}: {said}" for said, names in together.items()]
    text += [f"- **{name} failed**: {said}" for name, said in found["failed"].items()]
    (out / "figures.md").write_text("\n".join(text) + "\n")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = arguments.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true")
    size.add_argument("--full", action="store_true")
    arguments.add_argument("--records", type=int, nargs="+", help="0 for no catch-up")
    arguments.add_argument("--rounds", type=int)
    arguments.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    arguments.add_argument("--parts", nargs="*", choices=list(PARTS))
    arguments.add_argument("--add", action="store_true", help="keep what earlier runs left in --out")
    arguments.add_argument("--out", type=Path, default=PROJECT / "build" / "peers")
    chosen = arguments.parse_args()
    sizes = chosen.records or ([200_000] if chosen.quick else [1_000_000, 5_000_000] if chosen.full else [1_000_000])
    rounds = chosen.rounds or (1 if chosen.quick else 3)
    parts = chosen.parts if chosen.parts is not None else QUICK_PARTS if chosen.quick else PARTS if chosen.full else ()
    if LOAD > 0.5:
        print(f"the load is {LOAD:.1f}: these figures need a machine that does nothing else", file=sys.stderr)
    found = earlier(chosen.out) if chosen.add else nothing()
    said = f"{datetime.now(UTC).isoformat(timespec='seconds')}, commit {revision()}, {machine()}"
    ready: dict[str, Peer] = {}
    for name in chosen.peers if sizes != [0] else ():
        try:
            ready[name] = peer(name, PROJECT / "build" / "peers")
            found["failed"].pop(name, None)
        except PeerFailed as failed:
            found["failed"][name] = str(failed)
    for records in filter(None, sizes):
        found["catch_up"][str(records)] = each = catch_up(records, rounds, ready, found["failed"])
        figures = catch_up_figures(records, {name: medians(one) for name, one in each.items()})
        found["figures"][str(records)] = [figure.as_json() for figure in figures]
        found["measured"][str(records)] = f"{said}, {rounds} rounds"
        written(found, chosen.out)
    for name in parts:
        try:
            tables, figures = measure(name, full=chosen.full)
        except (PeerFailed, LookupError, ValueError) as failed:
            found["failed"][name] = f"{type(failed).__name__}: {failed}"
        else:
            found["failed"].pop(name, None)
            found["parts"][name] = tables
            found["figures"][name] = [figure.as_json() for figure in figures]
            found["measured"][name] = f"{said}, {'full' if chosen.full else 'small'}"
        written(found, chosen.out)
    print((chosen.out / "figures.md").read_text())
    if found["failed"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
