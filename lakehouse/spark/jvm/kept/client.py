"""A session on a kept engine: taken up or started, and left behind clean when this process ends."""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import psutil
import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lakehouse.errors import StorageError, reason_of_error
from lakehouse.setup.java_process import java_variables
from lakehouse.spark.jvm.kept import engine as engines
from lakehouse.spark.jvm.kept.choice import is_for_notebook
from lakehouse.spark.jvm.kept.engine import EngineClaim, KeptEngine
from lakehouse.spark.jvm.kept.identity import hash_of_start
from lakehouse.spark.jvm.kept.leaving import clear_engine
from lakehouse.spark.jvm.kept.private_files import files_here
from lakehouse.spark.jvm.kept.scratch import LOCAL_DIR, LOCAL_DIRS, Scratch, open_scratch

PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_log = logging.getLogger("lakehouse")
_engines_in_use: list[KeptEngine] = []  # the engine that this process has taken up, if any


def connect_to_engine(
    settings: Mapping[str, str],
    keep_seconds: float,
    properties: Callable[[Mapping[str, str], Path | None], AbstractContextManager[Path]],
    own_arguments: str,
) -> SparkSession | None:
    """Return a new session of the folder's engine, which is started if there is none; None if it can't be used.

    Then one line says why, and the caller starts a Java of its own. settings: of Spark. properties: gives
    a file with settings, in a folder. own_arguments: the user's for spark-submit. A session of an engine without a
    context of Spark is for the caller to make: then None is returned, too, and PySpark is connected.
    """
    try:
        claim = engines.claim_engine(files := files_here(for_notebook=is_for_notebook()))
    except (StorageError, OSError) as error:
        _warn_not_kept(error)
        return None
    if claim is None:
        user = engines.client_pid(files)
        if user != os.getpid():  # or this process has stopped Spark's context, and makes the next in the same Java
            _log.warning(f"the kept Spark of this folder is in use by process {user}: this process starts its own.")
        return None
    try:
        key = hash_of_start(settings, keep_seconds, os.environ)
        engine = engines.usable_engine(claim, key)
        if engine is None:
            engine = _start_engine(claim, key, settings, keep_seconds, properties, own_arguments)
    except OSError as error:
        claim.give_up()
        _warn_not_kept(error)
        return None
    except BaseException:
        claim.give_up()
        raise
    if engine is None:
        claim.give_up()
        _log.warning(f"Spark is not kept: its Java did not start; {files.log} has what it printed.")
        return None
    try:
        _connect(engine)
        session = _new_session()
    except (Py4JError, OSError):  # it ended just now
        SparkContext._gateway = SparkContext._jvm = None
        engine.end()
        claim.give_up()
        return None
    _engines_in_use[:] = [engine]
    atexit.register(_release_engine, claim, engine, os.getpid())
    return session


def _start_engine(
    claim: EngineClaim,
    key: str,
    settings: Mapping[str, str],
    keep_seconds: float,
    properties: Callable[[Mapping[str, str], Path | None], AbstractContextManager[Path]],
    own_arguments: str,
) -> KeptEngine | None:
    """Start an engine with a folder for what its Java writes; None if Java did not start. Raises OSError."""
    scratch = open_scratch()
    try:
        with properties(scratch.settings(settings), scratch.folder) as properties_file:
            return engines.start_engine(
                claim,
                key,
                engines.submit_arguments(properties_file, own_arguments),
                _spark_home() / "bin/spark-submit",
                keep_seconds,
                scratch_folders(settings, os.environ, scratch),
                scratch.environ(settings, os.environ) | java_variables(),
                scratch.lock,
            )
    finally:
        os.close(scratch.lock)  # the keeper has it


def _warn_not_kept(error: Exception) -> None:
    file = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
    _log.warning(f"Spark is not kept: {file}{reason_of_error(error)}")


def kill_engine_in_use() -> None:
    """Kill the Java of the engine that this process uses; its keeper clears the rest."""
    for engine in _engines_in_use:
        with suppress(psutil.Error):
            java_process = psutil.Process(engine.java_pid)
            if java_process.ppid() == engine.keeper_pid:  # and not another process of that number
                java_process.kill()


def scratch_folders(settings: Mapping[str, str], environ: Mapping[str, str], scratch: Scratch) -> list[str]:
    """Return the folders of this machine in which Spark keeps shuffles and large frames."""
    named = environ.get(LOCAL_DIRS) or settings.get(LOCAL_DIR) or str(scratch.folder)
    return [folder for folder in named.split(",") if folder]


def _spark_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _connect(engine: KeptEngine) -> None:
    """Connect PySpark with an engine's Java."""
    os.environ[PORT], os.environ[SECRET] = str(engine.port), engine.secret
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ[PORT], os.environ[SECRET]
    # Java tells Python which proxies it has collected, also those of earlier commands, and knows them by these numbers.
    gateway.gateway_property.pool.next_id = time.time_ns()
    SparkContext._ensure_initialized(gateway=gateway)


def _new_session() -> SparkSession | None:
    """Return a new session of the context that an earlier command has left; None if there is none."""
    gateway: Any = SparkContext._gateway
    sessions = gateway.jvm.org.apache.spark.sql.classic.SparkSession
    default_session = sessions.getDefaultSession()
    if not default_session.isDefined() or default_session.get().sparkContext().isStopped():
        return None
    java_session = default_session.get()
    java_context = gateway.jvm.JavaSparkContext.fromSparkContext(java_session.sparkContext())
    context = SparkContext(gateway=gateway, jsc=java_context, conf=SparkConf(_jconf=java_context.sc().conf()))
    return SparkSession(context, java_session.newSession())


def _release_engine(claim: EngineClaim, engine: KeptEngine, owner_pid: int) -> None:
    """Leave the engine to the next command if all that this command left can be cleared; else the engine ends."""
    if os.getpid() != owner_pid:  # a forked child
        return
    context: Any = SparkContext._active_spark_context
    if context is None:
        return
    with suppress(Exception):  # then the engine ends, as after a command that dies
        session: Any = SparkSession._instantiatedSession
        if clear_engine(context._gateway, context._jsc, session._jsparkSession, engine.java_pid):
            claim.release()
