"""Every error that lakehouse raises on purpose.

    LakehouseError
     +-- ConfigError            a setting, a flag or an environment variable is wrong
     +-- PlanError              a declaration is impossible
     |    +-- ExpressionError   an expression of a declaration can't be used
     |    +-- NoSuchStep        a declaration has no such step; an AttributeError, too
     |    +-- NeedsSpark        the model has no Python form of an expression; Spark has one
     |    +-- SqlError          a statement of ksqlDB's SQL can't be read, or means nothing here
     +-- BrokerError            the embedded Kafka broker
     +-- RegistryError          the embedded schema registry
     +-- RegistryUnavailable    a schema registry does not answer now; that may pass
     +-- SchemaRefused          a schema registry refuses a schema: incompatible, or not valid
     +-- AirflowError           the Airflow that `lakehouse airflow` runs
     +-- KafkaUnavailable       a configured Kafka does not answer, or refuses
     +-- DataLoss               Kafka no longer has records that bronze does not have yet
     +-- LeaseHeld              another process writes this table
     +-- Fenced                 another writer took over this table; this one must stop
     +-- NotFound               a table, a topic, a version, a tick that does not exist
     +-- NoLake                 a folder holds no lake
     +-- StorageError           a table in the lake contradicts its log or its plan
     +-- JobFailed              a streaming job ended with an error; the cause is in the message
     +-- TimedOut               an answer took longer than its reader can wait

A message says what lakehouse found, what it expected and what to do next.
"""

from __future__ import annotations


class LakehouseError(Exception):
    """The root: ``except LakehouseError`` catches exactly the errors that lakehouse raises on purpose."""


class ConfigError(LakehouseError):
    """A setting, a flag or an environment variable is wrong."""


class PlanError(LakehouseError):
    """A declaration is impossible; raised where it is declared, before anything runs."""


class ExpressionError(PlanError):
    """An expression of a declaration can't be parsed, names no column, or could give another result on a replay."""


class NoSuchStep(PlanError, AttributeError):
    """A stream, a table or another declaration has no step of this name; the message says what to write instead."""


class NeedsSpark(PlanError):
    """The model has no Python form of this expression. Spark's result is what counts; run it there."""


def _cut_text(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."


class SqlError(PlanError):
    """A statement of ksqlDB's SQL can't be read, or means nothing here; the message points at the place in it.

    position: the place, in characters from the statement's beginning. found, expected: the text there, and possible
    texts.
    """

    def __init__(self, what: str, position: int = 0, *, found: str = "", expected: str = "") -> None:
        self.what, self.position, self.found, self.expected = (
            _cut_text(what, 1_000),
            position,
            _cut_text(found, 80),
            expected,
        )
        self.text = ""
        self.line_before = 0
        super().__init__(self._message())

    def within(self, text: str, line_before: int = 0) -> SqlError:
        """Return the same error with the statement's text, whose lines are counted from `line_before`."""
        self.text, self.line_before = self.text or text, line_before
        self.args = (self._message(),)
        return self

    @property
    def place(self) -> tuple[int, int]:
        """The line and the column, from 1."""
        text_before = self.text[: self.position]
        return self.line_before + text_before.count("\n") + 1, self.position - (text_before.rfind("\n") + 1) + 1

    def _message(self) -> str:
        message_parts = [self.what if self.what.endswith((".", "?")) else f"{self.what}."]
        message_parts += [f"Found {self.found}."] if self.found else []
        message_parts += [f"Expected {self.expected}."] if self.expected else []
        message = " ".join(message_parts)
        if not self.text:
            return message
        line, column = self.place
        shown_line = self.text.split("\n")[line - self.line_before - 1].replace("\t", " ")
        begin_column = max(0, column - 80) if len(shown_line) > 120 else 0
        pointer = " " * (column - 1 - begin_column) + "^"
        return (
            f"line {line}, column {column}: {message}\n"
            f"    {shown_line[begin_column : begin_column + 120]}\n    {pointer}"
        )


class BrokerError(LakehouseError):
    """The embedded broker can't be started, found or stopped."""


class RegistryError(LakehouseError):
    """The embedded schema registry can't be fetched, started, found or stopped."""


class RegistryUnavailable(LakehouseError):
    """A schema registry gives no answer that can be used, and that may pass: no record and no schema is at fault."""


class SchemaRefused(LakehouseError):
    """A schema registry refuses a schema: it is incompatible with those before it, or not valid."""


class AirflowError(LakehouseError):
    """The Airflow that `lakehouse airflow` runs can't be set up, started, asked or ended."""


class KafkaUnavailable(LakehouseError):
    """A configured Kafka does not answer, or refuses the request."""


class DataLoss(LakehouseError):
    """Kafka no longer has records that bronze does not have yet (retention, or a topic deleted and recreated)."""


class LeaseHeld(LakehouseError):
    """Another process holds the lease of a table: one writer for each table."""


class Fenced(LakehouseError):
    """Another writer has opened a newer epoch of this table; Delta skips this writer's commits, so it stops."""


class NotFound(LakehouseError):
    """A table, a topic, a version or a tick that does not exist."""


class NoLake(LakehouseError):
    """A folder that holds no lake."""


class StorageError(LakehouseError):
    """A table in the lake contradicts its log or its plan."""


class ExpectationFailed(LakehouseError):
    """A record, or a row, does not meet an expectation that stops the run."""


class JobFailed(LakehouseError):
    """A streaming job ended with an error; the message has the cause, the log has the trace."""


class TimedOut(LakehouseError):
    """An answer took longer than its reader can wait; the work for it has been ended."""


def reason_of_error(error: Exception) -> str:
    """Return why a file could not be read or written, without number and path: "Permission denied"."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
