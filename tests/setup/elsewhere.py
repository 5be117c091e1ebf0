"""A folder of one's own beside an environment that has the built wheel and nothing of this checkout's code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import Distribution, distribution
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[2]
LOCK = PROJECT / "infra" / "python" / "requirements.lock"
SECONDS = 600


class Elsewhere:
    """An empty folder, and the commands of a virtual environment beside it; its cache is empty, too."""

    def __init__(self, root: Path) -> None:
        self.folder, self.environment, self.cache = root / "mine", root / "environment", root / "cache"
        self.folder.mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(self.environment)], check=True)
        kept = ("HOME", "JAVA_HOME", "LANG", "TMPDIR")
        self.environ = {name: os.environ[name] for name in kept if name in os.environ}
        path = f"{self.environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.environ |= {"PATH": path, "LAKEHOUSE_CACHE": str(self.cache)}

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", line], cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=SECONDS
        )

    def works(self, line: str) -> str:
        process = self.run(line)
        assert process.returncode == 0, f"{line}\n{process.stdout}\n{process.stderr}"
        return process.stdout

    def jars(self) -> Path:
        code = "from lakehouse.setup import places; print(places.jars_target())"
        return Path(self.works(f'python -c "{code}"').strip())


def built(folder: Path) -> Path:
    """Build the wheel from a copy of the sources, below an empty folder; return its path."""
    sources = folder / "sources"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in listed.splitlines():
        if (PROJECT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PROJECT / name, sources / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder), "."]
    subprocess.run(pip, cwd=sources, check=True)
    (made,) = folder.glob("*.whl")
    return made


def pip_install(place: Elsewhere, wheel: Path) -> None:
    """Install the wheel as a user does; pip takes what it asks for from its index, in the lock's versions."""
    pins = place.environment / "pins.txt"  # without hashes: only what the wheel itself asks for is installed
    pins.write_text("\n".join(re.findall(r"^[A-Za-z0-9._-]+==\S+", LOCK.read_text(), re.MULTILINE)))
    place.works(f"python -m pip install --quiet --no-compile --constraint {pins} {wheel}")


def linked_install(place: Elsewhere, wheel: Path) -> None:
    """Install the wheel beside links to what it asks for."""
    link_packages(place)
    place.works(f"python -m pip install --quiet --no-compile --no-deps {wheel}")


def link_packages(place: Elsewhere) -> None:
    """Give the environment links to what lakehouse asks for: pip would write 1 GB, which takes two minutes."""
    site = Path(sysconfig.get_path("purelib", vars={"base": str(place.environment)}))
    for needed in needs(distribution("lakehouse")).values():
        for file in needed.files or ():
            if ".." not in file.parts:
                _link(Path(str(needed.locate_file(file))), site / file)


def needs(top: Distribution, known: dict[str, Distribution] | None = None, extra: str = "") -> dict[str, Distribution]:
    """Return what a distribution needs, without extras or with one of its own, and what those need.

    By name as pip compares names.
    """
    known = {} if known is None else known
    for line in top.requires or ():
        requirement = Requirement(line)
        name = plain(requirement.name)
        if name not in known and (requirement.marker is None or requirement.marker.evaluate({"extra": extra})):
            known[name] = distribution(name)
            needs(known[name], known)
    return known


def plain(name: str) -> str:
    """Return a distribution's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _link(file: Path, to: Path) -> None:
    """Link a file, and what Python has compiled it to."""
    to.parent.mkdir(parents=True, exist_ok=True)
    if not to.exists():
        os.link(file, to)
    if file.suffix == ".py" and (compiled := Path(cache_from_source(str(file)))).exists():
        _link(compiled, Path(cache_from_source(str(to))))
