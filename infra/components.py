"""The list of components, and what is known against them. Standard library only.

    python infra/components.py list     writes infra/components.json (CycloneDX) from the locks; a test keeps it equal
    python infra/components.py audit    asks OSV about each of them

The audit ends with 0 when every component was asked about and nothing is known, 1 with what is known, and 2 where it
could not check all of them: no answer is never "nothing known".
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

INFRA = Path(__file__).resolve().parent
SETUP = INFRA.parent / "lakehouse" / "setup"
LOCKS = {
    "lakehouse": INFRA / "python" / "requirements.lock",
    "airflow": SETUP / "airflow.lock",
    "docs": INFRA / "docs" / "requirements.lock",
    "ui": INFRA / "ui" / "requirements.lock",
}
CHECKSUMS = SETUP / "checksums.txt"
PLOT = INFRA.parent / "plugins" / "lakehouse_page" / "static" / "vendor" / "uPlot.esm.js"
LIST = INFRA / "components.json"
OSV = os.environ.get("OSV_URL", "https://api.osv.dev")
TIMEOUT_SECONDS = 30.0

PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class NotChecked(Exception):
    """The audit could not ask about all components."""


def components() -> list[dict[str, Any]]:
    """Return every component of the locks, the jars and the page, each once for each place that uses it."""
    found = [*_python(), *_jars(), _plot()]
    return sorted(found, key=lambda one: (one["purl"], one["properties"][0]["value"]))


def rendered() -> str:
    """Return the list as infra/components.json has it: no time and no number of its own, so equal locks give it."""
    version = re.search(r'^version = "([^"]+)"', (INFRA.parent / "pyproject.toml").read_text(), re.MULTILINE)
    about = {"type": "application", "name": "lakehouse", "version": version[1] if version else "0"}
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": about}}
    lines = ",\n".join(json.dumps(one) for one in components())  # a line each: so a change is a line
    return f'{json.dumps(head)[:-1]}, "components": [\n{lines}\n]}}\n'


def audit() -> list[str]:
    """Return what OSV knows against the listed components, a line each. Raises NotChecked."""
    if LIST.read_text() != rendered():
        raise NotChecked(f"{LIST.name} is not what the locks say; expected the same. Run make components.")
    purls = sorted({one["purl"] for one in json.loads(LIST.read_text())["components"]})
    body = json.dumps({"queries": [{"package": {"purl": purl}} for purl in purls]}).encode()
    request = urllib.request.Request(f"{OSV}/v1/querybatch", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            said = json.load(answer)
        results = [[str(known["id"]) for known in one.get("vulns") or ()] for one in said["results"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotChecked(f"{OSV} gave no answer that can be used ({type(error).__name__}: {error}).") from error
    if len(results) != len(purls):
        raise NotChecked(f"{OSV} answered for {len(results)} components; expected {len(purls)}.")
    if not purls:
        raise NotChecked(f"{LIST.name} lists nothing.")
    return [f"{purl}: {', '.join(known)}" for purl, known in zip(purls, results, strict=True) if known]


def _python() -> Iterator[dict[str, Any]]:
    for used_by, lock in LOCKS.items():
        text = re.sub(r"\\\n", " ", lock.read_text())
        for line in text.splitlines():
            if (pinned := PINNED.match(line)) is not None:
                name = re.sub(r"[-_.]+", "-", pinned[1]).lower()
                yield _component(name, pinned[2], f"pkg:pypi/{name}@{pinned[2]}", used_by, HASH.findall(line))


def _jars() -> Iterator[dict[str, Any]]:
    for line in CHECKSUMS.read_text().splitlines()[1:]:
        checksum, place, owner = line.split()
        kind, _, file = place.partition("/")
        group, _, name = owner.partition(":")
        version = re.sub(r"(\.jar|-all\.tar\.gz)$", "", file.removeprefix(f"{name}-"))
        yield _component(name, version, f"pkg:maven/{group}/{name}@{version}", f"jars/{kind}", [checksum])


def _plot() -> dict[str, Any]:
    version = re.search(r"\(v([\d.]+)\)", PLOT.read_text()[:600])
    assert version is not None, f"{PLOT}: expected its version in its head"
    return _component("uplot", version[1], f"pkg:npm/uplot@{version[1]}", "page", [])


def _component(name: str, version: str, purl: str, used_by: str, checksums: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "library", "name": name, "version": version, "purl": purl}
    if checksums:  # of a Python package one for each of its files: which one is installed depends on the machine
        found["hashes"] = [{"alg": "SHA-256", "content": one} for one in sorted(checksums)]
    return {**found, "properties": [{"name": "lakehouse:used-by", "value": used_by}]}


def main(arguments: list[str]) -> int:
    """The command line; returns the exit code."""
    if arguments == ["list"]:
        LIST.write_text(rendered())
        print(f"components: wrote {LIST.name}: {len(components())}")
        return 0
    if arguments != ["audit"]:
        print("error: expected list, or audit", file=sys.stderr)
        return 2
    try:
        known = audit()
    except NotChecked as error:
        print(
            f"error: NOT CHECKED: {error} Nothing is known of the components, good or bad. Check that this machine "
            "reaches the internet (https_proxy), or run it on one that does.",
            file=sys.stderr,
        )
        return 2
    count = len({one["purl"] for one in components()})
    if known:
        print("\n".join(known))
        print(
            f"error: something is known against {len(known)} of {count} components, see https://osv.dev",
            file=sys.stderr,
        )
        return 1
    print(f"audit: {count} components, nothing is known against them")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
