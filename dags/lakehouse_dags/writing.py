"""The DAGs that bring tables up to date or rebuild their rows: catch_up, backfill_range, backfill_interval."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import (
    DAG,
    CronDataIntervalTimetable,
    DeadlineAlert,
    DeadlineReference,
    Param,
    SyncCallback,
    TriggerRule,
)

from lakehouse_dags import common, requests
from lakehouse_dags.manifest import Application
from lakehouse_dags.operator import LakehouseOperator
from lakehouse_dags.steps import (
    FACTS_TASK,
    AllDone,
    Approval,
    CheckRequest,
    SplitRequest,
    announce_tables,
    if_to_deploy,
    map_in_turn,
    unless_dry_run,
)

__all__ = ["backfill_interval", "backfill_range", "catch_up"]

DAILY = "0 0 * * *"
# For work that another process does itself while it holds a table: a running job, or a backfill from the command line.
SHORT_WAIT = timedelta(minutes=1)

CATCH_UP = """
### Catch up

`ingest` takes what the topics hold into bronze, `silver` brings the tables to bronze's last tick and publishes their
changelogs, `check` accounts for every offset. Then an asset event for each table that changed: its rows, version, tick
and offsets. A table that did not change has none, so nothing downstream runs for it.

Where a job keeps running (`lakehouse run`), it holds the tables: `ingest` and `silver` wait a minute and are skipped,
and the events report what the job did.

Repeating any of it is safe: a tick that was written is not written twice, and an event that was sent is not sent again.
"""


def catch_up(app: Application) -> DAG:
    """Return the DAG `catch_up`, with the application's schedule and its freshness."""
    late = (
        DeadlineAlert(
            name="freshness",
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=timedelta(minutes=app.freshness_minutes),
            callback=SyncCallback(
                "lakehouse_dags.late.tell", {"application": app.name, "minutes": app.freshness_minutes}
            ),
        )
        if app.freshness_minutes is not None
        else None
    )
    about = common.dag_arguments(app, "catch_up", "topics to bronze to tables, checked", CATCH_UP)
    with DAG(schedule=app.schedule, start_date=common.START_DATE, deadline=late, **about) as dag:
        held_arguments = {"skip_if_held": True, "lease_wait": SHORT_WAIT}
        check_request = CheckRequest(application=app, kind="catch_up", names=())
        ingest = LakehouseOperator(
            task_id="ingest", command="ingest", request={}, **held_arguments, **common.writer_arguments(app)
        )
        silver = LakehouseOperator(
            task_id="silver", command="silver", request={}, trigger_rule=TriggerRule.NONE_FAILED,
            **held_arguments, **common.writer_arguments(app),
        )  # fmt: skip
        check = LakehouseOperator(
            task_id="check", command="check", request={}, trigger_rule=TriggerRule.NONE_FAILED, app_facts=app.as_facts()
        )
        check_request >> ingest >> silver >> check >> _facts_task(app) >> announce_tables(app)
    return dag


BACKFILL_RANGE = """
### Backfill a range

Rebuilds the rows that a range of records touches: `from` (in the range) and `to` (not in it) are event times,
`offsets` has the form `orders/0=120..180,orders/1=80..95`. Without a range, all rows: the table is built beside the
live one and swapped in, with the application's current declaration.

1. `check_request` checks the params together; `plan` counts the rows that would be added, removed, changed.
2. A dry run, which is the default, ends here. Otherwise a person approves, within a day (*Required Actions*).
3. `backfill` runs chunk by chunk. The table's job keeps running meanwhile.
4. `reconcile` compares: no row may differ from what bronze gives. For all rows it is the audit with a fold of bronze.
5. One asset event, if the table changed. `discard` removes what was built beside it, no matter how the run ended.

Any task may be cleared and any run repeated: what is already right is not written again.
"""


