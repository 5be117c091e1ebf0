"""What is done when a catch-up has not ended within the application's freshness: Airflow calls this then."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

log = logging.getLogger("lakehouse.freshness")


def tell(context: Mapping[str, Any], application: str, minutes: int) -> None:
    """Say it in the callback's log, as an error; the run's page in the UI shows the missed deadline itself."""
    run = context["dag_run"]
    log.error(
        "application %s is not fresh: run %s of %s is %s, and %s minutes have passed since it was queued",
        application, run["dag_run_id"], run["dag_id"], run["state"], minutes,
    )  # fmt: skip
