"""Notebooks: whether this process runs one, and how it shows Spark's rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ROWS_SHOWN = 20
EAGER = "spark.sql.repl.eagerEval"


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


def show_rows(spark: SparkSession) -> None:
    """Let a DataFrame that ends a cell show its first rows as a table; Spark escapes what is in them."""
    spark.conf.set(f"{EAGER}.enabled", "true")
    spark.conf.set(f"{EAGER}.maxNumRows", ROWS_SHOWN)
