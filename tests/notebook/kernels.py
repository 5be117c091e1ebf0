"""Notebooks that are run in kernels of this environment, as Jupyter does it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PACKAGES = Path(__file__).parents[2] / ".docs"
# nbclient is not in this environment; it runs in a process that has it.
RUN = """
import sys, nbformat, nbclient
book = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(book, timeout=500, kernel_name="python3").execute()
nbformat.write(book, sys.argv[2])
"""


def run_notebook(notebook: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a notebook's cells in a folder, in a kernel that is started and ended; write it to run.ipynb there."""
    assert PACKAGES.is_dir(), "run make docs-packages"
    kernel = folder / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    environ = {
        **os.environ,
        "JUPYTER_PATH": str(folder / "jupyter"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(PACKAGES),
        **variables,
    }
    return subprocess.run(
        [sys.executable, "-c", RUN, str(notebook), str(folder / "run.ipynb")],
        cwd=folder, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip


def lakehouse_command(folder: Path, *arguments: str, **variables: str) -> str:
    """Give a command in a folder; return what it prints."""
    command = [sys.executable, "-P", "-m", "lakehouse.cli.main", *arguments]
    environ = os.environ | variables
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False).stdout
