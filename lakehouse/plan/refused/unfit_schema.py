"""The errors for a text that is no schema."""

from __future__ import annotations


class UnfitSchema(ValueError):
    """A text is no schema of its kind, or lakehouse can't read it. The message says why."""


class RecursiveSchema(UnfitSchema):
    """A type in a schema of Avro is a part of itself, such as a tree or a list: no record of it is read here."""
