"""Requests to a running Airflow over its REST API: its health, its DAGs, and the files that it can't import."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakehouse.errors import AirflowError

TIMEOUT_SECONDS = 15.0  # the first request of a kind takes seconds on a busy machine
HEALTHY = "healthy"
# The health report's names for the processes, and ours.
COMPONENTS = {"scheduler": "scheduler", "triggerer": "triggerer", "dag_processor": "dag-processor"}
# No proxy, even if the environment names one: this is a server on this machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Health:
    """By part: "healthy", or another state. `database` likewise."""

    database: str
    parts: dict[str, str]

    @property
    def is_healthy(self) -> bool:
        return self.database == HEALTHY and all(state == HEALTHY for state in self.parts.values())


def ask_health(url: str, since: float = 0.0) -> Health | None:
    """Return the health of the parts of the Airflow at `url`; None when it does not answer.

    A part whose last heartbeat is older than `since` (seconds since 1970) is "starting": Airflow counts a killed part's
    heartbeat for half a minute.
    """
    try:
        health_report = _request_json(f"{url}/api/v2/monitor/health")
    except AirflowError:
        return None
    part_states = {"api-server": HEALTHY}
    for name, part_name in COMPONENTS.items():
        component_report = health_report.get(name) or {}
        last_heartbeat = component_report.get(f"latest_{name}_heartbeat")
        is_fresh = last_heartbeat is not None and datetime.fromisoformat(last_heartbeat).timestamp() >= since
        part_states[part_name] = (
            str(component_report.get("status") or "starting") if is_fresh or last_heartbeat is None else "starting"
        )
    return Health(str((health_report.get("metadatabase") or {}).get("status")), part_states)


def sign_in(url: str, user: str, password: str) -> str:
    """Sign in and return a token. Raises AirflowError when Airflow refuses, or nothing answers."""
    token_answer = _request_json(f"{url}/auth/token", body={"username": user, "password": password})
    return str(token_answer.get("access_token"))


@dataclass(frozen=True)
class Dags:
    """The number of DAGs that Airflow has read, and its import errors by file: the last line of each trace."""

    count: int
    import_errors: dict[str, str]


def ask_dags(url: str, bearer: str) -> Dags:
    """Return the DAGs and import errors. Raises AirflowError when Airflow does not answer."""
    dag_count = _request_json(f"{url}/api/v2/dags?limit=1", bearer).get("total_entries", 0)
    import_errors = _request_json(f"{url}/api/v2/importErrors?limit=100", bearer).get("import_errors", [])
    last_lines = {
        str(import_error.get("filename")): str(import_error.get("stack_trace")).strip().splitlines()[-1:]
        for import_error in import_errors
    }
    return Dags(int(dag_count), {file: "".join(line) for file, line in last_lines.items()})


def make_pool(url: str, bearer: str, name: str, slots: int, description: str) -> None:
    """Create a pool, unless there is one of that name, whose slots stay as they are. Raises AirflowError."""
    pool_entries = _request_json(f"{url}/api/v2/pools?limit=1000", bearer).get("pools", [])
    if name not in [pool_entry.get("name") for pool_entry in pool_entries]:
        request_body = {"name": name, "slots": slots, "description": description, "include_deferred": False}
        _request_json(f"{url}/api/v2/pools", bearer, request_body)


def _request_json(url: str, bearer: str | None = None, body: dict[str, Any] | None = None) -> dict[str, Any]:
    request_headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {bearer}"} if bearer else {})
    request = urllib.request.Request(
        url, data=json.dumps(body).encode() if body is not None else None, headers=request_headers
    )
    try:
        with _OPENER.open(request, timeout=TIMEOUT_SECONDS) as http_answer:
            json_answer = json.load(http_answer)
    except urllib.error.HTTPError as error:
        raise AirflowError(f"Airflow at {url} answered {error.code} {error.reason}; expected 200.") from None
    except (OSError, ValueError) as error:
        raise AirflowError(f"Airflow at {url} can't be asked: {error}.") from None
    if not isinstance(json_answer, dict):
        raise AirflowError(f"Airflow at {url} answered {type(json_answer).__name__}; expected a JSON object.")
    return json_answer
