"""Whether a command, or a notebook, keeps its engine: [spark] keep."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from lakehouse.duration import duration_ms
from lakehouse.passed_on import SUPERVISED_BY
from lakehouse.settings.sections import Spark
from lakehouse.spark.cluster.address import is_local

AUTO, OFF = "auto", "off"
BY_DEFAULT = "10 minutes"
CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
CONTAINER_VARIABLES = ("CI", "KUBERNETES_SERVICE_HOST", "container")
_is_allowed = [False]
_in_notebook = [False]


def allow_keeping(*, allowed: bool, in_notebook: bool = False) -> None:
    """Say that this process is a command that ends by itself, or a notebook, and may use an engine that outlives it."""
    _is_allowed[0], _in_notebook[0] = allowed, in_notebook


def is_for_notebook() -> bool:
    """Return whether this process is a notebook that may use such an engine."""
    return _in_notebook[0]


def keep_seconds(settings: Spark, environ: Mapping[str, str] | None = None) -> float | None:
    """Return for how long an engine is kept when nobody uses it; None if this process does not use a kept one.

    "auto" keeps it where the next use is near: at a terminal, in a notebook, and in the tasks of `lakehouse airflow
    up`; not in containers and CI. An engine is cleared by private ways of Spark, so there is none without them; and a
    cluster's executors must be given back.
    """
    environ = os.environ if environ is None else environ
    if not _is_allowed[0] or not settings.internals or not is_local(settings.master) or settings.keep == OFF:
        return None
    if settings.keep == AUTO:
        in_container = any(Path(name).exists() for name in CONTAINER_FILES)
        is_near = is_for_notebook() or sys.stderr.isatty() or environ.get(SUPERVISED_BY)
        if in_container or any(environ.get(name) for name in CONTAINER_VARIABLES) or not is_near:
            return None
    return duration_ms(BY_DEFAULT if settings.keep == AUTO else settings.keep, "keep") / 1000
