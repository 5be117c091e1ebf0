"""Clears what a command has left in a kept engine.

A command that ends by itself has stopped its queries and its jobs. If something still
runs, nothing is repaired: the engine ends. Otherwise only Java's memory of the command is cleared.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import psutil

PATIENCE_SECONDS = 3.0
OWN_BINDINGS = ("GATEWAY_SERVER", "t", "j")  # of Py4J itself: the server, its entry point, the default view of Java


def clear_engine(gateway: Any, java_context: Any, java_session: Any, java_pid: int) -> bool:
    """Clear what this process has left; say whether nothing is left. No other command may use the engine if not."""
    shared_state = java_session.sharedState()
    if not shared_state.activeStreamingQueries().isEmpty() or not _cancel_jobs(java_context):
        return False
    catalog = shared_state.externalCatalog()
    if catalog.listDatabases().size() != 1 or catalog.listTables("default").size() != 0:
        return False
    shared_state.globalTempViewManager().clear()
    shared_state.cacheManager().clearCache()
    for frame in java_context.getPersistentRDDs().values():
        frame.unpersist(False)
    # A lake may be removed, and made anew at its place, before the next command.
    gateway.jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    if not _end_workers(gateway, java_pid):
        return False
    # The objects that this process held; the next one counts on from their numbers.
    java_names = gateway.jvm.java.util.HashSet()
    bindings = gateway.java_gateway_server.getGateway().getBindings()
    for name in OWN_BINDINGS:
        java_names.add(name)
    bindings.keySet().retainAll(java_names)
    return True


def _cancel_jobs(java_context: Any) -> bool:
    java_context.sc().cancelAllJobs()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not java_context.sc().dagScheduler().activeJobs().isEmpty():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def _end_workers(gateway: Any, java_pid: int) -> bool:
    """End the processes that ran functions in Python: they hold the modules of this command's application.

    Spark must forget them, too: a task that finds its worker dead would fail. So what makes them is stopped; it makes
    new ones when it is asked again.
    """
    spark_env = gateway.jvm.org.apache.spark.SparkEnv.get()
    factories_field = spark_env.getClass().getDeclaredField("pythonWorkers")
    factories_field.setAccessible(True)
    factories = factories_field.get(spark_env).values().toList()
    for index in range(factories.size()):
        factories.apply(index).stop()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while workers := _living_children(java_pid):
        for worker in workers:
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def _living_children(pid: int) -> list[psutil.Process]:
    living = []
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            # Java has a shell from before it was Java, which nobody waited for.
            if child.status() != psutil.STATUS_ZOMBIE:
                living.append(child)
    return living
