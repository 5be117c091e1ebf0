"""A real Airflow for the tests: its own environment, its own home, one SQLite database, no examples.

The tests run in the project's environment and never import Airflow; they start its Python.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).with_name("airflow_driver.py")
SERVER = Path(__file__).with_name("airflow_server.py")
# As the bundle does: helpers of the DAGs that need no Airflow are tested in the project's own environment.
sys.path.append(str(ROOT / "dags"))


@dataclass(frozen=True)
class Airflow:
    """Airflow's Python, with the environment that it needs, and a process of `airflow_server.py`."""

    python: Path
    environ: dict[str, str]
    server: subprocess.Popen[str]

    def start(self, out: Path, command: str, argument: Any = None, **environ: str) -> subprocess.Popen[str]:
        """Start a command of `airflow_driver.py`; its findings are in `out` when it has ended."""
        return subprocess.Popen(
            [str(self.python), str(DRIVER), str(out), command, json.dumps(argument)],
            env={**self.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ask(self, folder: Path, command: str, argument: Any = None, **environ: str) -> dict[str, Any]:
        """Run a command of `airflow_driver.py` and return its findings, with its log under "log"."""
        out, log = folder / f"{command}.json", folder / f"{command}.log"
        order = {"out": str(out), "log": str(log), "command": command, "argument": argument, "environ": environ}
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        assert self.server.stdout.readline() == "0\n", log.read_text()
        return {**json.loads(out.read_text()), "log": log.read_text()}


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    subprocess.run([sys.executable, "-m", "lakehouse.setup.airflow"], cwd=ROOT, check=True)
    bin_folder = ROOT / ".venv-airflow" / "bin"
    home = tmp_path_factory.mktemp("airflow-home")
    environ = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "HOME": str(home),
        "PATH": os.pathsep.join([str(bin_folder), os.environ.get("PATH", os.defpath)]),
        **{name: os.environ[name] for name in ("JAVA_HOME", "LANG", "TMPDIR") if name in os.environ},
    }
    command = [str(bin_folder / "python"), str(SERVER)]
    with (
        (home / "server.log").open("w") as log,
        subprocess.Popen(
            command, env=environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as server,
    ):
        made = Airflow(bin_folder / "python", environ, server)
        made.ask(home, "migrate")
        yield made


MANIFEST = {
    "version": 1, "name": "shop", "app": "/srv/shop/app.py", "config": "/srv/shop/lakehouse.toml",
    "lake": "/srv/shop/lake", "topics": ["orders"], "streams": ["orders"],
    "tables": [
        {"name": "current_orders", "key": ["order_id"], "windowed": False, "source_topics": ["orders"]},
        {"name": "totals", "key": ["customer"], "windowed": False, "source_topics": ["orders"]},
    ],
    "sinks": [{"table": "totals", "topic": "totals-changelog"}], "lineage": {"nodes": [], "edges": []},
    "schedule": None, "backfill_schedule": None, "freshness_minutes": None,
}  # fmt: skip


@pytest.fixture
def manifest(tmp_path: Path) -> Callable[..., Path]:
    """Write a manifest: manifest(name="bank", schedule="@hourly"); the folder is the file's parent."""

    def write(**fields: Any) -> Path:
        data = {**MANIFEST, **fields}
        path = tmp_path / "applications" / f"{data['name']}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(data))
        return path

    return write


@pytest.fixture
def is_running() -> Callable[[int], bool]:
    """Whether a process runs; a zombie, which only waits for its parent, doesn't."""

    def look(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    return look
