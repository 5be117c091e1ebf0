"""The variables that Airflow's processes see."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from lakehouse.airflow.home import Home
from lakehouse.passed_on import PATTERNS_VARIABLE, variables_passed_on
from lakehouse.setup import places

# The jobs' settings are passed on; Airflow's own (a database's password) are not.
SETTINGS_PREFIX = "LAKEHOUSE_"
NOT_PASSED_ON_PREFIXES = ("LAKEHOUSE_AIRFLOW_", "LAKEHOUSE_SUPERVISED_BY")
# Each application has a lake and a file of its own, in its manifest; how a store of objects is reached is the same.
NOT_PASSED_ON = ("LAKEHOUSE_LAKE_PATH", "LAKEHOUSE_LAKE_APP")


def airflow_variables(
    home: Home, airflow: Path, environ: Mapping[str, str] = os.environ, pass_on: Sequence[str] = ()
) -> dict[str, str]:
    """Return the environment of Airflow's processes: a part of `environ`, and the project's folders.

    pass_on: the setting airflow.pass_on, for the jobs.
    """
    passed_variables = variables_passed_on(environ, [*pass_on, "USER"])
    passed_variables |= {
        name: value
        for name, value in environ.items()
        if name.startswith(SETTINGS_PREFIX)
        and not name.startswith(NOT_PASSED_ON_PREFIXES)
        and name not in NOT_PASSED_ON
    }
    if pass_on:
        passed_variables[PATTERNS_VARIABLE] = ",".join(pass_on)
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
