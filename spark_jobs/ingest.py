"""Ingest: Kafka to bronze, all topics of an application, one commit a tick.

    python spark_jobs/ingest.py --app examples/flights/app.py --until caught-up
    spark-submit --driver-class-path '.jars/spark/*' spark_jobs/ingest.py --app examples/flights/app.py

The second form takes Spark's settings from spark-submit; on a cluster give it the jars with --jars as well, and set
PYSPARK_PYTHON to the Python that has lakehouse. JSON lines on stdout; the last one is {"event": "done" | "error", ...}.
Exit codes: 0 done, 2 bad input, 1 anything else.
"""

from __future__ import annotations

import sys

from lakehouse.cli.start.job import run_part
from lakehouse.cli.start.run_signals import claim_process

if __name__ == "__main__":
    claim_process()
    sys.exit(run_part("ingest", sys.argv[1:], __doc__))
