"""The small tasks around the commands: the check of a request, the gate, the approval, the chunks, the asset events."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import Asset, BaseOperator, Context, TaskGroup, TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from lakehouse_dags import commands, common, decisions, requests
from lakehouse_dags.manifest import Application
from lakehouse_dags.operator import AGAIN, APPROVAL_TASK, APPROVED_KEY, REQUEST_TASK, LakehouseOperator, read_request

APPROVAL_TIME = timedelta(days=1)
ASKED_AGAIN = 3
SHOWN_KEY = "shown"  # in the state of a task, which stays when the task is cleared
FACTS_TASK = "facts"


class CheckRequest(BaseOperator):
    """The first task: refuses unknown params and contradictory ones; returns the request.

    kind: of the DAG, a name in `requests.CHECKS` or "backfill_interval". names: of its params.
    """

    template_fields = ()
    ui_color = "#fdebd0"

    def __init__(self, *, application: Application, kind: str, names: Sequence[str], **kwargs: Any) -> None:
        super().__init__(task_id=REQUEST_TASK, retries=0, **kwargs)
        self.application = application
        self.kind = kind
        self.names = list(names)

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the request. Raises AirflowFailException: a retry would get the same request."""
        return self.request(context)

    def request(self, context: Context) -> dict[str, Any]:
        """Return this run's request, from its params alone. Raises AirflowFailException."""
        app, params = self.application, dict(context["params"])
        try:
            requests.refuse_unknown(context["dag_run"].conf, self.names)
            if self.kind == "backfill_interval":
                start, end = context.get("data_interval_start"), context.get("data_interval_end")
                interval = None if start is None or end is None else (start, end)
                return requests.check_backfill_interval(app, params, interval)
            return requests.CHECKS[self.kind](app, params)
        except requests.BadRequest as bad:
            raise AirflowFailException(str(bad)) from bad


class SplitRequest(BaseOperator):
    """Returns the requests that a mapped task runs: a backfill's chunks, else one for each table."""

    template_fields = ()

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return the requests, each with its "label"."""
        return requests.split_request(read_request(context))


def map_in_turn(app: Application, command: str, requests_task: SplitRequest, *, is_approved: bool = False) -> Any:
    """Return a command's task, mapped over the requests of another task: one at a time, with their labels in the UI."""
    return LakehouseOperator.partial(
        task_id=command, command=command, is_approved=is_approved, max_active_tis_per_dag=1,
        map_index_template="{{ task.request['label'] }}", **common.writer_arguments(app),
    ).expand(request=requests_task.output)  # fmt: skip


class AllDone(BaseOperator):
    """The last task: it fails unless each request of this run has had its task. A shorter list would leave tables out.

    mapped_task: its id. Airflow skips a mapped task without requests, so this task runs after a skipped task, too.
    """

    template_fields = ()

    def __init__(self, *, mapped_task: str, **kwargs: Any) -> None:
        super().__init__(trigger_rule=TriggerRule.NONE_FAILED, retries=0, **kwargs)
        self.mapped_task = mapped_task

    def execute(self, context: Context) -> dict[str, Any]:
        """Return {"done": how many}. Raises AirflowFailException."""
        expected_count, ti = len(requests.split_request(read_request(context))), context["ti"]
        success_count = ti.get_ti_count(
            dag_id=ti.dag_id, task_ids=[self.mapped_task], run_ids=[ti.run_id], states=["success"]
        )
        if success_count != expected_count:
            raise AirflowFailException(
                f"found {success_count} tasks {self.mapped_task} that succeeded, expected {expected_count}, one for "
                "each request of this run's params: the result of the task before them was changed, or cleared. "
                f"{AGAIN}"
            )
        return {"done": success_count}


class Announce(BaseOperator):
    """Emits an asset event for a table that has changed since its last event; else Airflow skips the task.

    So it doesn't matter how often it runs: a retry, a cleared task, or a second run repeats no event.
    """

    template_fields = ()
    ui_color = "#d5f5e3"

    def __init__(self, *, asset: Asset, table: str, **kwargs: Any) -> None:
        super().__init__(inlets=[asset], outlets=[asset], **kwargs)
        self.asset = asset
        self.table = table

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the event's content: {"rows", "version", "tick", "unmet", "offsets"}."""
        request = read_request(context)
        if request.get("table", self.table) != self.table:
            raise AirflowSkipException(f"this run is about table {request['table']}")
        facts = commands.table_facts(context["ti"].xcom_pull(task_ids=FACTS_TASK), self.table)
        if facts is None:
            raise AirflowSkipException(f"table {self.table} does not exist yet")
        last_events = list(context["inlet_events"][self.asset].ascending(False).limit(1))
        if last_events and (last_events[0].extra or {}).get("tick") == facts["tick"]:
            raise AirflowSkipException(f"table {self.table} is at tick {facts['tick']}, as it was at the last event")
        context["outlet_events"][self.asset].extra = {**facts, "reason": request.get("reason", "")}
        return facts


