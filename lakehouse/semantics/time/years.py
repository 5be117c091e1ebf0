"""The possible times: the years 1 to 9999 (UTC), in milliseconds since 1970.

ISO texts, Python's datetimes, and so most readers of Delta have no other years. A record with a time outside them goes
to the quarantine; most often a number of microseconds or nanoseconds was read as milliseconds.
"""

from __future__ import annotations

from datetime import UTC, datetime

FIRST_MS = -62_135_596_800_000  # 0001-01-01T00:00:00.000Z
LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z


def is_possible_time(epoch_ms: int) -> bool:
    """Say whether a number of milliseconds since 1970 is a possible time."""
    return FIRST_MS <= epoch_ms <= LAST_MS


def impossible_time_message(subject: str, epoch_ms: int) -> str:
    """Return the message about an impossible time (milliseconds since 1970); `subject` names it: "the event time at".

    For the quarantine's reasons, the part before "; found" is the same for all such records.
    """
    reason_text = f"{subject} is outside the years 1 to 9999; found {epoch_ms} milliseconds since 1970"
    for unit, factor in (("microseconds", 1_000), ("nanoseconds", 1_000_000)):
        # The producer probably meant a time of 1990 to 2099.
        if 631_152_000_000 <= epoch_ms // factor < 4_102_444_800_000:
            likely_time = datetime.fromtimestamp(epoch_ms // factor // 1000, UTC).replace(tzinfo=None)
            return f"{reason_text} ({unit}? then it is {likely_time.isoformat()}Z)"
    return reason_text
