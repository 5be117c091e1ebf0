"""Airflow's own Python environment, and the variables that its processes see."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lakehouse.airflow.home import Home
from lakehouse.errors import AirflowError, ConfigError
from lakehouse.settings import config

# The variables of Python, a JVM, a Spark session and a Hadoop file system. Others of the caller are not passed on.
PASSED_ON = (
    "HADOOP_CONF_DIR", "HOME", "JAVA_HOME", "LANG", "LC_ALL", "PATH", "SPARK_CONF_DIR", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "TMPDIR", "USER",
)  # fmt: skip
# The jobs' settings are passed on; Airflow's own (a database's password) are not. Each application has its own lake.
SETTINGS_PREFIX = "LAKEHOUSE_"
NOT_PASSED_ON_PREFIXES = ("LAKEHOUSE_AIRFLOW_", "LAKEHOUSE_LAKE_", "LAKEHOUSE_SUPERVISED_BY")
STDERR = 2


def set_up() -> Path:
    """Make Airflow's environment, or bring it up to date, and return its `airflow`. Quick if there is nothing to do.

    The installer's output goes to stderr. Raises ConfigError outside a checkout, AirflowError if it fails.
    """
    root = config.home()
    script = root / "infra" / "airflow" / "setup.sh"
    if not script.is_file():
        raise ConfigError(
            f"found no {script}; expected the project's checkout, whose infra/airflow has Airflow's lock. "
            "Install lakehouse from a checkout (make setup)."
        )
    done = subprocess.run(["sh", str(script)], cwd=root, stdout=STDERR, check=False)
    if done.returncode != 0:
        raise AirflowError(
            f"{script} ended with code {done.returncode}; expected Airflow's environment in {root / '.venv-airflow'}. "
            "Its output is above; run it again."
        )
    return root / ".venv-airflow" / "bin" / "airflow"


def variables(home: Home, airflow: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of Airflow's processes: little of `environ`, and the folders of the project and applications."""
    passed = {
        name: value
        for name, value in environ.items()
        if name in PASSED_ON or (name.startswith(SETTINGS_PREFIX) and not name.startswith(NOT_PASSED_ON_PREFIXES))
    }
    return passed | {
        "AIRFLOW_HOME": str(home.folder),
        "LAKEHOUSE_APPLICATIONS": str(home.applications),
        "LAKEHOUSE_PYTHON": sys.executable,
        "LAKEHOUSE_ROOT": str(config.home()),
        # Airflow starts its parts by name.
        "PATH": os.pathsep.join([str(airflow.parent), passed.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        # Airflow renames its processes, which would overwrite the variables by which members.py finds them.
        "SPT_NOENV": "1",
        "TZ": "UTC",
    }
