"""Erase one plane of 4,043 out of the year of flights that `lakehouse demo` made: plan, run, verify.

    .venv/bin/lakehouse demo && .venv/bin/python benchmarks/erase.py [--demo demo-lake] [--plane N14228]

A copy of the demo's folder is used. All rows of other planes must be what they were.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import show

TABLES = ("location", "visits", "airborne", "planes")
STREAMS = ("flights", "airborne", "planes")
LAKEHOUSE = (sys.executable, "-c", "import sys; from lakehouse.cli.main import main; sys.exit(main(sys.argv[1:]))")


def call(folder: Path, *arguments: str) -> tuple[float, list[dict[str, Any]]]:
    """Run a command in a folder; return its seconds, and the objects that it prints."""
    began = time.monotonic()
    done = subprocess.run([*LAKEHOUSE, *arguments, "--json"], cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return seconds, [json.loads(line) for line in done.stdout.splitlines()]


def other_rows(folder: Path, plane: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all other planes, by table."""
    select = "SELECT * FROM {} WHERE tailnum <> '{}' ORDER BY tailnum"
    return {name: call(folder, "query", select.format(name, plane))[1] for name in TABLES}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--demo", type=Path, default=Path("demo-lake"))
    arguments.add_argument("--plane", default="N14228")
    given = arguments.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-benchmark-")) / "demo"
    try:
        shutil.copytree(given.demo, folder)
        before = other_rows(folder, given.plane)
        erase = ("repair", "erase", *(f"--key={stream}={given.plane}" for stream in STREAMS))
        planned, (plan,) = call(folder, *erase, "--plan")
        erased, lines = call(folder, *erase, "--why=a benchmark")
        verified, _ = call(folder, *erase, "--verify")
        audited = 0.0
        for name in TABLES:
            seconds, audits = call(folder, "test", "audit", name, "--deep")
            audited += seconds
            if not audits[0]["ok"]:
                raise SystemExit(f"the audit of {name} found {audits[0]['problems']}")
        if other_rows(folder, given.plane) != before:
            raise SystemExit("rows of other planes have changed")
        search = lines[-1]["searches"][-1]
        show(
            f"erasure of plane {given.plane}: {sum(plan['records'].values()):,} of 995,965 records, 4 tables; "
            f"{search['files']:,} files, {search['bytes'] / 1e6:,.1f} MB searched",
            ["part", "seconds"],
            [
                ["plan", f"{planned:.1f}"],
                ["erase, publish, remove the past, search", f"{erased:.1f}"],
                ["search again", f"{verified:.1f}"],
                ["deep audits of 4 tables", f"{audited:.1f}"],
            ],
        )
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)


if __name__ == "__main__":
    main()
