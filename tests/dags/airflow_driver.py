"""Runs in Airflow's Python. `airflow_driver.py OUT COMMAND JSON` writes COMMAND's findings to OUT as JSON."""

import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

DAG_ID = "lakehouse_catch_up"


def _dag_bag() -> Any:
    from airflow.dag_processing.dagbag import BundleDagBag

    folder = Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    # The bundle, as the scheduler and the workers load it: it adds the folder to the module search path.
    return BundleDagBag(dag_folder=folder, bundle_path=folder, bundle_name="dags-folder")


def migrate(_: None) -> dict[str, Any]:
    """Make Airflow's database, as `airflow db migrate` does."""
    from airflow.utils.db import upgradedb

    upgradedb()
    return {}


def inspect(_: None) -> dict[str, Any]:
    """The DAG as Airflow sees it, and the cost of parsing it."""
    import airflow.sdk  # noqa: F401  a parser has it loaded already

    started = time.perf_counter()
    bag = _dag_bag()
    first_s = time.perf_counter() - started
    dag = bag.dags[DAG_ID]
    return {
        "import_errors": bag.import_errors,
        "dag_ids": sorted(bag.dags),
        "downstream": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "schedule": dag.schedule,
        "tags": sorted(dag.tags),
        "doc": dag.doc_md,
        "bag_s": first_s,
        "file_s": next(item.duration.total_seconds() for item in bag.dagbag_stats if "catch_up" in item.file),
        "heavy_modules": sorted({name.split(".")[0] for name in sys.modules} & {"lakehouse", "pyspark", "delta"}),
    }


def inspect_all(_: None) -> dict[str, Any]:
    """All DAGs as Airflow sees them, and the cost of parsing them."""
    import airflow.sdk  # noqa: F401  a parser has it loaded already

    bag = _dag_bag()
    return {
        "import_errors": bag.import_errors,
        "dags": {
            name: {
                "doc": dag.doc_md,
                "max_active_runs": dag.max_active_runs,
                "catchup": dag.catchup,
                "deadlines": len(dag.deadline) if isinstance(dag.deadline, list) else int(dag.deadline is not None),
                "paused_at_first": bool(dag.is_paused_upon_creation),
                "outlets": sorted({asset.name for task in dag.tasks for asset in task.outlets}),
                "pools": {task.task_id: task.pool for task in dag.tasks},
                "setups": [task.task_id for task in dag.tasks if task.is_setup],
                "first_run": _first_run(dag),
                # The UI's form does not send a run with one of these left empty.
                "empty_texts": [
                    name for name, of in dag.params.items() if of.value == "" and "null" not in of.schema["type"]
                ],
                "teardowns": [task.task_id for task in dag.tasks if task.is_teardown],
            }
            for name, dag in bag.dags.items()
        },
        "file_s": max(stat.duration.total_seconds() for stat in bag.dagbag_stats),
        "heavy_modules": sorted({name.split(".")[0] for name in sys.modules} & {"lakehouse", "pyspark", "delta"}),
    }


# A Sunday, shortly after everything scheduled for that night.
NIGHT = datetime(2026, 11, 22, 4, 8, tzinfo=UTC)


def _first_run(dag: Any) -> str | None:
    """When the scheduler would make the first run of a DAG that it sees for the first time, at NIGHT."""
    from airflow.serialization.serialized_objects import DagSerialization

    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    with mock.patch("airflow.timetables.trigger.utcnow", return_value=NIGHT):
        info = stored.next_dagrun_info(last_automated_run_info=None)
    return None if info is None else info.run_after.isoformat()


def judge(confs: list[dict[str, Any]]) -> dict[str, Any]:
    """Which confs a new run of DAG_ID would refuse."""
    return judge_of({"dag_id": DAG_ID, "confs": confs})


def judge_of(order: dict[str, Any]) -> dict[str, Any]:
    """Which confs a new run would refuse: the check that creating a run makes, on the DAG as it is stored."""
    from airflow.sdk.exceptions import ParamValidationError
    from airflow.serialization.serialized_objects import DagSerialization

    dag = DagSerialization.from_dict(DagSerialization.to_dict(_dag_bag().dags[order["dag_id"]]))
    refused = []
    for conf in order["confs"]:
        try:
            dag.params.deep_merge(conf).validate()
            refused.append(False)
        except ParamValidationError:
            refused.append(True)
    return {"refused": refused}


