"""A notebook leaves its Spark to the next one in the same folder; commands beside it have their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.notebook.kernels import lakehouse_command, run_notebook

OPEN_LAKE = """
from lakehouse.run.lake import Lake
spark = Lake("lake").spark
print(spark._jvm.java.lang.ProcessHandle.current().pid(), spark.catalog.tableExists("seen"))
spark.range(3).createOrReplaceTempView("seen")
"""
# The user's own end of Spark: the next session is one of the same Java.
STOP_AND_OPEN = """
spark.stop()
again = Lake("lake").spark
print(again._jvm.java.lang.ProcessHandle.current().pid(), again.range(7).count())
"""


def printed_lines(folder: Path, *cells: str, **variables: str) -> list[str]:
    """Run cells in a kernel of their own; return the lines that they print."""
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    book = {"cells": [{**cell, "source": text} for text in cells], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    notebook = folder / "cells.ipynb"
    notebook.write_text(json.dumps(book))
    done = run_notebook(notebook, folder, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = [output for cell in json.loads((folder / "run.ipynb").read_text())["cells"] for output in cell["outputs"]]
    return "".join("".join(output.get("text", "")) for output in outputs if output.get("name") == "stdout").splitlines()


@pytest.mark.slow
def test_the_next_notebook_takes_the_spark_up(tmp_path: Path) -> None:
    variables = {"LAKEHOUSE_SPARK_KEEP": "2 minutes", "XDG_RUNTIME_DIR": str(tmp_path)}
    try:
        (first,) = printed_lines(tmp_path, OPEN_LAKE, **variables)
        java_pid, _ = first.split()
        assert first == f"{java_pid} False"
        second = printed_lines(tmp_path, OPEN_LAKE, STOP_AND_OPEN, **variables)
        assert second == [f"{java_pid} False", f"{java_pid} 7"]
        (third,) = printed_lines(tmp_path, OPEN_LAKE, **variables)
        assert third == f"{java_pid} False"
        (engine,) = json.loads(lakehouse_command(tmp_path, "spark", "status", "--json", **variables))
        assert (engine["pid"], engine["client"]) == (int(java_pid), None)
    finally:
        stopped = json.loads(lakehouse_command(tmp_path, "spark", "stop", "--json", **variables))
    assert [engine["ended"] for engine in stopped] == [True]
