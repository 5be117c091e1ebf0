"""Makes a cluster's executors ready for lakehouse's functions, by one small job before anything is written.

The job asks an executor for its Python. Without lakehouse, or with other code than the driver's, it gets the driver's
code as a zip. See docs/cluster.md.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from lakehouse.errors import ConfigError
from lakehouse.settings.config import Settings
from lakehouse.spark.cluster import executor_facts
from lakehouse.spark.cluster.root_cause import root_cause

JOB_GROUP = "lakehouse-executors"


def prepare_executors(session: SparkSession, settings: Settings) -> None:
    """Make a cluster's executors ready for lakehouse's functions, and the session ready for their number.

    Waits for the first executor. Raises ConfigError if none comes in time, or if their Python lacks something.
    """
    facts = _ask_executor(session, settings.spark.executor_wait_seconds)
    python_text = f"the executors' Python {facts['python']} ({facts['file']} on {facts['host']})"
    if missing_packages := [package for package in executor_facts.PACKAGES if facts[package] is None]:
        raise ConfigError(
            f"{python_text} lacks {', '.join(missing_packages)}; expected {', '.join(executor_facts.PACKAGES)}. "
            "Install them there, or name another Python of those machines: [spark] python."
        )
    if facts["lakehouse"] != executor_facts.digest_files(_module_file("lakehouse").parent):
        _ship_code(session)
    session.conf.set("spark.sql.shuffle.partitions", _partition_count(session, settings))


def _partition_count(session: SparkSession, settings: Settings) -> str:
    own_count = settings.spark.options.get("spark.sql.shuffle.partitions")
    return own_count or str(max(2, session.sparkContext.defaultParallelism))


def _ask_executor(session: SparkSession, wait_seconds: float) -> dict[str, str | None]:
    """Return what an executor's Python has. Raises ConfigError."""
    context = session.sparkContext
    # By value: an executor may have no lakehouse from which to import the function.
    cast(Any, cloudpickle).register_pickle_by_value(executor_facts)
    gave_up = threading.Event()

    def give_up() -> None:
        gave_up.set()
        context.cancelJobGroup(JOB_GROUP)

    timer = threading.Timer(wait_seconds, give_up)
    timer.daemon = True
    context.setJobGroup(JOB_GROUP, "ask an executor for its Python", interruptOnCancel=True)
    timer.start()
    try:
        describe_python = executor_facts.describe_python
        return context.parallelize([0], 1).map(lambda _: describe_python()).collect()[0]
    except Exception as error:  # of PySpark, or of Java
        if gave_up.is_set():
            raise ConfigError(_describe_silence(session, wait_seconds)) from None
        raise ConfigError(
            f"the executors can't run lakehouse's functions: {root_cause(str(error))} Expected a Python of the same "
            f"version as the driver's, {sys.version_info.major}.{sys.version_info.minor}, with "
            f"{', '.join(executor_facts.PACKAGES)}. Name it in [spark] python."
        ) from error
    finally:
        timer.cancel()
        cast(Any, cloudpickle).unregister_pickle_by_value(executor_facts)
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]


def _describe_silence(session: SparkSession, wait_seconds: float) -> str:
    driver_host = session.conf.get("spark.driver.host", "a host that Spark chose")
    return (
        f"no executor of {session.sparkContext.master} ran a task within {wait_seconds:g} s ([spark] "
        f"executor_wait_seconds). Look at the master's page and the workers' logs. Likely: the cluster has no free "
        "cores, or less memory than spark.executor.memory asks for; the executors can't reach the driver, "
        f"which told them {driver_host}: say a better address in [spark] driver_host, and open its ports."
    )


def _ship_code(session: SparkSession) -> None:
    """Send lakehouse's code to the executors, in front of what their Python has."""
    folder = tempfile.mkdtemp(prefix="lakehouse-code-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors that start later fetch the file, too
    zip_file = Path(folder) / "lakehouse-code.zip"
    with zipfile.ZipFile(zip_file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as code_zip:
        for file, name in _shipped_files():
            code_zip.write(file, name)
    session.sparkContext.addPyFile(str(zip_file))


def _shipped_files() -> Iterator[tuple[Path, str]]:
    """Yield the files of the shipped packages, and their names in the zip. Compiled code is left out."""
    for package in executor_facts.SHIPPED:
        module_file = _module_file(package)
        if module_file.name != "__init__.py":
            yield module_file, module_file.name
            continue
        for file in sorted(module_file.parent.rglob("*")):
            if file.is_file() and file.suffix not in (".pyc", ".so", ".pyd"):
                yield file, f"{package}/{file.relative_to(module_file.parent).as_posix()}"


def _module_file(package: str) -> Path:
    package_spec = importlib.util.find_spec(package)
    if package_spec is None or package_spec.origin is None:
        raise ConfigError(f"this Python lacks {package}, which lakehouse needs. Install lakehouse again.")
    return Path(package_spec.origin)
