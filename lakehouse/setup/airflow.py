"""Airflow's own Python environment: made once from airflow.lock, every file by its hash.

It is kept apart from lakehouse's own: infra/airflow/README.md says why. The page "Streams & Tables" reads the lake
in it, by lakehouse's readers; so this package is on its path, and nothing else of the environment that runs this.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from lakehouse.errors import AirflowError, LakehouseError
from lakehouse.setup import places

STAMP = "installed.lock"  # a copy of the lock, written last: an interrupted set-up starts over
STDERR = 2


def to_stderr(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr)


def set_up(say: Callable[[str], None] = to_stderr) -> Path:
    """Make Airflow's environment, or bring it up to date, and return its `airflow`. Quick if there is nothing to do.

    say: is told that it takes a minute. What pip prints goes to stderr; pip's own configuration chooses the package
    index. Raises AirflowError if it fails.
    """
    folder = places.airflow_environment()
    airflow, stamp = folder / "bin" / "airflow", folder / STAMP
    if not (airflow.is_file() and stamp.is_file() and stamp.read_bytes() == places.AIRFLOW_LOCK.read_bytes()):
        say(f"airflow: installing Airflow into {folder} (700 MB, some minutes)")
        _install(folder)
        stamp.write_bytes(places.AIRFLOW_LOCK.read_bytes())
    _see_lakehouse(folder)
    return airflow


def _install(folder: Path) -> None:
    # --clear: what an older lock installed must not stay behind.
    _run("make a virtual environment; on Debian and Ubuntu install python3-venv",
         [sys.executable, "-m", "venv", "--clear", str(folder)])  # fmt: skip
    _run("install the packages of airflow.lock",
         [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
          "--root-user-action=ignore", "--require-hashes", "--requirement", str(places.AIRFLOW_LOCK)])  # fmt: skip


def _run(to_do: str, argv: list[str]) -> None:
    done = subprocess.run(argv, stdout=STDERR, check=False)
    if done.returncode != 0:
        raise AirflowError(
            f"{argv[0]} ended with code {done.returncode}; expected it to {to_do}. Its output is above; run "
            "`lakehouse setup --airflow` again."
        )


def _see_lakehouse(folder: Path) -> None:
    """Put this package on the environment's path, by a link: installed, it would bring a second `lakehouse` command.

    That command would lack Spark and Kafka, and stand before the right one on Airflow's PATH.
    """
    (packages,) = (folder / "lib").glob("python3*/site-packages")
    root = places.checkout()
    if root is None:  # beside the package lie all others of its environment, which Airflow must not see
        root = folder / "lakehouse-package"
        root.mkdir(exist_ok=True)
        link = root / places.PACKAGE.name
        if not link.is_symlink():
            link.symlink_to(places.PACKAGE)
    line = f"{root}\n"
    path = packages / "lakehouse-checkout.pth"
    if not path.is_file() or path.read_text() != line:
        path.unlink(missing_ok=True)
        path.write_text(line)


if __name__ == "__main__":
    try:
        set_up()
    except LakehouseError as error:
        sys.exit(f"error: {error}")
