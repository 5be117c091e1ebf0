"""The DAGs of every application that `lakehouse airflow add` registered: see docs/airflow-dags.md.

An invalid manifest does not affect the others: a separate DAG names it, and does nothing else.
"""

from airflow.sdk import DAG

from lakehouse_dags import common, keeping, writing
from lakehouse_dags.manifest import Refused, read_applications

known_applications, refused = read_applications()

for application in known_applications:
    try:
        common.check_schedules(application)
    except Refused as error:
        refused[f"{application.name}.json"] = str(error)
        continue
    for make_dag in (
        writing.catch_up, writing.backfill_range, writing.backfill_interval, writing.quarantine_replay, writing.deploy,
        writing.erase, keeping.reconstruct_point_in_time, keeping.recovery_drill, keeping.table_maintenance,
    ):  # fmt: skip
        dag = make_dag(application)
        globals()[dag.dag_id] = dag

if refused:
    lines = "\n".join(f"    {name}: {why}" for name, why in refused.items())
    refused_manifests = DAG(
        dag_id="lakehouse_refused_manifests",
        description=f"{len(refused)} applications have no DAGs: their manifests can't be used",
        doc_md=f"### These applications have no DAGs\n\n{lines}\n",
        schedule=None,
        tags=["lakehouse"],
    )
