"""The variables that Airflow's processes see."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from lakehouse.airflow.home import Home
from lakehouse.setup import places

# The variables of Python, a JVM, a Spark session and a Hadoop file system. No others of the caller are passed on.
PASSED_ON = (
    "HADOOP_CONF_DIR", "HOME", "JAVA_HOME", "LANG", "LC_ALL", "PATH", "SPARK_CONF_DIR", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "TMPDIR", "USER",
)  # fmt: skip
# The jobs' settings are passed on; Airflow's own (a database's password) are not. Each application has its own lake.
SETTINGS_PREFIX = "LAKEHOUSE_"
NOT_PASSED_ON_PREFIXES = ("LAKEHOUSE_AIRFLOW_", "LAKEHOUSE_LAKE_", "LAKEHOUSE_SUPERVISED_BY")


def airflow_variables(home: Home, airflow: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of Airflow's processes: a part of `environ`, and the project's folders."""
    passed_variables = {
        name: value
        for name, value in environ.items()
        if name in PASSED_ON or (name.startswith(SETTINGS_PREFIX) and not name.startswith(NOT_PASSED_ON_PREFIXES))
    }
    return passed_variables | {
        "AIRFLOW_HOME": str(home.folder),
        "LAKEHOUSE_APPLICATIONS": str(home.applications),
        "LAKEHOUSE_CACHE": str(places.cache_folder()),
        "LAKEHOUSE_PYTHON": sys.executable,
        "LAKEHOUSE_ROOT": str(places.project_folder()),
        # Airflow starts its parts by name.
        "PATH": os.pathsep.join([str(airflow.parent), passed_variables.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        # Airflow renames its processes, which would overwrite the variables by which members.py finds them.
        "SPT_NOENV": "1",
        "TZ": "UTC",
    }
