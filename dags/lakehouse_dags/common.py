"""The common parts of the DAGs: their arguments, and the params that are made from an application's tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, Param
from croniter import CroniterError, croniter

from lakehouse_dags import requests
from lakehouse_dags.manifest import Application, Refused

# For a schedule whose last missed run starts at once. Without it a schedule begins with its next run.
BEGUN = datetime(1970, 1, 1, tzinfo=UTC)
DEFAULTS = {
    "retries": 2,
    "retry_delay": timedelta(seconds=30),
    "execution_timeout": timedelta(hours=6),
}


def dag(app: Application, kind: str, description: str, doc: str) -> dict[str, Any]:
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


def schedule(cron: str) -> CronTriggerTimetable:
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


def waits(schedule: str | None) -> dict[str, bool]:
    """Return the argument that keeps a DAG paused until somebody wants its default schedule."""
    return {"is_paused_upon_creation": True} if schedule is None else {}


def writer(app: Application) -> dict[str, Any]:
    """Return the arguments of a task that runs a command: the application, and a slot of its pool."""
    return {"where": app.where(), **({} if app.pool is None else {"pool": app.pool})}


def table(app: Application, *, every: bool = False) -> Param:
    """Return the param "table": one of the application's; `every`: or "all", which is the default."""
    allowed = [*([requests.ALL] if every else []), *app.tables]
    more = {"default": requests.ALL} if every else {"default": allowed[0]} if len(allowed) == 1 else {}
    return Param(**more, type="string", enum=allowed, title="Table")


def time(title: str, description: str) -> Param:
    """Return a param for a time, or nothing."""
    return _nullable(requests.TIME, 40, title, f"{description}; UTC unless it names a zone")


def optional(pattern: str, longest: int, title: str, description: str) -> Param:
    """Return a param for a text of a pattern, or nothing: the UI's form asks for a text that can't be null."""
    return _nullable(pattern, longest, title, description)


def flag(default: bool, title: str, description: str) -> Param:
    """Return a param that is on or off."""
    return Param(default, type="boolean", title=title, description=description)


def choice(default: str, allowed: Sequence[str], title: str, description: str) -> Param:
    """Return a param that is one of some texts."""
    return Param(default, type="string", enum=list(allowed), title=title, description=description)


def decided() -> dict[str, Param]:
    """Return the params "dry_run" and "reason"."""
    return {
        "dry_run": flag(True, "Dry run", "only say what would change; off: a person is asked, then it is done"),
        "reason": optional(
            requests.LINE, 300, "Reason", "why; needed unless it is a dry run, and kept in the lake's interventions"
        ),
    }


def _nullable(pattern: str, longest: int, title: str, description: str) -> Param:
    return Param(
        None, type=["null", "string"], pattern=pattern, maxLength=longest, title=title, description=description
    )  # fmt: skip
