"""A truncate: one record of a change log that deletes all rows of its table that were there before it.

It has no key, and a table goes by keys. So it is taken as a delete of each key that a record before it has, back to the
truncate before: a key without such a record has no row that is left. In the order of the keys' last records:

    k=1 c   k=2 c   k=1 u   t                 k=3 c   t
                            k=2 d   k=1 d             k=3 d

A key that was deleted before is deleted once more. Records of other partitions may have come before a truncate or after
it in the database, and nobody can tell; so the topic must have one partition.
"""

from __future__ import annotations

from lakehouse.errors import PlanError


def several_partitions_error(topic: str) -> PlanError:
    """Return the error for a topic that has more than one partition."""
    return PlanError(
        f'topic {topic!r} has several partitions, and its stream says truncates="apply": across partitions nobody can '
        "tell which rows a truncate deletes. Expected one partition. Let the connector write a topic with one, or "
        "leave out truncates: then a truncate goes to the quarantine."
    )
