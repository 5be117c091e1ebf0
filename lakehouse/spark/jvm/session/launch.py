"""Starts Spark's JVM with its settings in a private file: every account of a machine can read command lines.

The module also caches names of the JVM. Py4J asks the JVM for each part of a dotted name, at each use. A part that is
no class costs the most, as Java looks for it in every jar: `jvm.org.apache.spark.sql.functions` has four of them
(docs/decisions/spark-is-asked-once.md).
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lakehouse.setup.java_process import java_variables
from lakehouse.spark.jvm.capability import Capability, choose_way, is_available
from lakehouse.spark.jvm.java import active_jvm
from lakehouse.spark.jvm.kept.client import kill_engine_in_use
from lakehouse.spark.jvm.kept.scratch import PREFIX, TEMPORARY, open_scratch

ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
NO_ARGUMENTS = "pyspark-shell"


def read_submitted_conf() -> SparkConf:
    """Return the settings of spark-submit's command line, whose JVM runs already."""
    SparkContext._ensure_initialized()  # before that, PySpark asks no JVM and knows no setting
    return SparkConf()


def start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM for the next session, if there is none yet, with Spark's settings, which may hold secrets.

    PySpark would write each setting on the command line. The file (0600, in a folder of 0700) is removed once the JVM
    has read it. Spark itself still puts memory, class path and extraJavaOptions on a command line.
    """
    arguments_before = os.environ.get(ARGUMENTS)
    is_new = "PYSPARK_GATEWAY_PORT" not in os.environ and SparkContext._gateway is None
    scratch = open_scratch() if is_new else None
    java_settings = settings if scratch is None else scratch.settings(settings)
    with properties_file(java_settings, None if scratch is None else scratch.folder) as settings_file:
        # A user's own spark-defaults.conf still applies to settings that are not in `settings`.
        own_arguments = f'--properties-file "{settings_file}" --load-spark-defaults'
        os.environ[ARGUMENTS] = f"{own_arguments} {arguments_before or NO_ARGUMENTS}"
        try:
            if scratch is not None:
                with _variables(scratch.environ(settings, os.environ) | java_variables()):
                    java_arguments = _WithoutSigterm(pass_fds=(scratch.lock,))
                    gateway = launch_gateway(popen_kwargs=java_arguments)  # type: ignore[no-untyped-call]
                SparkContext._ensure_initialized(gateway=gateway)
            SparkContext.setSystemProperty("spark.app.name", settings["spark.app.name"])  # this starts the JVM
        finally:
            if arguments_before is None:
                del os.environ[ARGUMENTS]
            else:
                os.environ[ARGUMENTS] = arguments_before


def kill_java() -> None:
    """Kill the Java of this process, also a kept one; not that of spark-submit, which has started this process."""
    kill_engine_in_use()
    java_process = getattr(SparkContext._gateway, "proc", None)
    if java_process is not None:
        java_process.kill()


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment, and give them back what they were at the end."""
    values_before = {name: os.environ[name] for name in values if name in os.environ}
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
        os.environ.update(values_before)


def remove_scratch_at_exit() -> None:
    """Let Java remove the folder of its temporary files when it ends, if it has one of its own."""
    folder = active_jvm().java.lang.System.getProperty(TEMPORARY)
    if not Path(folder).name.startswith(PREFIX):
        return

    def register() -> None:
        jvm = active_jvm()
        jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(jvm.java.io.File(folder))

    choose_way(Capability.SCRATCH, register, lambda: None)


@contextmanager
def properties_file(settings: Mapping[str, str], parent: Path | None) -> Iterator[Path]:
    """Give a file with Spark's settings, which only this user can read; it is removed at the end.

    parent: the folder of a Java's temporary files, with which it goes if this process is killed; None for the system's.
    """
    with tempfile.TemporaryDirectory(prefix="lakehouse-spark-", dir=parent) as folder:
        settings_file = Path(folder) / "spark.properties"
        with os.fdopen(
            os.open(settings_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii"
        ) as stream:
            stream.writelines(
                f"{_escape_property(name)}={_escape_property(value)}\n" for name, value in settings.items()
            )
        yield settings_file


class _WithoutSigterm(dict[str, Any]):
    """The arguments of the JVM's process, in which PySpark sets a function for the child: it ignores SIGTERM, too.

    systemd and `timeout` send SIGTERM to all processes of a job. Python ends the job after the batch under way, for
    which it needs the JVM. The JVM ends when Python does: its standard input ends then.
    """

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, partial(_ignore_sigterm, value) if name == "preexec_fn" else value)


def _ignore_sigterm(prepare_child: Callable[[], None]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    prepare_child()


def _escape_property(text: str) -> str:
    r"""Return the text as java.util.Properties reads it: in ASCII, all but letters, digits and . - _ / as \uXXXX."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[index : index + 2], "big") for index in range(0, len(units), 2)]
    return "".join(
        chr(code) if code < 128 and (chr(code).isalnum() or chr(code) in ".-_/") else f"\\u{code:04x}" for code in codes
    )


def remember_names(spark: SparkSession) -> None:
    """Let a session's view of the JVM cache the packages, classes and static methods that it has looked up."""
    if is_available(Capability.NAMES):
        _as_remembering(spark._jvm)


class _View(JVMView):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _remember_member(self, name, super().__getattr__(name))


class _Package(JavaPackage):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _remember_member(self, name, super().__getattr__(name))


class _Class(JavaClass):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _remember_member(self, name, super().__getattr__(name))


REMEMBERING = {JVMView: _View, JavaPackage: _Package, JavaClass: _Class}


def _remember_member(self: Any, name: str, member: Any) -> Any:
    """Return a member, kept where Python looks first; the value of a static field may change, and is not kept."""
    if type(member) in REMEMBERING or type(member) is JavaMember:
        self.__dict__[name] = _as_remembering(member)
    return member


def _as_remembering(java_names: Any) -> Any:
    if (kind := REMEMBERING.get(type(java_names))) is not None:
        java_names.__class__ = kind
    return java_names
