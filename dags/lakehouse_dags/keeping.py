"""The DAGs that change no live row: reconstruct_point_in_time, recovery_drill, table_maintenance."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from lakehouse_dags import common, requests
from lakehouse_dags.manifest import Application
from lakehouse_dags.operator import LakehouseOperator
from lakehouse_dags.steps import AllDone, CheckRequest, Compare, SplitRequest, if_to_prove, map_in_turn

SUNDAY_NIGHT = "0 3 * * 0"
EVERY_NIGHT = "0 4 * * *"
HELD_WAIT = timedelta(minutes=10)  # after that a running job holds the tables, and does the upkeep itself

POINT_IN_TIME = """
### Reconstruct a point in time

Makes a new table `target` of what `table` was at a `moment`, by one of five clocks:

| clock | moment | what it is |
|---|---|---|
| `event` | `2013-06-30T23:59Z` | the world then: the records that had happened, whenever they came |
| `commit` | `2013-06-30T23:59Z` | what was known then |
| `tick`, `version` | `41` | after this tick, this version |
| `offsets` | `orders/0=120,orders/1=80` | before these offsets |

`prove` rebuilds it in every way that there is (Delta's version, bronze, the changelog), `compare` fails unless all of
them give the hash of the new table. The live table is not touched. Repeated, it keeps the target that exists.
"""


def reconstruct_point_in_time(app: Application) -> DAG:
    """Return the DAG `reconstruct_point_in_time`."""
    params = {
        "table": common.table_param(app),
        "clock": common.choice_param("event", requests.CLOCKS, "Clock", "the clock of the moment"),
        "moment": Param(
            type="string", minLength=1, maxLength=2000, pattern=requests.LINE, title="Moment",
            description="a time, a number, or offsets, as the clock requires",
        ),
        "target": Param(
            type="string", pattern=requests.NAME, title="New table", description="a name that no table has yet"
        ),
        "prove": common.flag_param(True, "Prove", "rebuild it in every possible way, and compare"),
    }  # fmt: skip
    about = common.dag_arguments(app, "reconstruct_point_in_time", "a moment of a table as a new table", POINT_IN_TIME)
    with DAG(schedule=None, params=params, **about) as dag:
        checkout = LakehouseOperator(task_id="checkout", command="checkout", **common.writer_arguments(app))
        prove = LakehouseOperator(task_id="prove", command="prove", **common.writer_arguments(app))
        check = CheckRequest(application=app, kind="reconstruct_point_in_time", names=list(params))
        check >> checkout >> if_to_prove() >> prove >> Compare(task_id="compare")
    return dag


DRILL = """
### Recovery drill

Damages a *copy* of each table in six ways, looks for the damage, restores the copy in every way that there is, and
compares with the live table, which is only read. Weekly, and by hand. A task fails, without a retry, where a damage
was not found or a restored table is not what it was. Recovery times are in the result, and in
`lakehouse test drill --history`.
"""


def recovery_drill(app: Application) -> DAG:
    """Return the DAG `recovery_drill`, on Sunday nights."""
    params = {
        "table": common.table_param(app, allows_all=True),
        "damage": common.choice_param(
            requests.ALL, (requests.ALL, *requests.DAMAGES), "Damage", "this one, or all of them"
        ),
    }
    about = common.dag_arguments(app, "recovery_drill", "a copy is damaged, and restored", DRILL)
    with DAG(schedule=common.make_schedule(SUNDAY_NIGHT), params=params, **about) as dag:
        requests_task = SplitRequest(task_id="each_table")
        check = CheckRequest(application=app, kind="recovery_drill", names=list(params))
        (
            check
            >> requests_task
            >> map_in_turn(app, "drill", requests_task)
            >> AllDone(task_id="all_done", mapped_task="drill")
        )
    return dag


MAINTENANCE = """
### Table maintenance

OPTIMIZE where there are many small files, VACUUM of what is older than the versions that are kept, and anchors.
Versions are kept for at least `keep_hours`, which is never less than 168. They are kept longer if `lakehouse.toml` says
so, or if a changelog that is not published yet needs them (`kept` in the result says why). Give a longer time here if a
reader needs it.

A job that runs continuously does all this itself, and the task is skipped. Repeating it is safe.
"""


def table_maintenance(app: Application) -> DAG:
    """Return the DAG `table_maintenance`, every night."""
    params = {
        "table": common.table_param(app, allows_all=True),
        "keep_hours": Param(
            requests.LEAST_KEEP_HOURS, type="integer", minimum=requests.LEAST_KEEP_HOURS,
            maximum=requests.MOST_KEEP_HOURS, title="Hours that versions are kept",
        ),
        "dry_run": common.flag_param(False, "Dry run", "only say what would be done"),
    }  # fmt: skip
    about = common.dag_arguments(app, "table_maintenance", "OPTIMIZE, VACUUM, anchors", MAINTENANCE)
    with DAG(schedule=common.make_schedule(EVERY_NIGHT), params=params, **about) as dag:
        upkeep = LakehouseOperator(
            task_id="upkeep",
            command="upkeep",
            skip_if_held=True,
            lease_wait=HELD_WAIT,
            **common.writer_arguments(app),
        )
        CheckRequest(application=app, kind="table_maintenance", names=list(params)) >> upkeep
    return dag
