"""The metadata of commits that tests write without Spark, as a run writes it."""

from __future__ import annotations

from typing import Any

from lakehouse.lake.commit_metadata import (
    BronzeTick,
    CommitContent,
    CommitMetadata,
    CommitNumber,
    TableCommit,
    TopicState,
    app_id,
    write_metadata,
)


def commit_text(name: str, tick: int, content: CommitContent, epoch: int = 1) -> str:
    """The text of a numbered commit. name: that of the table's progress."""
    return write_metadata(CommitMetadata(content, CommitNumber(app_id(name), epoch, tick, f"{epoch}-{tick}")))


def tick_text(tick: int, topics: dict[str, TopicState], epoch: int = 1) -> str:
    """The text of a tick of bronze with records."""
    return commit_text("ingest", tick, BronzeTick(topics=topics, run="run"), epoch)


def batch(**fields: Any) -> TableCommit:
    """A commit of a table's state; without `from_tick`, it goes on from the beginning."""
    return TableCommit(**{"from_tick": 0, "run": "run", "keys": 1, **fields})
