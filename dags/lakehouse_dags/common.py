"""The common parts of the DAGs: their arguments, and the params that depend on an application's tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, Param
from croniter import CroniterError, croniter

from lakehouse_dags import requests
from lakehouse_dags.manifest import Application, Refused

# Airflow starts the last missed run of a schedule with a start date at once. Without a start date the schedule begins
# with its next run.
START_DATE = datetime(1970, 1, 1, tzinfo=UTC)
DEFAULTS = {
    "retries": 2,
    "retry_delay": timedelta(seconds=30),
    "execution_timeout": timedelta(hours=6),
}


def dag_arguments(app: Application, kind: str, description: str, doc: str) -> dict[str, Any]:
    """Return the arguments of a DAG, except its schedule: `DAG(schedule=None, **dag(...))`."""
    return {
        "dag_id": f"{app.name}__{kind}",
        "description": f"{app.name}: {description}",
        "doc_md": doc,
        "catchup": False,
        "max_active_runs": 1,  # a second run waits for the first one, and does what is left: mostly nothing
        "default_args": DEFAULTS,
        "tags": ["lakehouse", app.name],
    }


def make_schedule(cron: str) -> CronTriggerTimetable:
    """Return a schedule whose first run is the next one: an application that was just added has no tables yet."""
    # False, the default, should mean this, but Airflow 3.3.2 reads it as None: a run missed within the last tenth of
    # the time between two runs is made up for; for a weekly schedule, one of 16 hours ago.
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=timedelta(0))


def check_schedules(app: Application) -> None:
    """Raise Refused for a schedule that Airflow can't read, which would hide all DAGs, or that never comes."""
    for field in ("schedule", "backfill_schedule"):
        if (cron := getattr(app, field)) is None:
            continue
        try:
            croniter(CronTriggerTimetable(cron, timezone="UTC").expression, datetime.now(UTC)).get_next()
        except CroniterError as error:
            raise Refused(
                f"{app.name}.json: {field} is {cron!r}, which Airflow can't use: {error}. "
                "Write it again: lakehouse airflow add."
            ) from None


def pause_arguments(schedule: str | None) -> dict[str, bool]:
    """Return the argument that keeps a DAG paused until somebody wants its default schedule."""
    return {"is_paused_upon_creation": True} if schedule is None else {}


def writer_arguments(app: Application) -> dict[str, Any]:
    """Return the arguments of a task that runs a command: the application, and a slot of its pool."""
    return {"app_facts": app.as_facts(), **({} if app.pool is None else {"pool": app.pool})}


def table_param(app: Application, *, allows_all: bool = False) -> Param:
    """Return the param "table": a table of the application. allows_all: or "all", which is the default."""
    allowed = [*([requests.ALL] if allows_all else []), *app.tables]
    default = {"default": requests.ALL} if allows_all else {"default": allowed[0]} if len(allowed) == 1 else {}
    return Param(**default, type="string", enum=allowed, title="Table")


def time_param(title: str, description: str) -> Param:
    """Return a param for a time, or null."""
    return _nullable_text_param(requests.TIME, 40, title, f"{description}; UTC unless it names a zone")


def optional_text_param(pattern: str, longest: int, title: str, description: str) -> Param:
    """Return a param for a text of a pattern, or null: the UI's form demands a text that can't be null."""
    return _nullable_text_param(pattern, longest, title, description)


def flag_param(default: bool, title: str, description: str) -> Param:
    """Return a param that is on or off."""
    return Param(default, type="boolean", title=title, description=description)


def choice_param(default: str, allowed: Sequence[str], title: str, description: str) -> Param:
    """Return a param for a choice among texts."""
    return Param(default, type="string", enum=list(allowed), title=title, description=description)


def decision_params() -> dict[str, Param]:
    """Return the params "dry_run" and "reason"."""
    return {
        "dry_run": flag_param(True, "Dry run", "only say what would change; off: a person is asked, then it is done"),
        "reason": optional_text_param(
            requests.LINE, 300, "Reason", "why; needed unless it is a dry run, and kept in the lake's interventions"
        ),
    }


def _nullable_text_param(pattern: str, longest: int, title: str, description: str) -> Param:
    return Param(
        None, type=["null", "string"], pattern=pattern, maxLength=longest, title=title, description=description
    )  # fmt: skip