def run(order: dict[str, Any]) -> dict[str, Any]:
    """One run of the DAG by `dag.test()`: {"conf": ..., "timeout_s": seconds a task may take}."""
    dag = _dag_bag().dags[DAG_ID]
    for task in dag.tasks:
        task.retry_delay = timedelta(0)
        if "timeout_s" in order:
            task.execution_timeout = timedelta(seconds=order["timeout_s"])
    started = time.perf_counter()
    dag_run = dag.test(run_conf=order["conf"])
    tasks = {
        ti.task_id: {
            "state": ti.state,
            "tries": ti.try_number,
            "xcom": ti.xcom_pull(task_ids=ti.task_id),
        }
        for ti in dag_run.get_task_instances()
    }
    return {"state": dag_run.state, "tasks": tasks, "test_s": time.perf_counter() - started}


def run_of(order: dict[str, Any]) -> dict[str, Any]:
    """One run of a DAG of an application: its tasks by id (mapped ones: id/index), the events of an asset so far.

    {"dag_id", "conf"}; "by_hand": without a logical date, as the REST API makes one; "mark_success": a task that
    isn't run; "pause_s", "wait_s": for a table that is in use; "changed": what somebody put into a task's result
    (XCom) before the next task read it.
    """
    dag = _dag_bag().dags[order["dag_id"]]
    import lakehouse_dags.operator as operator  # the bag has added its folder to the path

    if "pause_s" in order:
        operator.LEASE_PAUSE = timedelta(seconds=order["pause_s"])
    for task_id, fields in order.get("changed", {}).items():
        _change(dag.get_task(task_id), fields)
    for task in dag.tasks:
        if task.is_mapped:
            task.partial_kwargs["retry_delay"] = timedelta(0)
            continue
        task.retry_delay = timedelta(0)
        if "wait_s" in order and hasattr(task, "lease_wait"):
            task.lease_wait = timedelta(seconds=order["wait_s"])
    by_hand = {"logical_date": None} if order.get("by_hand") else {}
    dag_run = dag.test(run_conf=order["conf"], mark_success_pattern=order.get("mark_success"), **by_hand)
    tasks = {_name(ti): _said(ti) for ti in dag_run.get_task_instances()}
    return {"state": dag_run.state, "tasks": tasks, "events": _events(order.get("events_of"))}


def _change(task: Any, fields: dict[str, Any] | list[int]) -> None:
    """Make a task leave a changed result: an object with other fields, a list of such objects, or other items.

    fields: the other fields; or the indexes of the items that it leaves, in their order.
    """
    honest = type(task).execute

    def changed(self: Any, context: Any) -> Any:
        left = honest(self, context)
        if isinstance(fields, list):
            return [left[index] for index in fields]
        return [{**item, **fields} for item in left] if isinstance(left, list) else {**left, **fields}

    type(task).execute = changed


def _name(ti: Any) -> str:
    return ti.task_id if ti.map_index < 0 else f"{ti.task_id}/{ti.map_index}"


def _said(ti: Any) -> dict[str, Any]:
    from airflow.models.task_state_store import TaskStateStoreModel
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        here = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id, "map_index": ti.map_index}
        states = session.scalars(select(TaskStateStoreModel).filter_by(**here)).all()
        links = session.scalars(select(XComModel).filter_by(**here, key="_link_TableLink")).all()
        return {
            "state": ti.state,
            "tries": ti.try_number,
            "xcom": ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index),
            "label": ti.rendered_map_index,
            "progress": next((json.loads(item.value) for item in states if item.key == "progress"), None),
            "link": next((str(item.value).strip('"') for item in links), None),
        }


def _events(asset: str | None) -> list[dict[str, Any]]:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        wanted = select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        result = session.scalars(wanted.where(AssetModel.name == asset).order_by(AssetEvent.id)).all()
        return [event.extra for event in result]


COMMANDS = {
    "migrate": migrate, "inspect": inspect, "inspect_all": inspect_all, "judge": judge, "judge_of": judge_of,
    "run": run, "run_of": run_of,
}  # fmt: skip


def do(out: str, command: str, argument: Any) -> None:
    Path(out).write_text(json.dumps(COMMANDS[command](argument), default=str))


if __name__ == "__main__":
    do(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
