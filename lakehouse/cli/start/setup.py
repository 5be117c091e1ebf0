"""`lakehouse setup`: fetch what a run needs besides Python packages."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.errors import ConfigError, LakehouseError, reason
from lakehouse.setup import airflow as airflow_environment
from lakehouse.setup import jars, places


def setup(
    airflow: Annotated[bool, typer.Option("--airflow", help="Also make Airflow's own Python environment.")] = False,
    classes: Annotated[
        bool, typer.Option("--classes/--no-classes", help="Keep Spark's classes ready for Java (220 MB, a minute).")
    ] = True,
) -> None:
    """Fetch the jars of Spark's readers and of the embedded Kafka, once; each must have the checksum that we know.

    Needs Java 17 or newer. They land in .jars of a checkout, else in the user's cache, and a second run only checks
    them. LAKEHOUSE_CACHE names another cache, LAKEHOUSE_JARS the folder of the jars. Then Spark runs once, so that
    Java keeps its classes ready beside the jars: each later start takes some seconds less.

    Example: lakehouse setup --airflow
    """
    began = time.monotonic()
    target = places.jars_target()
    try:
        jars.java()
        fetched = jars.resolve(target)
    except jars.ResolveError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(
            f"{target} can't be filled: {reason(error)}. Give the jars another folder: LAKEHOUSE_JARS, or "
            "LAKEHOUSE_CACHE."
        ) from None
    done = f"fetched in {time.monotonic() - began:.0f} s" if fetched else "there already, and as they must be"
    show.say(f"jars: {done}: {target}")
    if classes:
        _keep_classes()
    if airflow:
        show.say(f"airflow: {airflow_environment.set_up().parents[1]}")


def _keep_classes() -> None:
    from lakehouse.run.job import class_archive
    from lakehouse.spark.failure import SPARK_ERRORS  # slow to import, and the jars alone don't need it

    began = time.monotonic()
    try:
        written = class_archive.write()
    except (LakehouseError, *SPARK_ERRORS, OSError) as error:
        show.say(f"warning: Spark's classes are not kept ready: {reason(error)}", stderr=True)
        return
    show.say(f"Spark's classes: {f'kept ready in {time.monotonic() - began:.0f} s' if written else 'ready'}")
