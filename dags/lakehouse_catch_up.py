"""The DAG that brings a lake up to date: ingest until caught up, then silver, then the checks.

Each task starts one of the project's jobs in the project's own Python. Neither Spark nor the project is imported
here, so the DAG is parsed in an instant and Airflow needs an environment with Airflow only.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator, Context, Param
from airflow.sdk.exceptions import AirflowFailException

from lakehouse_jobs import (
    APP_PATTERN,
    CONFIG_PATTERN,
    Job,
    JobRefused,
    job_argv,
    job_environment,
    project_locations,
)
from lakehouse_places import check_places

DOC = """
### Catch up

`ingest` appends what the topics hold to bronze until it has caught up, `silver` brings the tables to bronze's
last tick, `checks` verifies the result. A task returns its job's last event (rows, tick, tables) as its XCom.

* `app`: the application, a file below the project's folder, for example `examples/flights/app.py`
* `config`: a `lakehouse.toml`; left empty, the project's defaults hold

Both must lie in a folder that the variable `LAKEHOUSE_CATCH_UP` names; without it every run is refused. An application
that `lakehouse airflow add` made known has a `catch_up` of its own, and needs neither.

A job that refuses its input (exit code 2) fails its task at once, any other failure is tried again. The jobs
are safe to repeat: a tick that was written is not written twice.
"""


class LakehouseJobOperator(BaseOperator):
    """Runs `spark_jobs/<job>.py` with the run's `app` and `config`; its processes end with the task."""

    ui_color = "#d6eaf8"

    def __init__(self, *, job: str, options: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.options = options
        self._running: Job | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        params = context["params"]
        try:
            root, python = project_locations()
            check_places(root, params["app"], params["config"])
            argv = job_argv(root, python, self.job, params["app"], params["config"], self.options)
            self._running = Job(argv, cwd=root, environ=job_environment(python))
            return self._running.run(on_line=self.log.info)
        except JobRefused as refused:
            raise AirflowFailException(str(refused)) from refused

    def on_kill(self) -> None:
        # Airflow gives a task 5 s between SIGTERM and SIGKILL; the job's group gets 3 of them.
        if self._running is not None:
            self._running.stop()


with DAG(
    dag_id="lakehouse_catch_up",
    description="ingest until caught up, then silver, then checks",
    doc_md=DOC,
    schedule=None,
    catchup=False,
    max_active_runs=1,  # one writer per table: a second run would only wait for the first one's lease
    default_args={
        "retries": 2,
        "retry_delay": timedelta(seconds=30),
        "execution_timeout": timedelta(hours=6),
    },
    params={
        "app": Param(
            type="string",
            pattern=APP_PATTERN,
            maxLength=200,
            title="Application",
            description="a file below the project's folder, for example examples/flights/app.py",
        ),
        "config": Param(
            None,
            type=["null", "string"],
            pattern=CONFIG_PATTERN,
            maxLength=1000,
            title="Configuration",
            description="a lakehouse.toml, absolute or below the project's folder; empty: the defaults",
        ),
    },
    tags=["lakehouse"],
) as dag:
    ingest = LakehouseJobOperator(task_id="ingest", job="ingest", options=("--until", "caught-up"))
    silver = LakehouseJobOperator(task_id="silver", job="silver")
    checks = LakehouseJobOperator(task_id="checks", job="checks")
    ingest >> silver >> checks