def backfill_range(app: Application) -> DAG:
    """Return the DAG `backfill_range`."""
    params = {
        "table": common.table_param(app),
        "from": common.time_param("From", "event time of the first records, such as 2013-06-01T18:00Z"),
        "to": common.time_param("To", "event time before which the range ends"),
        "offsets": common.optional_text_param(
            requests.OFFSET_RANGES, 2000, "Offsets", "instead of times: TOPIC/PARTITION=FIRST..LAST, with commas"
        ),
        "chunk_hours": Param(24, type="integer", minimum=1, maximum=24 * 366, title="Hours in a chunk"),
        **common.decision_params(),
    }
    about = common.dag_arguments(app, "backfill_range", "rows rebuilt from bronze, after approval", BACKFILL_RANGE)
    with DAG(schedule=None, params=params, **about) as dag:
        plan = LakehouseOperator(task_id="plan", command="plan", **common.writer_arguments(app)).as_setup()
        requests_task = SplitRequest(task_id="chunks")
        backfill = map_in_turn(app, "backfill", requests_task, is_approved=True)
        reconcile = LakehouseOperator(task_id="reconcile", command="reconcile", **common.writer_arguments(app))
        discard = LakehouseOperator(
            task_id="discard",
            command="discard",
            skip_if_held=True,
            lease_wait=SHORT_WAIT,
            **common.writer_arguments(app),
        )
        check = CheckRequest(application=app, kind="backfill_range", names=list(params))
        approve = Approval(reviewed_task="plan", subject=f"Backfill of {app.name}: shall it be done?")
        (
            check
            >> plan
            >> unless_dry_run()
            >> approve
            >> requests_task
            >> backfill
            >> reconcile
            >> _facts_task(app)
            >> announce_tables(app)
        )
        reconcile >> discard.as_teardown(setups=plan)
    return dag


BACKFILL_INTERVAL = """
### Backfill by interval

Each run rebuilds the rows that the records of its *data interval* touch, by event time. So Airflow's own **Backfill**
button (or `airflow backfill create`) repairs any stretch of time, with a run for each interval. There are no asset
events: nothing downstream is started a hundred times. Run `catch_up` afterwards; it sends one event.

Unless the application has a schedule for it (`lakehouse airflow add --backfill-schedule`), the DAG is paused at first;
a backfill's runs wait until it is not. Unpaused, it also looks at each day that has passed.

A run by hand without a logical date has no data interval: give it `from` and `to`.
"""


def backfill_interval(app: Application) -> DAG:
    """Return the DAG `backfill_interval`: by the application's schedule for it, or daily."""
    params = {
        "table": common.table_param(app, allows_all=True),
        "from": common.time_param("From", "event time of the first records; empty: the run's data interval"),
        "to": common.time_param("To", "event time before which the range ends"),
    }
    # A cron text alone would give runs without a data interval.
    schedule = CronDataIntervalTimetable(app.backfill_schedule or DAILY, timezone="UTC")
    about = common.dag_arguments(
        app, "backfill_interval", "each interval's rows rebuilt from bronze", BACKFILL_INTERVAL
    )
    paused = common.pause_arguments(app.backfill_schedule)
    with DAG(schedule=schedule, start_date=common.START_DATE, params=params, **paused, **about) as dag:
        requests_task = SplitRequest(task_id="each_table")
        check = CheckRequest(application=app, kind="backfill_interval", names=list(params))
        (
            check
            >> requests_task
            >> map_in_turn(app, "backfill", requests_task)
            >> AllDone(task_id="all_done", mapped_task="backfill")
        )
    return dag


QUARANTINE_REPLAY = """
### Replay quarantined records

Records that did not fit their stream's schema are tried again with what the application declares now, or with `fix`,
the name of a function in its file. `try` says how many fit. A dry run, which is the default, ends there; otherwise a
person approves, and those that fit count from now on, at their original positions. If the fix gives these records
other bytes by then, `replay` refuses them; records that came meanwhile are left to the next run.

A record that was replayed stays in the quarantine, and is left out when it is replayed again: repeating it is safe.
"""


def quarantine_replay(app: Application) -> DAG:
    """Return the DAG `quarantine_replay`."""
    params = {
        "stream": Param(**_sole_default(app.streams), type="string", enum=list(app.streams), title="Stream"),
        "contains": common.optional_text_param(
            requests.LINE, 300, "Contains", "only records whose reason contains this text"
        ),
        "fix": common.optional_text_param(
            requests.FUNCTION, 100, "Fix", "a function in the application's file; empty: none"
        ),
        **common.decision_params(),
    }
    about = common.dag_arguments(app, "quarantine_replay", "records that fit now count after all", QUARANTINE_REPLAY)
    with DAG(schedule=None, params=params, **about) as dag:
        trial = LakehouseOperator(task_id="try", command="try", app_facts=app.as_facts())
        replay = LakehouseOperator(task_id="replay", command="replay", is_approved=True, **common.writer_arguments(app))
        approve = Approval(
            reviewed_task="try", subject=f"Replay of quarantined records of {app.name}: shall it be done?"
        )
        check = CheckRequest(application=app, kind="quarantine_replay", names=list(params))
        check >> trial >> unless_dry_run() >> approve >> replay >> _facts_task(app) >> announce_tables(app)
    return dag


