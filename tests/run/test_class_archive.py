"""Java's archive of classes: it is written by a run, and a start of Spark maps it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.setup.places import jars_folder

START = """
from pathlib import Path
from lakehouse.settings.config import load
from lakehouse.spark.session import open_session
open_session(load(start=Path.cwd())).range(3).count()
"""


@pytest.mark.slow
def test_a_start_maps_the_classes_that_a_run_has_loaded(tmp_path: Path) -> None:
    for kind in ("spark", "kafka"):
        shutil.copytree(jars_folder("spark").parent / kind, tmp_path / "jars" / kind, copy_function=os.link)
    environ = {**os.environ, "LAKEHOUSE_JARS": str(tmp_path / "jars")}
    write = [sys.executable, "-m", "lakehouse.run.job.class_archive"]
    done = subprocess.run(write, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(each.name for each in (tmp_path / "jars").iterdir()) == ["classes.jsa", "kafka", "spark"]

    log = tmp_path / "classes.log"
    options = {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={log}"}
    environ["LAKEHOUSE_SPARK_OPTIONS"] = json.dumps(options)
    subprocess.run([sys.executable, "-c", START], env=environ, cwd=tmp_path, check=True, capture_output=True)
    mapped = [line for line in log.read_text().splitlines() if "shared objects file (top)" in line]
    assert any("org.apache.spark.sql.classic.SparkSession " in line for line in mapped)
    assert len(mapped) > 5_000
