"""A folder with settings and an application, and `lakehouse airflow` in it, for the tests on a real Airflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.airflow import members
from lakehouse.process import find_free_port

SETTINGS = (
    '[airflow]\nport = {port}\nworkers = 1\nusers = {{ admin = "admin", otto = "op", uma = "user", vera = "viewer" }}\n'
)
APP = """
import lakehouse as lh

orders = lh.stream("orders", key="customer string", format="json", schema="amount double")
app = lh.app(orders.latest("last_order"))
"""


@dataclass(frozen=True)
class Project:
    """The folder, and the port for its Airflow."""

    folder: Path
    port: int

    @classmethod
    def make(cls, folder: Path, port: int | None = None, more: str = "") -> Project:
        """Write the files. `more`: further settings of the section."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder, port or find_free_port())
        (folder / "lakehouse.toml").write_text(SETTINGS.format(port=made.port) + more)
        (folder / "app.py").write_text(APP)
        return made

    @property
    def home(self) -> Path:
        return self.folder / ".lakehouse" / "airflow"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self, *arguments: str) -> tuple[int, str]:
        """A command's exit code and what it printed."""
        command = [sys.executable, "-m", "lakehouse.cli.main", "airflow", *arguments]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LAKEHOUSE_")}
        environ["LAKEHOUSE_CATCH_UP"] = "tests/airflow"  # where the generic DAG may take applications from
        process = subprocess.run(
            command, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=400, check=False
        )
        return process.returncode, process.stdout or process.stderr

    def json(self, *arguments: str) -> dict[str, Any]:
        """A command's output for programs."""
        return dict(json.loads(self.run(*arguments, "--json")[1]))

    def password(self, user: str) -> str:
        """A generated password."""
        return str(json.loads((self.home / "passwords.json").read_text())[user])

    def down(self) -> None:
        """End it, even if a test found that ending it fails."""
        self.run("down")
        members.sweep_processes(self.home, None, 5.0)
