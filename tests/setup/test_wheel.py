"""The built wheel, installed elsewhere by pip, runs the README's example from an empty folder.

a copy of the sources -> pip wheel -> a virtual environment with pip install, and nothing of this checkout
`lakehouse setup`     the jars, into a cache of its own (already fetched ones are put where Ivy looks first)
README, "An application": its app.py, its records and its lines, on the embedded broker
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.setup import places

PROJECT = Path(__file__).parents[2]
MINUTES = 60
# What takes the time is pip, in the fixture of whichever test is the first.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(30 * MINUTES)]
TOLD = "error: Found no kafka jars in {}/kafka; they are fetched once. Run `lakehouse setup`.\n"


class Elsewhere:
    """A folder of one's own, and the commands of an environment that pip made."""

    def __init__(self, root: Path) -> None:
        self.folder, self.bin, self.cache = root / "mine", root / "environment" / "bin", root / "cache"
        self.folder.mkdir()
        kept = ("HOME", "JAVA_HOME", "LANG", "TMPDIR")
        self.environ = {name: os.environ[name] for name in kept if name in os.environ}
        self.environ |= {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", "LAKEHOUSE_CACHE": str(self.cache)}

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", line], cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=10 * MINUTES
        )

    def works(self, line: str) -> str:
        done = self.run(line)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = tmp_path_factory.mktemp("sources")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in listed.splitlines():
        if (PROJECT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PROJECT / name, sources / name)
    built = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(built), "."]
    subprocess.run(pip, cwd=sources, check=True)
    (made,) = built.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    root = tmp_path_factory.mktemp("elsewhere")
    subprocess.run([sys.executable, "-m", "venv", str(root / "environment")], check=True)
    pip = [str(root / "environment" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
    lock = PROJECT / "infra" / "python" / "requirements.lock"
    pins = root / "pins.txt"  # versions without hashes: only what the wheel itself asks for is installed
    pins.write_text("\n".join(re.findall(r"^[A-Za-z0-9._-]+==\S+", lock.read_text(), re.MULTILINE)))
    subprocess.run([*pip, "--constraint", str(pins), str(wheel)], check=True)
    place = Elsewhere(root)
    yield place
    place.run("lakehouse kafka down")


def test_without_the_set_up_a_command_says_what_to_run(elsewhere: Elsewhere) -> None:
    done = elsewhere.run("lakehouse kafka up")
    assert done.returncode != 0
    assert (done.stdout, done.stderr) == ("", TOLD.format(place_of_jars(elsewhere)))


def test_the_readme_s_example_runs_from_an_empty_folder(elsewhere: Elsewhere) -> None:
    target = place_of_jars(elsewhere)
    seeded = target / "ivy-cache"
    if (PROJECT / ".jars" / "ivy-cache").is_dir():  # Ivy takes from its cache what it has, and asks for the rest
        shutil.copytree(PROJECT / ".jars" / "ivy-cache", seeded)
    assert "jars: fetched in" in elsewhere.works("lakehouse setup")
    assert elsewhere.works("lakehouse setup") == f"jars: there already, and as they must be: {target}\n"
    readme = (PROJECT / "README.md").read_text()
    (elsewhere.folder / "app.py").write_text(re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0])
    (elsewhere.folder / "readings.jsonl").write_text(
        "\n".join(re.findall(r'^ {4}(\{"key": .*)$', readme, re.MULTILINE))
    )
    elsewhere.works("lakehouse kafka up")
    elsewhere.works("lakehouse kafka produce readings readings.jsonl --partitions 2")
    shown = elsewhere.works("python app.py")
    assert [re.sub(r"\s", "", line) for line in shown.splitlines() if "attic" in line or "cellar" in line] == [
        "|cellar|1|11.25|", "|attic|2|43.50|", "|attic|1|21.50|", "|cellar|1|11.25|", "|attic|2|43.50|",
    ]  # fmt: skip
    rows = json.loads(elsewhere.works('lakehouse query "SELECT * FROM last_reading" --json'))
    assert [row["sensor"] for row in rows] == ["s1"]
    assert "warm" in elsewhere.works("""lakehouse query 'SELECT "offset", reason FROM quarantine.readings'""")
    time = readme.split("\n## Time\n")[1].split("\n## ")[0]
    lines = re.findall(r"^ {4}(lakehouse .*)$", time, re.MULTILINE)
    assert len(lines) == 7
    said = {line: elsewhere.works(line) for line in lines}
    assert all("attic" in text for line, text in said.items() if re.search("diff|explain|query", line))


def test_what_airflow_needs_is_in_the_wheel(elsewhere: Elsewhere) -> None:
    """Its lock, the DAGs and the page, where `lakehouse airflow up` looks for them. Nothing of Airflow is installed."""
    code = (
        "from lakehouse.setup import places; r = places.project(); "
        "print(*sorted(p.relative_to(r) for p in r.rglob('*') if p.is_file()), places.AIRFLOW_LOCK.name, sep='\\n')"
    )
    carried = set(elsewhere.works(f'python -c "{code}"').splitlines())
    listed = subprocess.run(["git", "ls-files", "dags", "plugins", "spark_jobs"], cwd=PROJECT, capture_output=True)
    assert carried - {places.AIRFLOW_LOCK.name} == set(listed.stdout.decode().splitlines())


def place_of_jars(elsewhere: Elsewhere) -> Path:
    return Path(elsewhere.works('python -c "from lakehouse.setup import places; print(places.jars_target())"').strip())
