"""The environment variables that jobs see when Airflow starts them: those of Python, a JVM, Spark and the clouds.

Airflow's own variables hold its secrets (a database's password, connections), and are never among them.
`dags/lakehouse_jobs.py` has the same rule for an Airflow that has no lakehouse installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

PATTERNS_VARIABLE = "LAKEHOUSE_PASS_ON"  # the patterns of the setting airflow.pass_on, for Airflow's processes
# All processes of an Airflow of `lakehouse airflow up` have it: its home and the part (`lakehouse.airflow.members`).
SUPERVISED_BY = "LAKEHOUSE_SUPERVISED_BY"
PASSED_ON = (
    "AWS_*", "AZURE_*", "GOOGLE_*", "HADOOP_CONF_DIR", "HOME", "JAVA_HOME", "JDK_JAVA_OPTIONS", "KRB5*", "LANG",
    "LC_ALL", "PATH", "PYSPARK_PYTHON", "SPARK_CONF_DIR", "SPARK_HOME", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR",
    "YARN_CONF_DIR",
)  # fmt: skip
# A name, or the beginning of names before a star.
PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")
NEVER_PASSED_ON = re.compile(r"AIRFLOW|_AIRFLOW|LAKEHOUSE_|PYTHON(PATH|HOME|STARTUP)|LD_")


def is_passed_on(name: str, patterns: Iterable[str]) -> bool:
    """Say whether a variable's name matches one of the patterns: names, and beginnings of names with a star."""
    if NEVER_PASSED_ON.match(name):
        return False
    return any(name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns)


def variables_passed_on(environ: Mapping[str, str], own_patterns: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables that a job may see, without lakehouse's settings.

    own_patterns: those of the setting; those of the variable `PATTERNS_VARIABLE` are added.
    """
    patterns = [*PASSED_ON, *own_patterns, *filter(None, environ.get(PATTERNS_VARIABLE, "").split(","))]
    return {name: value for name, value in environ.items() if is_passed_on(name, patterns)}
