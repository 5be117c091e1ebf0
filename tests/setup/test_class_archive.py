"""Java's archive of classes on a busy machine: `lakehouse setup` warns and goes on, and nothing is left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lakehouse.setup.places import jars_folder

# Java takes longer than no time at all to write it, on any machine.
SLOW_JAVA = """
import sys
from lakehouse.cli.main import main
from lakehouse.run.job import class_archive
class_archive.PATIENCE_SECONDS = 0.0
sys.exit(main(["setup"]))
"""


@pytest.mark.slow
def test_a_java_that_is_too_slow_costs_a_warning(tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    shutil.copytree(jars_folder("spark").parent, jars, copy_function=os.link)
    (jars / "classes.jsa").unlink(missing_ok=True)
    environ = {**os.environ, "LAKEHOUSE_JARS": str(jars)}
    ended = subprocess.run(
        [sys.executable, "-c", SLOW_JAVA], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=500
    )
    assert ended.returncode == 0, ended.stderr
    assert "warning: Spark's classes are not kept ready" in ended.stderr
    assert "Run `lakehouse setup` again" in ended.stderr
    assert not [path.name for path in jars.iterdir() if path.name.endswith("classes.jsa")]
    assert not [
        process for process in psutil.process_iter(["cmdline"]) if str(jars) in " ".join(process.info["cmdline"] or ())
    ]