DEPLOY = """
### Deploy new logic

Change the application's file first: `catch_up` refuses to go on with tables whose logic is new, and says so. Then this
DAG lets all tables that the change touches become what the file declares, at one tick.

1. `stage` builds them beside the live ones, from bronze, and counts the rows that would be added, removed, changed.
2. A dry run, which is the default, ends here. Otherwise a person approves, within a day (*Required Actions*).
3. `promote` takes in what came meanwhile, and swaps all of them in. It refuses a file that was changed after `stage`.
4. One asset event for each table that changed. `unstage` removes what was built beside, no matter how the run ended.

The way back is the same: put the earlier file in its place, and run this DAG again.
"""


def deploy(app: Application) -> DAG:
    """Return the DAG `deploy`."""
    params = common.decision_params()
    about = common.dag_arguments(app, "deploy", "new logic of all tables it touches, after approval", DEPLOY)
    with DAG(schedule=None, params=params, **about) as dag:
        stage = LakehouseOperator(task_id="stage", command="stage", **common.writer_arguments(app)).as_setup()
        promote = LakehouseOperator(
            task_id="promote", command="promote", is_approved=True, **common.writer_arguments(app)
        )
        unstage = LakehouseOperator(
            task_id="unstage",
            command="unstage",
            skip_if_held=True,
            lease_wait=SHORT_WAIT,
            **common.writer_arguments(app),
        )
        check = CheckRequest(application=app, kind="deploy", names=list(params))
        approve = Approval(reviewed_task="stage", subject=f"Deployment of {app.name}: shall it be done?")
        check >> stage >> if_to_deploy() >> approve >> promote >> _facts_task(app) >> announce_tables(app)
        promote >> unstage.as_teardown(setups=stage)
    return dag


ERASE = """
### Erase a person's records

The records of `stream` with `key`, and those whose columns `named_by` hold that key, leave bronze, the tables with
their history, and the published topics. `value` is a text that must not be found afterwards either.

1. `plan` counts the records, and names the tables and the topics that change.
2. A dry run, which is the default, ends here. Otherwise a person approves, within a day (*Required Actions*).
3. `erase` does it, and searches every file of the lake. It fails if it finds something: name the records that hold it.
4. One asset event for each table that changed.

A job that keeps the tables must be stopped. Airflow keeps the params of a run: delete the run afterwards.
"""


def erase(app: Application) -> DAG:
    """Return the DAG `erase`."""
    params = {
        "stream": Param(**_sole_default(app.streams), type="string", enum=list(app.streams), title="Stream"),
        "key": Param(type="string", minLength=1, maxLength=300, pattern=requests.LINE, title="Key"),
        "named_by": common.optional_text_param(
            requests.COLUMNS, 1000, "Named by", "columns that hold such a key: STREAM.COLUMN, with commas"
        ),
        "value": common.optional_text_param(
            requests.LINE, 300, "Value", "a text that must not be found afterwards, as a name"
        ),
        **common.decision_params(),
    }
    about = common.dag_arguments(app, "erase", "a person's records, everywhere, after approval", ERASE)
    with DAG(schedule=None, params=params, **about) as dag:
        plan = LakehouseOperator(task_id="plan", command="plan_erasure", **common.writer_arguments(app))
        erase = LakehouseOperator(task_id="erase", command="erase", is_approved=True, **common.writer_arguments(app))
        check = CheckRequest(application=app, kind="erase", names=list(params))
        approve = Approval(reviewed_task="plan", subject=f"Erasure in {app.name}: shall it be done?")
        check >> plan >> unless_dry_run() >> approve >> erase >> _facts_task(app) >> announce_tables(app)
    return dag


def _sole_default(values: tuple[str, ...]) -> dict[str, str]:
    return {"default": values[0]} if len(values) == 1 else {}


def _facts_task(app: Application) -> LakehouseOperator:
    return LakehouseOperator(task_id=FACTS_TASK, command="status", request={}, app_facts=app.as_facts())
