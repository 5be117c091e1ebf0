"""Writes files of secrets: whole or not at all, and readable only by their owner."""

from __future__ import annotations

from pathlib import Path

from lakehouse.durable import write_durably


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    write_durably(path, text, private=True)
