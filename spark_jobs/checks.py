"""Checks: is every table at bronze's last tick, and every offset accounted for? What `lakehouse test check` does.

    python spark_jobs/checks.py --app examples/flights/app.py

Needs no Spark. One JSON line on stdout: {"event": "done" | "error", ...}.
Exit codes: 0 all is well, 2 bad input, 1 something is not as it must be.
"""

from __future__ import annotations

import sys

from lakehouse.cli.start.job import run_checks

if __name__ == "__main__":
    sys.exit(run_checks(sys.argv[1:], __doc__))
