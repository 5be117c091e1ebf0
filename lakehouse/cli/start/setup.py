"""`lakehouse setup`: fetch the needs of a run besides Python packages."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.errors import ConfigError, LakehouseError, reason_of_error
from lakehouse.phases import phase
from lakehouse.setup import airflow as airflow_environment
from lakehouse.setup import jars, places
from lakehouse.setup.log_store import build_log_store
from lakehouse.setup.registry import fetch_registry


def setup(
    airflow: Annotated[bool, typer.Option("--airflow", help="Also make Airflow's own Python environment.")] = False,
    s3: Annotated[bool, typer.Option("--s3", help="Also fetch what a lake on s3a:// needs (14 MB).")] = False,
    registry: Annotated[
        bool, typer.Option("--registry", help="Also fetch the embedded schema registry (104 MB).")
    ] = False,
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
    start_time = time.monotonic()
    jars_folder = places.jars_target()
    try:
        jars.find_java()
        is_fetched = jars.resolve_jars(jars_folder)
        if s3:
            is_fetched |= jars.resolve_jars(jars_folder, ("s3",)) | build_log_store(jars_folder)
        if registry:
            is_fetched |= fetch_registry(jars_folder)
    except jars.ResolveError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(
            f"{jars_folder} can't be filled: {reason_of_error(error)}. Give the jars another folder: LAKEHOUSE_JARS, "
            "or LAKEHOUSE_CACHE."
        ) from None
    jars_state = (
        f"fetched in {time.monotonic() - start_time:.0f} s" if is_fetched else "there already, and as they must be"
    )
    show.say(f"jars: {jars_state}: {jars_folder}")
    if classes:
        _keep_spark_classes()
    if airflow:
        show.say(f"airflow: {airflow_environment.set_up_airflow().parents[1]}")


def _keep_spark_classes() -> None:
    from lakehouse.run.job import class_archive
    from lakehouse.spark.jvm.failure import SPARK_ERRORS  # slow to import, and not needed for the jars alone

    start_time = time.monotonic()
    try:
        with phase("keeping Spark's classes ready, in about a minute"):
            is_written = class_archive.write_archive()
    except (LakehouseError, *SPARK_ERRORS, OSError) as error:
        show.say(f"warning: Spark's classes are not kept ready: {reason_of_error(error)}", stderr=True)
        return
    show.say(f"Spark's classes: {f'kept ready in {time.monotonic() - start_time:.0f} s' if is_written else 'ready'}")
