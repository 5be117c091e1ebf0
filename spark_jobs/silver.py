"""Silver: brings every table of an application to bronze's last tick, and publishes its changelogs.

    python spark_jobs/silver.py --app examples/flights/app.py --until caught-up
    spark-submit --driver-class-path '.jars/spark/*' spark_jobs/silver.py --app examples/flights/app.py

Options, output and exit codes are those of spark_jobs/ingest.py. --part 1/3 and --tables totals,orders leave the other
tables to other processes.
"""

from __future__ import annotations

import sys

from lakehouse.cli.start.job import run_part
from lakehouse.cli.start.run_signals import claim_process

if __name__ == "__main__":
    claim_process()
    sys.exit(run_part("silver", sys.argv[1:], __doc__))
