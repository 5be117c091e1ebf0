"""Runs in Airflow's Python. `airflow_driver.py OUT COMMAND JSON` writes COMMAND's findings to OUT as JSON."""

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

DAG_ID = "lakehouse_catch_up"


def _dag_bag() -> Any:
    from airflow.dag_processing.dagbag import BundleDagBag

    folder = Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    # The bundle's, as the scheduler and the workers load it: it puts the folder on the module search path.
    return BundleDagBag(dag_folder=folder, bundle_path=folder, bundle_name="dags-folder")


def inspect(_: None) -> dict[str, Any]:
    """The DAG as Airflow sees it, and what parsing it costs."""
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
        "file_s": max(stat.duration.total_seconds() for stat in bag.dagbag_stats),
        "heavy_modules": sorted({name.split(".")[0] for name in sys.modules} & {"lakehouse", "pyspark", "delta"}),
    }


def judge(confs: list[dict[str, Any]]) -> dict[str, Any]:
    """Which confs a new run would refuse: the check that creating a run makes, on the DAG as it is stored."""
    from airflow.sdk.exceptions import ParamValidationError
    from airflow.serialization.serialized_objects import DagSerialization

    dag = DagSerialization.from_dict(DagSerialization.to_dict(_dag_bag().dags[DAG_ID]))
    refused = []
    for conf in confs:
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


if __name__ == "__main__":
    out, command, argument = sys.argv[1:]
    found = {"inspect": inspect, "judge": judge, "run": run}[command](json.loads(argument))
    Path(out).write_text(json.dumps(found, default=str))
