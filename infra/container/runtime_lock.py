"""Print the part of infra/python/requirements.lock that lakehouse needs, without its extras demo and dev.

The extras registry and protobuf are in it: what the registry's client needs is asked for by confluent-kafka in the
lock.

    python infra/container/runtime_lock.py > build/image/requirements.lock

pip-compile writes below each package what asks for it ("# via"); from what pyproject.toml asks for, these lead to the
rest. Standard library only.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
LOCK = PROJECT / "infra" / "python" / "requirements.lock"
ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==.*\n(?:[ ].*\n)+", re.MULTILINE)
ASKER = re.compile(r"^ +#(?: via|  ) +([A-Za-z0-9._-]+)$", re.MULTILINE)


def runtime_lock() -> str:
    """Return the entries of the lock, as they are, for what lakehouse and its extras registry and protobuf need."""
    entries = {plain(entry["name"]): entry[0] for entry in ENTRY.finditer(LOCK.read_text())}
    askers = {name: set(map(plain, ASKER.findall(text))) for name, text in entries.items()}
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    dependencies = [*project["dependencies"], *extras["registry"], *extras["protobuf"]]
    wanted = {plain(re.split(r"[^\w.-]", dependency)[0]) for dependency in dependencies}
    while more := {name for name in entries if askers[name] & wanted} - wanted:
        wanted |= more
    return "".join(text for name, text in entries.items() if name in wanted)


def plain(name: str) -> str:
    """Return a distribution's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    print(runtime_lock(), end="")
