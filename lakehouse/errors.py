"""Every error that lakehouse raises on purpose.

    LakehouseError
     +-- ConfigError            a setting, a flag or an environment variable is wrong
     +-- PlanError              a declaration is impossible
     |    +-- ExpressionError   an expression of a declaration can't be used
     |    +-- NoSuchStep        a declaration has no such step; an AttributeError, too
     |    +-- NeedsSpark        the model has no Python form of an expression; Spark has one
     +-- BrokerError            the embedded Kafka broker
     +-- AirflowError           the Airflow that `lakehouse airflow` runs
     +-- KafkaUnavailable       a configured Kafka does not answer, or refuses
     +-- DataLoss               Kafka no longer has records that bronze does not have yet
     +-- LeaseHeld              another process writes this table
     +-- Fenced                 another writer took over this table; this one must stop
     +-- NotFound               a table, a topic, a version, a tick that does not exist
     +-- NoLake                 a folder holds no lake
     +-- StorageError           a table in the lake contradicts its log or its plan
     +-- JobFailed              a streaming job ended with an error; the cause is in the message
     +-- TimedOut               an answer took longer than whoever asked can wait

A message says what was found, what was expected and what to do next.
"""

from __future__ import annotations


class LakehouseError(Exception):
    """The root: ``except LakehouseError`` catches what lakehouse raises on purpose and nothing else."""


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


class BrokerError(LakehouseError):
    """The embedded broker can't be started, found or stopped."""


class AirflowError(LakehouseError):
    """The Airflow that `lakehouse airflow` runs can't be set up, started, asked or ended."""


class KafkaUnavailable(LakehouseError):
    """A configured Kafka does not answer, or refuses the request."""


class DataLoss(LakehouseError):
    """Kafka no longer has records that bronze does not have yet (retention, or a topic deleted and recreated)."""


class LeaseHeld(LakehouseError):
    """Another process holds the lease of a table: one writer for each table."""


class Fenced(LakehouseError):
    """Another writer has opened a newer epoch of this table; this one's writes are skipped, so it stops."""


class NotFound(LakehouseError):
    """A table, a topic, a version or a tick that does not exist."""


class NoLake(LakehouseError):
    """A folder that holds no lake."""


class StorageError(LakehouseError):
    """A table in the lake contradicts its log or its plan."""


class JobFailed(LakehouseError):
    """A streaming job ended with an error; the message has the cause, the log has the trace."""


class TimedOut(LakehouseError):
    """An answer took longer than whoever asked can wait; the work for it has been ended."""
