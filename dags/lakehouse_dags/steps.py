"""The small tasks around the commands: the check of a request, the gate, the approval, the chunks, the asset events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import Asset, BaseOperator, Context, TaskGroup, TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from lakehouse_dags import commands, common, requests
from lakehouse_dags.manifest import Application
from lakehouse_dags.operator import AGAIN, REQUEST_TASK, LakehouseOperator, requested

APPROVAL_TIME = timedelta(days=1)
ASKED_AGAIN = 3
FACTS_TASK = "facts"


class CheckRequest(BaseOperator):
    """The first task: refuses unknown params and contradictory ones; returns the request.

    kind: the DAG's, as in `requests`. names: of its params.
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
            requests.known(context["dag_run"].conf, self.names)
            if self.kind == "backfill_interval":
                start, end = context.get("data_interval_start"), context.get("data_interval_end")
                interval = None if start is None or end is None else (start, end)
                return requests.backfill_interval(app, params, interval)
            return requests.CHECKS[self.kind](app, params)
        except requests.BadRequest as bad:
            raise AirflowFailException(str(bad)) from bad


class EachOf(BaseOperator):
    """Returns the requests that a mapped task runs: a backfill's chunks, else one for each table."""

    template_fields = ()

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return them, each with its "label"."""
        return requests.each(requested(context))


def in_turn(app: Application, command: str, each: EachOf) -> Any:
    """Return a command's task that is mapped over the requests of `each`: one at a time, by their labels in the UI."""
    return LakehouseOperator.partial(
        task_id=command, command=command, max_active_tis_per_dag=1,
        map_index_template="{{ task.request['label'] }}", **common.writer(app),
    ).expand(request=each.output)  # fmt: skip


class AllDone(BaseOperator):
    """The last task: fails unless each request of this run has had its task. A shorter list would leave tables out.

    of: the id of the mapped task. Airflow skips one that has nothing to do, so this task runs after a skipped one, too.
    """

    template_fields = ()

    def __init__(self, *, of: str, **kwargs: Any) -> None:
        super().__init__(trigger_rule=TriggerRule.NONE_FAILED, retries=0, **kwargs)
        self.of = of

    def execute(self, context: Context) -> dict[str, Any]:
        """Return {"done": how many}. Raises AirflowFailException."""
        expected, ti = len(requests.each(requested(context))), context["ti"]
        done = ti.get_ti_count(dag_id=ti.dag_id, task_ids=[self.of], run_ids=[ti.run_id], states=["success"])
        if done != expected:
            raise AirflowFailException(
                f"found {done} tasks {self.of} that succeeded, expected {expected}, one for each request of this run's "
                f"params: the result of the task before them was changed, or cleared. {AGAIN}"
            )
        return {"done": done}


class Announce(BaseOperator):
    """Emits an asset event for a table that has changed since the last one; is skipped if it hasn't.

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
        request = requested(context)
        if request.get("table", self.table) != self.table:
            raise AirflowSkipException(f"this run is about table {request['table']}")
        found = commands.table_facts(context["ti"].xcom_pull(task_ids=FACTS_TASK), self.table)
        if found is None:
            raise AirflowSkipException(f"table {self.table} does not exist yet")
        before = list(context["inlet_events"][self.asset].ascending(False).limit(1))
        if before and (before[0].extra or {}).get("tick") == found["tick"]:
            raise AirflowSkipException(f"table {self.table} is at tick {found['tick']}, as it was at the last event")
        context["outlet_events"][self.asset].extra = {**found, "reason": request.get("reason", "")}
        return found


class Compare(BaseOperator):
    """Does the new table equal the result of every way of rebuilding? Fails if it doesn't."""

    template_fields = ()

    def execute(self, context: Context) -> dict[str, Any]:
        """Return {"hash", "rows", "ways"}: by how many ways it was confirmed."""
        made, proof = (context["ti"].xcom_pull(task_ids=task) for task in ("checkout", "prove"))
        told = commands.hashes(proof)
        if set(told) != {made["hash"]}:
            raise AirflowFailException(
                f"table {made['table']} has the hash {made['hash']}, the ways of rebuilding gave {told}. If it was "
                "made earlier, and late records came since, make another one; otherwise compare: lakehouse past diff."
            )
        return {"hash": made["hash"], "rows": made["rows"], "ways": len(told)}


def asset(app: Application, table: str) -> Asset:
    """Return the asset of a table."""
    return Asset(name=f"{app.name}.{table}", uri=f"lakehouse://{app.name}/{table}", group="lakehouse")


def announcements(app: Application) -> TaskGroup:
    """Return a task for each table of the application that announces its changes."""
    with TaskGroup(group_id="tables", tooltip="an asset event for each table that changed") as group:
        for table in app.tables:
            Announce(task_id=table, asset=asset(app, table), table=table)
    return group


def unless_dry_run() -> ShortCircuitOperator:
    """Return the task after which a dry run does nothing."""
    return ShortCircuitOperator(
        task_id="unless_dry_run",
        python_callable=lambda **context: not requested(context)["dry_run"],
        ignore_downstream_trigger_rules=False,
    )


def if_to_deploy() -> ShortCircuitOperator:
    """Return the task after which a dry run does nothing, nor a run that found no table with new logic."""
    return ShortCircuitOperator(
        task_id="if_to_deploy",
        python_callable=lambda **context: (
            not requested(context)["dry_run"] and bool(context["ti"].xcom_pull(task_ids="stage")["tables"])
        ),
        ignore_downstream_trigger_rules=False,
    )


def if_to_prove() -> ShortCircuitOperator:
    """Return the task after which a run without a proof does nothing."""
    return ShortCircuitOperator(task_id="if_to_prove", python_callable=lambda **context: requested(context)["prove"])


class Approval(ApprovalOperator):
    """Asks a person. The text is made from the results of the tasks before, not from templates."""

    template_fields = ()

    def __init__(self, *, shown: str, **kwargs: Any) -> None:
        super().__init__(
            task_id="approve", body="", defaults=self.REJECT, response_timeout=APPROVAL_TIME,
            # Airflow 3.3.2 fails a task that is answered before its scheduler knows that the asking process has ended.
            retries=ASKED_AGAIN, retry_delay=timedelta(seconds=5), execution_timeout=None, **kwargs,
        )  # fmt: skip
        self.shown = shown

    def execute(self, context: Context) -> Any:
        """Say what would be done, and wait for the answer; no answer within a day is a refusal.

        Raises AirflowFailException if the task before has left nothing to decide about.
        """
        request, found = requested(context), context["ti"].xcom_pull(task_ids=self.shown)
        if not isinstance(found, dict):
            raise AirflowFailException(
                f"task {self.shown} left {found!r:.200}, expected what it found: its result was changed, or cleared. "
                f"{AGAIN}"
            )
        # Apart: a finding must not stand in the place of what is requested, whatever its name is.
        self.body = commands.shown(request, self.shown, found)
        return super().execute(context)
