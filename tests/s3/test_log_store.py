"""Two processes write one Delta log on S3: each version has one writer, and the other is told."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pyspark
import pytest

from lakehouse.setup.jars import find_java
from lakehouse.setup.log_store import CLASS_NAME, build_log_store, log_store_jar
from lakehouse.setup.places import jars_target, s3_jars
from tests.s3.server import KEY, SECRET, ObjectStore

RACE = Path(__file__).with_name("Race.java")
VERSIONS = 60


@pytest.mark.rotated
def test_the_log_store_is_compiled_once_and_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "spark").symlink_to(jars_target() / "spark")
    assert build_log_store(tmp_path)
    first_bytes = log_store_jar(tmp_path).read_bytes()
    assert not build_log_store(tmp_path)
    log_store_jar(tmp_path).unlink()
    assert build_log_store(tmp_path)
    assert log_store_jar(tmp_path).read_bytes() == first_bytes


@pytest.mark.slow
def test_no_commit_is_lost_when_two_processes_write_one_log(object_store: ObjectStore) -> None:
    """With Delta's own store for s3a, `io.delta.storage.S3SingleDriverLogStore`, some thirty of sixty are."""
    uri = object_store.new_lake()
    jar_folders = [Path(pyspark.__file__).parent / "jars", jars_target() / "spark"]
    class_path = os.pathsep.join([*(f"{folder}/*" for folder in jar_folders), *map(str, s3_jars())])
    settings = {
        "fs.s3a.endpoint": object_store.endpoint,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": KEY,
        "fs.s3a.secret.key": SECRET,
    }
    options = [f"{key}={value}" for key, value in settings.items()]
    command = [find_java(), "-cp", class_path, "org.codehaus.janino.SimpleCompiler", str(RACE), "Race"]
    writers = [
        subprocess.Popen(
            [*command, CLASS_NAME, uri, str(VERSIONS), name, "2", *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    outputs = [writer.communicate()[0] for writer in writers]
    own_counts = [int(match[1]) for output in outputs if (match := re.search(r"own (\d+)", output))]
    contents = [path.read_text().strip() for path in sorted(object_store.files(uri).glob("0*.json"))]
    assert [contents.count(name) for name in ("one", "two")] == own_counts
    assert min(own_counts) > 0, "both have won some versions: else they did not meet"
