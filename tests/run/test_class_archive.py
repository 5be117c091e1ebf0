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
from lakehouse.spark.jvm.session.session import open_session
open_session(load(start=Path.cwd())).range(3).count()
"""


@pytest.mark.slow
def test_a_start_maps_the_classes_that_a_run_has_loaded(tmp_path: Path) -> None:
    environ = with_jars(tmp_path)
    assert "Spark's classes: kept ready in" in set_up(environ)
    archive = tmp_path / "jars" / "classes.jsa"
    assert archive.stat().st_size > 100 << 20
    assert not list(archive.parent.glob(".new-*"))
    assert set_up(environ).endswith("Spark's classes: ready\n")

    log = tmp_path / "classes.log"
    options = {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={log}"}
    environ["LAKEHOUSE_SPARK_OPTIONS"] = json.dumps(options)
    subprocess.run([sys.executable, "-c", START], env=environ, cwd=tmp_path, check=True, capture_output=True)
    mapped = [line for line in log.read_text().splitlines() if "shared objects file (top)" in line]
    assert any("org.apache.spark.sql.classic.SparkSession " in line for line in mapped)
    assert len(mapped) > 5_000


@pytest.mark.slow
def test_where_java_writes_none_spark_starts_without_and_nothing_tries_again(tmp_path: Path) -> None:
    environ = with_jars(tmp_path)
    none = {"_JAVA_OPTIONS": f"-XX:ArchiveClassesAtExit={tmp_path}/other"}  # the last word of all options
    assert "warning: Spark's classes are not kept ready: Java wrote no archive" in set_up(environ | none)
    assert set_up(environ | none).endswith("Spark's classes: ready\n")
    subprocess.run([sys.executable, "-c", START], env=environ, cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.slow
def test_a_set_up_whose_spark_does_not_start_ends_well_and_the_next_tries_again(tmp_path: Path) -> None:
    environ = with_jars(tmp_path) | {"JAVA_TOOL_OPTIONS": "-Xshare:off"}  # read no archive and write one: Java refuses
    for _ in range(2):
        assert "warning: Spark's classes are not kept ready: [JAVA_GATEWAY_EXITED]" in set_up(environ)


def with_jars(folder: Path) -> dict[str, str]:
    for kind in ("spark", "kafka"):
        shutil.copytree(jars_folder("spark").parent / kind, folder / "jars" / kind, copy_function=os.link)
    return {**os.environ, "LAKEHOUSE_JARS": str(folder / "jars")}


def set_up(environ: dict[str, str]) -> str:
    process = subprocess.run(
        [Path(sys.executable).with_name("lakehouse"), "setup"], env=environ, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout + process.stderr