class Compare(BaseOperator):
    """Compares the new table with the result of every way of rebuilding; fails if one differs."""

    template_fields = ()

    def execute(self, context: Context) -> dict[str, Any]:
        """Return {"hash", "rows", "ways"}; ways: how many confirmed the content."""
        checkout, proof = (context["ti"].xcom_pull(task_ids=task) for task in ("checkout", "prove"))
        hashes = commands.proof_hashes(proof)
        if set(hashes) != {checkout["hash"]}:
            raise AirflowFailException(
                f"table {checkout['table']} has the hash {checkout['hash']}, the ways of rebuilding gave {hashes}. If "
                "it was made earlier, and late records came since, make another one; otherwise compare: lakehouse past "
                "diff."
            )
        return {"hash": checkout["hash"], "rows": checkout["rows"], "ways": len(hashes)}


def table_asset(app: Application, table: str) -> Asset:
    """Return the asset of a table."""
    return Asset(name=f"{app.name}.{table}", uri=f"lakehouse://{app.name}/{table}", group="lakehouse")


def announce_tables(app: Application) -> TaskGroup:
    """Return a task for each table of the application that announces its changes."""
    with TaskGroup(group_id="tables", tooltip="an asset event for each table that changed") as group:
        for table in app.tables:
            Announce(task_id=table, asset=table_asset(app, table), table=table)
    return group


def unless_dry_run() -> ShortCircuitOperator:
    """Return the task after which a dry run does nothing."""
    return ShortCircuitOperator(
        task_id="unless_dry_run",
        python_callable=lambda **context: not read_request(context)["dry_run"],
        ignore_downstream_trigger_rules=False,
    )


def if_to_deploy() -> ShortCircuitOperator:
    """Return the task after which a dry run does nothing, nor a run that found no table with new logic."""
    return ShortCircuitOperator(
        task_id="if_to_deploy",
        python_callable=lambda **context: (
            not read_request(context)["dry_run"] and bool(context["ti"].xcom_pull(task_ids="stage")["tables"])
        ),
        ignore_downstream_trigger_rules=False,
    )


def if_to_prove() -> ShortCircuitOperator:
    """Return the task after which a run without a proof does nothing."""
    return ShortCircuitOperator(task_id="if_to_prove", python_callable=lambda **context: read_request(context)["prove"])


class Approval(ApprovalOperator):
    """Asks a person for approval. The text comes from the results of earlier tasks, not from templates.

    reviewed_task: the id of the task whose result the person judges. What was approved of it, for the command that does
    it, is this task's result APPROVED_KEY: the reviewed task may run again, after an approval or during it.
    """

    template_fields = ()

    def __init__(self, *, reviewed_task: str, **kwargs: Any) -> None:
        super().__init__(
            task_id=APPROVAL_TASK, body="", defaults=self.REJECT, response_timeout=APPROVAL_TIME,
            # Airflow 3.3.2 fails a task that is answered before its scheduler knows that the asking process has ended.
            retries=ASKED_AGAIN, retry_delay=timedelta(seconds=5), execution_timeout=None, **kwargs,
        )  # fmt: skip
        self.reviewed_task = reviewed_task

    def execute(self, context: Context) -> Any:
        """Show what would change, and wait for the answer; no answer within a day is a refusal.

        Raises AirflowFailException if the task before has left nothing to decide about, or another text than the one
        that Airflow shows: it keeps the first one of a run, also after the tasks were cleared.
        """
        request, findings = read_request(context), context["ti"].xcom_pull(task_ids=self.reviewed_task)
        if not isinstance(findings, dict):
            raise AirflowFailException(
                f"task {self.reviewed_task} left {findings!r:.200}, expected what it found: its result was "
                f"changed, or cleared. {AGAIN}"
            )
        # Request and findings stay apart: no finding, whatever its name, may take the place of a part of the request.
        self.body = decisions.describe_decision(request, self.reviewed_task, findings)
        store = context["task_state_store"]
        shown = {"body": hashlib.sha256(self.body.encode()).hexdigest(), "approved": decisions.approved_part(findings)}
        first_shown = store.get(SHOWN_KEY)
        if first_shown is None:
            store.set(SHOWN_KEY, shown)
        elif first_shown["body"] != shown["body"]:
            raise AirflowFailException(
                f"task {self.reviewed_task} has another result than the one that Airflow shows for approval: it keeps "
                "the first text of a run. Nothing was done. Start a new run."
            )
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Take the answer; after an approval, keep what was approved."""
        shown = context["task_state_store"].get(SHOWN_KEY)
        context["ti"].xcom_push(key=APPROVED_KEY, value=(shown or {}).get("approved"))
        return super().execute_complete(context, event)
