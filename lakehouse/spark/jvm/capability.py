"""The private parts of Spark, Delta and Py4J that lakehouse uses, and whether it may and can use each.

Each use stands in this room as a pair of functions: a private way, which is fast, and a plain way by public interfaces
only, which is slower and gives the same. `choose_way` takes the private one, unless `[spark] internals = false`
forbids it or this build of Spark or Delta lacks it: then the plain way is taken from there on, for that use alone, and
one line on stderr says what it costs. A caller outside of this room sees no difference.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from threading import Lock
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

Result = TypeVar("Result")


class Capability(Enum):
    """A private use: what is used, and what the plain way costs."""

    DELTA_LOG = "Delta's snapshot of a log", "each question to a table's log reads the log again"
    DELTA_STATE = "the state in Delta's snapshot", "Delta runs two or three jobs in each commit to read its own log"
    DELTA_COMMIT = "Delta's transaction", "a commit without rows runs Spark jobs"
    DELTA_FILES = "Delta's frame of named files", "each read of new records runs a Spark job to find their files"
    DELTA_REWRITE = (
        "the writes of Delta's transaction",
        "a batch of a small table takes a MERGE, with several times its work",
    )
    HELD_FRAMES = "Spark's columnar cache", "a held frame is computed at once and is freed by Java's collector alone"
    PLANS = "Spark's plans", "a version of a table is planned at each read, and the first batch waits for its plan"
    EXPRESSIONS = "Catalyst's trees", "an expression that may fail is computed twice for each record"
    JAVA_CALLS = "Java calls in an expression", "ksqlDB's functions run in Python, and not inside a lambda"
    TASK_STATE = "Java's maps in an expression", "the order times of bronze's records are computed in Python"
    CHECKPOINT = "the offsets in Spark's checkpoint", "a batch is read once more, for the ends of its partitions"
    FILES = "Hadoop's file systems", "folders of a path with a scheme are reached by pyarrow"
    LOCAL_FILES = "Spark's class for a checkpoint's files", "each file of a checkpoint starts processes of the system"
    NAMES = "a cache of Py4J's names", "each call to Java looks its name up again"
    SCRATCH = "Spark's list of folders to remove", "the next start removes this Java's temporary files"
    CONSOLE = "Scala's console", "VACUUM prints a line on stdout"

    def __init__(self, use: str, cost: str) -> None:
        self.use, self.cost = use, cost


# Java's errors, and Py4J's, for a class, a method or a field that this build does not have.
ABSENT = (
    "NoSuchMethod", "NoSuchField", "NoClassDefFound", "ClassNotFound", "IllegalAccess", "InaccessibleObject",
    "IncompatibleClassChange", "AbstractMethodError", "does not exist", "Package' object is not callable",
)  # fmt: skip
OFF = (
    "Spark's internals are off ([spark] internals = false): results are the same, and everything is slower. "
    "See docs/configuration.md."
)
_log = logging.getLogger("lakehouse")
_lock = Lock()
_missing: set[Capability] = set()
_allowed = [True]


def allow_internals(*, allowed: bool) -> None:
    """Allow the private ways in this process, or forbid them; one line says so if they are forbidden."""
    if _allowed[0] and not allowed:
        _log.warning(OFF)
    _allowed[0] = allowed


def is_available(capability: Capability) -> bool:
    """Say whether the private way is allowed, and was not found missing."""
    return _allowed[0] and capability not in _missing


def report_missing(capability: Capability, reason: object) -> None:
    """Take the plain way from now on; the first call for a capability says so in one line."""
    with _lock:
        if capability in _missing:
            return
        _missing.add(capability)
    reason_line = str(reason).strip().split("\n", 1)[0][:200]
    _log.warning(f"this Spark lacks {capability.use} ({reason_line}): {capability.cost}. Results are the same.")


def choose_way(capability: Capability, private_way: Callable[[], Result], plain_way: Callable[[], Result]) -> Result:
    """Return the result of the private way if it is available, else of the plain way."""
    if is_available(capability):
        try:
            return private_way()
        except Exception as error:
            if not is_absence(error):
                raise
            report_missing(capability, error)
    return plain_way()


def is_absence(error: Exception) -> bool:
    """Say whether an error means that this build lacks a class, a method or a field; any other error is the caller's.

    Py4J raises TypeError for a call of a class that does not exist: it takes the name for a package.
    """
    if isinstance(error, Py4JNetworkError):
        return False
    # PySpark keeps the error of Java in its own.
    java_error: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    if java_error is not None:
        return any(word in java_error.getClass().getName() for word in ABSENT)
    return isinstance(error, TypeError | AttributeError | Py4JError) and any(word in str(error) for word in ABSENT)
