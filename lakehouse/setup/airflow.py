"""Makes Airflow's own Python environment, once, from airflow.lock, every file by its hash.

It is apart from lakehouse's own: infra/airflow/README.md says why. The page "Streams & Tables" reads the lake in it, by
lakehouse's readers; so this package is on its path, and nothing else of the environment that runs this.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from lakehouse.errors import AirflowError, LakehouseError
from lakehouse.setup import places
from lakehouse.setup.packages import run_pip

STAMP = "installed.lock"  # a copy of the lock, written last, so that an interrupted set-up starts over
STDERR = 2


def to_stderr(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr)


def set_up_airflow(say: Callable[[str], None] = to_stderr) -> Path:
    """Make Airflow's environment, or bring it up to date, and return its `airflow`. Quick if there is nothing to do.

    say: called with a line before the installation, which takes minutes, and every few seconds while it lasts; if it
    fails, with pip's last lines. pip's own configuration chooses the package index. Raises AirflowError if it fails.
    """
    environment_folder = places.airflow_environment()
    airflow_command, stamp_file = environment_folder / "bin" / "airflow", environment_folder / STAMP
    if not (
        airflow_command.is_file()
        and stamp_file.is_file()
        and stamp_file.read_bytes() == places.AIRFLOW_LOCK.read_bytes()
    ):
        say(f"airflow: installing Airflow into {environment_folder} (700 MB, some minutes)")
        _install_packages(environment_folder, say)
        stamp_file.write_bytes(places.AIRFLOW_LOCK.read_bytes())
    _link_lakehouse(environment_folder)
    return airflow_command


def _install_packages(folder: Path, say: Callable[[str], None]) -> None:
    # --clear: packages of an older lock must not stay behind.
    argv = [sys.executable, "-m", "venv", "--clear", str(folder)]
    exit_code = subprocess.run(argv, stdout=STDERR, check=False).returncode
    _check_exit("make a virtual environment; on Debian and Ubuntu install python3-venv", argv, exit_code)
    argv = [
        *(str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off"),
        *("--root-user-action=ignore", "--require-hashes", "--requirement", str(places.AIRFLOW_LOCK)),
    ]
    exit_code = run_pip(argv, places.AIRFLOW_LOCK, lambda text: say(f"airflow: {text}"))
    _check_exit("install the packages of airflow.lock", argv, exit_code)


def _check_exit(purpose: str, argv: list[str], exit_code: int) -> None:
    if exit_code != 0:
        raise AirflowError(
            f"{argv[0]} ended with code {exit_code}; expected it to {purpose}. Its output is above; run "
            "`lakehouse setup --airflow` again."
        )


def _link_lakehouse(folder: Path) -> None:
    """Put this package on the environment's path, by a link: installed, it would bring a second `lakehouse` command.

    That command would lack Spark and Kafka, and stand before the right one on Airflow's PATH.
    """
    (site_packages,) = (folder / "lib").glob("python3*/site-packages")
    package_root = places.checkout_folder()
    if package_root is None:  # all other packages of its environment lie beside it, and Airflow must not see them
        package_root = folder / "lakehouse-package"
        package_root.mkdir(exist_ok=True)
        package_link = package_root / places.PACKAGE.name
        if not package_link.is_symlink():
            package_link.symlink_to(places.PACKAGE)
    path_line = f"{package_root}\n"
    pth_file = site_packages / "lakehouse-checkout.pth"
    if not pth_file.is_file() or pth_file.read_text() != path_line:
        pth_file.unlink(missing_ok=True)
        pth_file.write_text(path_line)


if __name__ == "__main__":
    try:
        set_up_airflow()
    except LakehouseError as error:
        sys.exit(f"error: {error}")
