"""The operator that runs one command of `lakehouse`, and its link to the table's page."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from airflow.sdk import BaseOperator, BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from lakehouse_dags import commands, decisions
from lakehouse_dags.requests import BadRequest, split_request
from lakehouse_jobs import Job, JobFailed, JobHeld, JobRefused, job_environment, project_locations

REQUEST_TASK = "check_request"
APPROVAL_TASK = "approve"
APPROVED_KEY = "approved"  # of its results
LEASE_PAUSE = timedelta(seconds=30)
LEASE_WAIT = timedelta(hours=2)
STATE_KEY = "progress"
HELD_KEY = "held_since"
AGAIN = "Nothing was done. Clear check_request and all tasks after it, or start a new run."
STATE_PAUSE_SECONDS = 2.0


class TableLink(BaseOperatorLink):
    """A link to the page of the table that a task worked on; known once the task has run."""

    name = "Streams & Tables"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the page's address, below Airflow's own."""
        app_facts, table = getattr(operator, "app_facts", {}), getattr(operator, "shown_table", None)
        query = {"app": app_facts.get("name", ""), **({} if table is None else {"table": table})}
        return f"/lakehouse/?{urlencode(query)}"


class LakehouseOperator(BaseOperator):
    """Runs one command of `lakehouse` for an application, as a process of its own that ends with the task.

    app_facts: `Application.as_facts()`. command: a name in `commands.COMMANDS`. request: the command's request; if left
    out, it comes from the run's params. A mapped task gets its request from another task; it must be a part of the
    request in the params. is_approved: the command gets what a person approved, such as a "digest", and refuses to do
    anything else.

    Returns the command's result, with "event": "done". Its lines go to the log, its progress also to the task's state
    (key "progress"). Bad input (exit code 2), and a result that another try would only repeat, fail at once; other
    failures are tried again. The task waits without a worker for a table that another process holds (exit code
    3): after `lease_wait` it fails, or is skipped if `skip_if_held`, and the wait costs no try.
    """

    template_fields = ()  # nothing here is a template: braces in a reason, or in a path, stay braces
    ui_color = "#d6eaf8"
    operator_extra_links = (TableLink(),)

    def __init__(
        self,
        *,
        app_facts: dict[str, str | None],
        command: str,
        request: dict[str, Any] | None = None,
        is_approved: bool = False,
        lease_wait: timedelta = LEASE_WAIT,
        skip_if_held: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.app_facts = app_facts
        self.command = command
        self.request = request
        self.is_approved = is_approved
        self.lease_wait = lease_wait
        self.skip_if_held = skip_if_held
        self.shown_table: str | None = None
        self._running: Job | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the command. Raises AirflowFailException if a retry can't help; defers while a table is held."""
        context["task_state_store"].delete(HELD_KEY)  # from an earlier try, or from before the task was cleared
        return self._run(context)

    def execute_again(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Run the command after a pause, which it needed because another process held a table."""
        return self._run(context)

    def _run(self, context: Context) -> dict[str, Any]:
        request = self._find_request(context)
        self.shown_table = request.get("table") or request.get("target")
        summary = commands.summary_of(self.command)
        try:
            _, python = project_locations()
            argv = commands.command_argv(python, self.app_facts, self.command, request)
            folder = commands.command_folder(self.app_facts)
            if not folder.is_dir():
                raise AirflowFailException(f"{folder}: no such folder, where the application's settings should be")
            self.log.info("in %s: %s", folder, commands.shown_argv(argv))
            self._running = Job(
                argv, cwd=folder, environ={**job_environment(python), **decider_variables(context)},
                name=f"lakehouse {self.command}", is_command=True,
            )  # fmt: skip
            self._run_job(self._running, request, _make_progress_writer(context), summary)
        except (JobRefused, BadRequest) as refused:
            raise AirflowFailException(str(refused)) from refused
        except JobHeld as held:
            self._defer_while_held(context, held)
        except JobFailed as failed:
            if (fault := commands.describe_fault(self.command, summary.last)) is not None:
                raise AirflowFailException(f"lakehouse {self.command}: {fault}. The log has it all.") from failed
            if not commands.is_enough(self.command, summary.last):
                raise
        fault = commands.describe_missing(self.command, summary.last) or commands.describe_fault(
            self.command, summary.last
        )
        if fault is not None:
            raise AirflowFailException(f"lakehouse {self.command}: {fault}. The log has it all.")
        return commands.task_result(summary)

    def _run_job(
        self, job: Job, request: dict[str, Any], on_event: Callable[[dict[str, Any]], None], summary: commands.Summary
    ) -> None:
        """Run the command's process; its lines, and its errors, name nobody whose records are erased."""

        def hide(text: str) -> str:
            return commands.hide_personal(self.command, request, text)

        def pass_on(event: dict[str, Any]) -> None:
            on_event({name: hide(value) if isinstance(value, str) else value for name, value in event.items()})

        try:
            job.run(lambda line: self.log.info(hide(line)), pass_on, summary.add)
        except (JobRefused, JobFailed) as error:
            if hide(str(error)) == str(error):
                raise
            raise type(error)(hide(str(error))) from None

    def _find_request(self, context: Context) -> dict[str, Any]:
        if self.is_approved:
            approved = context["ti"].xcom_pull(task_ids=APPROVAL_TASK, key=APPROVED_KEY)
            return {**self._find_own_request(context), **decisions.approved_part(approved)}
        return self._find_own_request(context)

    def _find_own_request(self, context: Context) -> dict[str, Any]:
        if self.request is None:
            return read_request(context)
        index = context["ti"].map_index
        if index is None or index < 0:
            return self.request
        parts = split_request(read_request(context))
        expected = parts[index] if index < len(parts) else "nothing"
        if self.request != expected:
            raise AirflowFailException(
                f"found the request {self.request!r:.500} at index {index}, expected {expected!r:.500}, which this "
                f"run's params ask for: the result of the previous task was changed. {AGAIN}"
            )
        return self.request

    def _defer_while_held(self, context: Context, held: JobHeld) -> None:
        store, now = context["task_state_store"], datetime.now(UTC)
        since = store.get(HELD_KEY)
        if since is None:
            since = now.isoformat()
            store.set(HELD_KEY, since)
        waited_s = (now - datetime.fromisoformat(since)).total_seconds()
        if waited_s >= self.lease_wait.total_seconds():
            message = f"{held}. The task waited for {round(waited_s)} s; a running job keeps its tables current itself."
            if self.skip_if_held:
                raise AirflowSkipException(message)
            raise AirflowFailException(f"{message} Stop it, or clear this task later.")
        from airflow.providers.standard.triggers.temporal import DateTimeTrigger

        self.log.info("%s; the next look is in %s", held, LEASE_PAUSE)
        self.defer(trigger=DateTimeTrigger(moment=now + LEASE_PAUSE), method_name="execute_again")

    def on_kill(self) -> None:
        # Airflow gives a task 5 s between SIGTERM and SIGKILL; the command's group gets 3 of them.
        if self._running is not None:
            self._running.stop()


def decider_variables(context: Context) -> dict[str, str]:
    """Return the variable that says who started the run, for the interventions; none for a scheduled run."""
    user = getattr(context.get("dag_run"), "triggering_user_name", None)
    return {"LAKEHOUSE_DECIDED_BY": f"{user} in Airflow"} if user else {}


def read_request(context: Context) -> dict[str, Any]:
    """Return the request in the run's params, checked again; nothing if the DAG has no params.

    Not the first task's result: anyone who may edit results in Airflow could put another table, or an option, there.
    Raises AirflowFailException if that differs.
    """
    if REQUEST_TASK not in context["dag"].task_ids:
        return {}
    check = context["dag"].get_task(REQUEST_TASK)
    request: dict[str, Any] = check.request(context)
    result = context["ti"].xcom_pull(task_ids=REQUEST_TASK)
    if result != request:
        is_personal = check.kind == "erase"  # its log names nobody
        found, expected = ("another request", "that") if is_personal else (f"{result!r:.500}", f"{request!r:.500},")
        raise AirflowFailException(
            f"task {REQUEST_TASK} left {found}, expected {expected} which this run's params ask for: its result was "
            f"changed, or cleared. {AGAIN}"
        )
    return request


def _make_progress_writer(context: Context) -> Callable[[dict[str, Any]], None]:
    """Return a function that writes a command's events into the task's state, at most one every few seconds."""
    store = context["task_state_store"]
    written_at = -STATE_PAUSE_SECONDS

    def write_progress(event: dict[str, Any]) -> None:
        nonlocal written_at
        if time.monotonic() < written_at + STATE_PAUSE_SECONDS:
            return
        written_at = time.monotonic()
        store.set(STATE_KEY, {**commands.make_portable(event), "at": datetime.now(UTC).isoformat(timespec="seconds")})

    return write_progress
