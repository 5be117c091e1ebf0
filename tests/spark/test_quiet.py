"""What Java, Spark and Delta would write by themselves: not a line, and no folder where the command runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path
from lakehouse.settings.config import load
from lakehouse.spark.jvm.session.session import open_session
from lakehouse.spark.table.files import vacuum_files

spark = open_session(load(environ={}, start=Path.cwd()))
place = str(Path(sys.argv[1]) / "things")
spark.range(3).write.format("delta").save(place)
spark.range(3).write.format("delta").mode("overwrite").save(place)
spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
vacuum_files(spark, place, 0)
try:
    spark.range(1).selectExpr("size(id)")
except Exception as error:
    print(type(error).__name__)
files = len(list(Path(place).glob("*.parquet")))
print(f"{files < 4}, {spark.read.format('delta').load(place).count()} rows")
"""


@pytest.mark.slow
def test_vacuum_says_nothing_and_no_warehouse_is_made(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "script.py").write_text(SCRIPT)
    process = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path)],
        cwd=here, env={**os.environ, "LAKEHOUSE_JARS": _jars()}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == ["AnalysisException", "True, 3 rows"]
    # No option of Java turns this line about a module of Spark's off.
    assert [line for line in process.stderr.splitlines() if "Using incubator modules" not in line] == []
    assert list(here.iterdir()) == []


def _jars() -> str:
    from lakehouse.setup.places import jars_folder

    return str(jars_folder("spark").parent)
