"""What is known of a cluster without one: addresses, the code that is sent, the cause of an executor's error."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
from importlib.metadata import distribution

import pytest

from lakehouse.errors import ConfigError
from lakehouse.settings.config import load
from lakehouse.spark.cluster.address import address_settings, is_local
from lakehouse.spark.cluster.executor_facts import PACKAGES, SHIPPED, describe_python
from lakehouse.spark.cluster.root_cause import root_cause
from tests.setup.elsewhere import needs

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
FAR = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
    run()
ModuleNotFoundError: No module named 'lakehouse'

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
Caused by: java.io.EOFException: null
"""


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True), ("local[*]", True), ("local[2,3]", True), ("local-cluster[1,1,1024]", False),
        ("spark://local:7077", False), ("yarn", False), ("k8s://https://local", False),
    ],
)  # fmt: skip
def test_tasks_run_here_or_on_a_cluster(master: str, *, local: bool) -> None:
    assert is_local(master) == local


def test_the_driver_is_reached_by_the_address_towards_the_master() -> None:
    assert address_settings("local[*]", None) == LOOPBACK
    assert address_settings("local-cluster[1,1,1024]", None) == LOOPBACK
    everywhere = {"spark.driver.bindAddress": "0.0.0.0"}
    assert address_settings("spark://127.0.0.1:7077", None) == LOOPBACK | everywhere
    assert address_settings("spark://127.0.0.1:7077,192.0.2.7:7077", None) == LOOPBACK | everywhere
    assert address_settings("spark://127.0.0.1:7077", "192.0.2.9") == everywhere | {"spark.driver.host": "192.0.2.9"}
    assert address_settings("local[*]", "192.0.2.9") == everywhere | {"spark.driver.host": "192.0.2.9"}
    assert address_settings("yarn", None) == everywhere


def test_a_master_whose_name_is_unknown_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(ConfigError, match=r"no way to nowhere: Name or service not known.*\[spark\] driver_host"):
        address_settings("spark://nowhere:7077", None)


@pytest.mark.parametrize("host", ["a b", "x;y", ""])
def test_a_host_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=r"DRIVER_HOST.*expected"):
        load(environ={"LAKEHOUSE_SPARK_DRIVER_HOST": host})


def test_an_error_of_python_is_its_last_line() -> None:
    assert root_cause(FAR) == "ModuleNotFoundError: No module named 'lakehouse'"
    assert root_cause("first\n\tat java.x\nCaused by: java.io.IOException: no space\n\tat y") == "no space"
    assert root_cause("") == "no reason was given"


def test_this_python_has_what_an_executor_needs() -> None:
    facts = describe_python()
    assert all(facts[package] for package in (*PACKAGES, "lakehouse", "python", "file", "host"))


@pytest.mark.parametrize("package", SHIPPED)
def test_lakehouse_without_what_it_imports_is_not_there(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a checkout on the executors' PYTHONPATH: its own files are there, and importing it fails."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find_spec(name))
    assert describe_python()["lakehouse"] is None


@pytest.mark.parametrize("master", ["sc://localhost:15002", "sc://host/;use_ssl=true"])
def test_spark_connect_is_refused_with_the_reason(master: str) -> None:
    from lakehouse.spark.jvm.session.session import open_session

    with pytest.raises(ConfigError, match=r"found Spark Connect.*expected Spark with its JVM.*Use \[spark\] master"):
        open_session(load(environ={"LAKEHOUSE_SPARK_MASTER": master}))


ALONE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        known = {{*sys.stdlib_module_names, *{shipped!r}}}
        if path is None and name not in known and not name.startswith("_"):
            raise ModuleNotFoundError("No module named " + name, name=name)

sys.meta_path.insert(0, Absent())
import lakehouse
"""


def test_pip_installs_what_executors_get() -> None:
    """A driver that pip installed has it, too: no part comes from the tools of a checkout alone."""
    assert set(SHIPPED) <= {"lakehouse", *needs(distribution("lakehouse"))}


def test_importing_lakehouse_needs_only_what_executors_get() -> None:
    """An executor unpickles functions of lakehouse's modules, and so imports the package; it may have nothing else."""
    command = [sys.executable, "-c", ALONE.format(shipped=SHIPPED)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
