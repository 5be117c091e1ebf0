"""Airflow calls this when a catch-up has not ended within the application's freshness."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

log = logging.getLogger("lakehouse.freshness")


def tell(context: Mapping[str, Any], application: str, minutes: int) -> None:
    """Write an error to the callback's log; the run's page in the UI shows the missed deadline itself."""
    run = context["dag_run"]
    log.error(
        "application %s is not fresh: run %s of %s is %s, and %s minutes have passed since it was queued",
        application, run["dag_run_id"], run["dag_id"], run["state"], minutes,
    )  # fmt: skip
