"""A running real Airflow, with an application on a real Kafka and a real lake, used through its REST API."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

# The DAGs of an application.
KINDS = (
    "backfill_interval", "backfill_range", "catch_up", "deploy", "erase", "quarantine_replay",
    "reconstruct_point_in_time", "recovery_drill", "table_maintenance",
)  # fmt: skip
# lakehouse.toml of an application that lives here.
SETTINGS = """
[lake]
path = "./lake"
[kafka]
bootstrap_servers = "{servers}"
[airflow]
port = {port}
workers = 2
"""
# Added to them: the tasks take over the Spark of the task before, each in a third of the time.
KEPT_SPARK = '[spark]\nkeep = "5 minutes"\n'
PATIENCE_S = 900.0
ENDED = ("success", "failed")
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Refused(Exception):
    """A refusal of the REST API: (status code, its answer)."""


def wait(condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S, pause_s: float = 1.0) -> Any:
    """Return the result of `condition` as soon as it is something."""
    deadline = time.monotonic() + patience_s
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(pause_s)
    return result


@dataclass
class Living:
    """The folder with the application and its settings; Airflow's address; its user."""

    folder: Path
    name: str
    url: str = ""
    bearer: str = field(default="", repr=False)

    def lakehouse(self, *arguments: str) -> str:
        """Run a command of `lakehouse` in the folder; return what it printed."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LAKEHOUSE_")}
        process = subprocess.run(
            [sys.executable, "-m", "lakehouse.cli.main", *arguments],
            cwd=self.folder, env=environ, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    @contextlib.contextmanager
    def running(self, app: str, *options: str) -> Iterator[Self]:
        """Keep Airflow up with the application meanwhile. app: its file; options: of `lakehouse airflow add`."""
        try:
            self.lakehouse("airflow", "up", "--app", app, "--name", self.name)
            self.lakehouse("airflow", "add", app, "--name", self.name, *options)
            self.sign_in()
            yield self
        finally:
            self.lakehouse("airflow", "down")

    def sign_in(self) -> None:
        """Wait for the application's DAGs, as the user admin."""
        self.url = json.loads(self.lakehouse("airflow", "status", "--json"))["url"]
        password = json.loads((self.folder / ".lakehouse" / "airflow" / "passwords.json").read_text())["admin"]
        self.bearer = self.ask("POST", "/auth/token", {"username": "admin", "password": password})["access_token"]
        wait(lambda: self.dags() == {f"{self.name}__{kind}" for kind in KINDS}, "the DAGs")

    def dags(self) -> set[str]:
        """Return the ids of the application's DAGs that Airflow has read."""
        dags = self.ask("GET", f"/api/v2/dags?dag_id_pattern={self.name}__")["dags"]
        return {dag["dag_id"] for dag in dags}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the REST API's answer. Raises Refused for 4xx."""
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {self.bearer}"} if self.bearer else {}
        )
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with _OPENER.open(request, timeout=60) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()[:2000]) from None

    def trigger(self, kind: str, **conf: Any) -> str:
        """Start a run by hand, without a logical date; return its id."""
        body = {"logical_date": None, "conf": conf}
        return str(self.ask("POST", f"/api/v2/dags/{self.name}__{kind}/dagRuns", body)["dag_run_id"])

    def pause(self, kind: str, paused: bool) -> None:
        self.ask("PATCH", f"/api/v2/dags/{self.name}__{kind}", {"is_paused": paused})

    def tasks(self, kind: str, run: str) -> dict[str, dict[str, Any]]:
        """Return a run's task instances by id, mapped ones as id/index."""
        result = self.ask("GET", f"/api/v2/dags/{self.name}__{kind}/dagRuns/{run}/taskInstances")["task_instances"]
        return {
            item["task_id"] + (f"/{item['map_index']}" if item["map_index"] >= 0 else ""): item for item in result
        }  # fmt: skip

    def state(self, kind: str, run: str) -> str:
        return str(self.ask("GET", f"/api/v2/dags/{self.name}__{kind}/dagRuns/{run}")["state"])

    def end(self, kind: str, run: str) -> dict[str, str]:
        """Wait until a run has succeeded; return the state of each task."""
        state = wait(lambda: (result := self.state(kind, run)) in ENDED and result, f"the end of {kind}")
        states = {task: of["state"] for task, of in self.tasks(kind, run).items()}
        assert state == "success", (states, self.logs(kind, run, states))
        return states

    def logs(self, kind: str, run: str, states: dict[str, str]) -> str:
        """Return the ends of the logs of the tasks that failed."""
        folder = self.folder / ".lakehouse" / "airflow" / "logs" / f"dag_id={self.name}__{kind}" / f"run_id={run}"
        failed = [task.partition("/")[0] for task, state in states.items() if state == "failed"]
        files = [path for item in failed for path in sorted(folder.glob(f"task_id={item}/**/*.log"))]
        return "\n".join(path.read_text()[-3000:] for path in files)

    def xcom(self, kind: str, run: str, task: str, key: str = "return_value", index: int = -1) -> Any:
        path = f"/api/v2/dags/{self.name}__{kind}/dagRuns/{run}/taskInstances/{task}/xcomEntries/{key}"
        return self.ask("GET", f"{path}?map_index={index}&deserialize=false")["value"]

    def approve(self, kind: str, run: str, task: str = "approve") -> str:
        """Approve at once; approve again if the answer was lost and the task asks again; return the text shown."""
        path = f"/api/v2/dags/{self.name}__{kind}/dagRuns/{run}/taskInstances/{task}/-1/hitlDetails"
        shown, asked = "", 0

        def approved() -> bool:
            nonlocal shown, asked
            state = self.tasks(kind, run)[task]["state"]
            if state == "awaiting_input":
                time.sleep(5 * asked)
                shown, asked = str(self.ask("GET", path)["body"]), asked + 1
                with contextlib.suppress(Refused):  # it was answered a moment ago
                    self.ask("PATCH", path, {"chosen_options": ["Approve"], "params_input": {}})
            assert state not in ("failed", "upstream_failed", "skipped"), state
            return bool(state == "success")

        wait(approved, "the approval", pause_s=0.2)
        return shown

    def events(self, table: str) -> list[dict[str, Any]]:
        """Return the content of the events of a table's asset, the oldest first."""
        result = self.ask("GET", "/api/v2/assets/events?order_by=timestamp&limit=100")["asset_events"]
        return [item["extra"] for item in result if item["name"] == f"{self.name}.{table}"]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """Return a table's visible rows, in order, read without Spark."""
        from lakehouse.lake import reader
        from lakehouse.lake.layout import Layout

        result = reader.query_lake(Layout(str(self.folder / "lake")), f'SELECT * FROM "{table}" ORDER BY 1').fetchall()
        return [tuple(row) for row in result]
