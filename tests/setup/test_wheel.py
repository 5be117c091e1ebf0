"""The built wheel, installed elsewhere, with nothing of this checkout.

a copy of the sources -> pip wheel -> a virtual environment with pip install
                                   -> a virtual environment with links to what pip would install there
`lakehouse setup`     the jars, into a cache of its own (already fetched ones are put where Ivy looks first)
README, "An application": its app.py, its records and its lines, on the embedded broker
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from lakehouse.setup import places
from tests.setup.elsewhere import PROJECT, Elsewhere, built, linked_install, needs, pip_install, plain

pytestmark = pytest.mark.slow
TOLD = "error: Found no kafka jars in {}/kafka; they are fetched once. Run `lakehouse setup`.\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    place = Elsewhere(tmp_path_factory.mktemp("elsewhere"))
    linked_install(place, wheel)
    yield place
    place.run("lakehouse kafka down")


def test_two_builds_of_one_commit_have_the_same_bytes(tmp_path: Path) -> None:
    """Whoever builds it, and where: each has its own folder, times and rights of files."""
    digests = []
    for folder, mask in (("one", 0o022), ("deeper/two", 0o077)):
        clone = tmp_path / folder
        subprocess.run(["git", "clone", "--quiet", str(PROJECT), str(clone)], check=True, umask=mask)
        line = ["make", "--silent", "--assume-old", ".venv/.installed", f"BIN={Path(sys.executable).parent}", "wheel"]
        subprocess.run(line, cwd=clone, check=True, umask=mask, capture_output=True)
        (wheel,) = (clone / "build" / "wheel").glob("*.whl")
        digests.append(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert digests[0] == digests[1]


def test_without_the_set_up_a_command_says_what_to_run(elsewhere: Elsewhere) -> None:
    process = elsewhere.run("lakehouse kafka up")
    assert process.returncode != 0
    assert (process.stdout, process.stderr) == ("", TOLD.format(elsewhere.jars()))


def test_what_airflow_and_the_demo_need_is_in_the_wheel(elsewhere: Elsewhere) -> None:
    """Airflow's lock, the DAGs, the page and the demo, where the commands look for them. No Airflow is installed."""
    code = (
        "from lakehouse.setup import places; r = places.project_folder(); "
        "print(*sorted(p.relative_to(r) for p in r.rglob('*') if p.is_file()), places.AIRFLOW_LOCK.name, sep='\\n')"
    )
    carried = set(elsewhere.works(f'python -c "{code}"').splitlines())
    folders = ("dags", "plugins", "spark_jobs", "examples/year_of_flights")
    listed = subprocess.run(["git", "ls-files", *folders], cwd=PROJECT, capture_output=True)
    assert carried - {places.AIRFLOW_LOCK.name} == set(listed.stdout.decode().splitlines())
    process = elsewhere.run("lakehouse demo --out picture.gif")
    assert (process.returncode, process.stdout) == (2, "")
    assert "expected a file that ends with .png, .svg, .pdf" in process.stderr


def test_the_readme_s_example_runs_from_an_empty_folder(elsewhere: Elsewhere) -> None:
    target = elsewhere.jars()
    seeded = target / "ivy-cache"
    if (PROJECT / ".jars" / "ivy-cache").is_dir():  # Ivy takes from its cache what it has, and asks for the rest
        shutil.copytree(PROJECT / ".jars" / "ivy-cache", seeded)
    assert "jars: fetched in" in elsewhere.works("lakehouse setup --no-classes")
    assert elsewhere.works("lakehouse setup --no-classes") == f"jars: there already, and as they must be: {target}\n"
    readme = (PROJECT / "README.md").read_text()
    (elsewhere.folder / "app.py").write_text(re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0])
    (elsewhere.folder / "readings.jsonl").write_text(
        "\n".join(re.findall(r'^ {4}(\{"key": .*)$', readme, re.MULTILINE))
    )
    elsewhere.works("lakehouse kafka up")
    elsewhere.works("lakehouse kafka produce readings readings.jsonl --partitions 2")
    shown = elsewhere.works("python app.py")
    assert [re.sub(r"\s", "", line) for line in shown.splitlines() if "attic" in line or "cellar" in line] == [
        "|attic|2|43.50|", "|cellar|1|11.25|", "|attic|1|21.50|", "|cellar|1|11.25|", "|attic|2|43.50|",
    ]  # fmt: skip
    rows = elsewhere.works('lakehouse query "SELECT * FROM last_reading" --json').splitlines()
    assert [json.loads(row)["sensor"] for row in rows] == ["s1"]
    assert "warm" in elsewhere.works("""lakehouse query 'SELECT "offset", reason FROM quarantine.readings'""")
    time = readme.split("\n## Time\n")[1].split("\n## ")[0]
    lines = re.findall(r"^ {4}(lakehouse .*)$", time, re.MULTILINE)
    assert len(lines) == 7
    data = {line: elsewhere.works(line) for line in lines}
    assert all("attic" in text for line, text in data.items() if re.search("diff|explain|query", line))


def test_pip_installs_it_with_what_it_asks_for(wheel: Path, tmp_path: Path) -> None:
    """The same as the links of the other tests have. It takes two minutes on an idle machine."""
    place = Elsewhere(tmp_path)
    pip_install(place, wheel)
    place.works("python -m pip check")
    installed = json.loads(place.works("python -m pip list --format json"))
    beside = {"lakehouse", "pip", "setuptools"}
    assert {plain(item["name"]) for item in installed} - beside == set(needs(distribution("lakehouse")))
    assert place.works("lakehouse --version").splitlines()[0] == f"lakehouse {distribution('lakehouse').version}"
