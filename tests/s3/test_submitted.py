"""spark-submit with a lake on S3: the command line has the jars, and the rest is the lake's own settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.setup.places import jars_folder, s3_jars
from tests.cluster.test_cluster import JOBS, SECONDS, Project
from tests.s3.server import SECRET, ObjectStore

pytestmark = pytest.mark.slow

ASK = """
import sys
from lakehouse.settings.config import load
from lakehouse.spark.jvm.session.session import open_session

conf = open_session(load()).sparkContext.getConf()
print(conf.get("spark.delta.logStore.s3a.impl"), conf.get("spark.hadoop.fs.option.create.conditional.overwrite"))
"""


def submit(folder: Path, script: str, *arguments: str) -> str:
    class_path = os.pathsep.join([f"{jars_folder('spark')}/*", *map(str, s3_jars())])
    command = [
        str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", "--driver-memory", "1g",
        "--driver-java-options", "-Xss256m", "--driver-class-path", class_path, script, *arguments,
    ]  # fmt: skip
    environ = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def test_a_submitted_job_writes_a_lake_on_s3(tmp_path: Path, broker: Broker, object_store: ObjectStore) -> None:
    uri = object_store.new_lake()
    project = Project(tmp_path, broker, "local[1]", f'path = "{uri}"\noptions = {object_store.options()}')
    project.produce(0, 200)
    (tmp_path / "ask.py").write_text(ASK)
    log_store = submit(tmp_path, "ask.py").split()[0]
    assert log_store.startswith("lakehouse."), "Delta's own keeps one commit of two"
    for job in ("ingest", "silver"):
        assert json.loads(submit(tmp_path, str(JOBS / f"{job}.py"), "--app", "app.py"))["event"] == "done"
    project.check_tables()
