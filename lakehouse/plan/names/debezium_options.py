"""The options of a database's change log, as they stand in the name of its format: "debezium?decimals=string"."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode

UNAVAILABLE = "__debezium_unavailable_value"
DECIMALS = ("precise", "string")
# For a value that was not sent. KEEP: `latest` keeps the value before. BAD: every reader takes its record as bad.
KEEP, BAD = "keep", "quarantine"
# For a truncate, beside BAD: it deletes all rows of a table of `latest`.
APPLY = "apply"
# The column with the names of a record's fields that were not sent, if the format marks them.
UNSENT_COLUMN = "debezium_unsent"
# The column with the time of a change, source.ts_ms, where it is the event time.
COMMITTED_COLUMN = "debezium_source_ts_ms"
# Nanoseconds in a unit.
UNITS = {"nanos": 1, "micros": 1_000, "millis": 1_000_000, "days": 86_400_000_000_000}
_HEX = "hex:"
_TIME, _META, _UNSENT, _MARKED, _TRUNCATES = "time.", "meta", "unsent", "marks_unsent", "truncates"


@dataclass(frozen=True, slots=True)
class DebeziumOptions:
    """See `lakehouse.plan.databases.debezium`. times: units by the field's name. meta: paths in the envelope.

    marks_unsent: a record with values that were not sent is not bad; they are null, and UNSENT_COLUMN names them.
    """

    flattened: bool = False
    documents: bool = False
    decimals: str = ""
    times: tuple[tuple[str, str], ...] = ()
    unavailable: str = UNAVAILABLE
    meta: tuple[str, ...] = ()
    unsent: str = KEEP
    marks_unsent: bool = False
    truncates: str = BAD

    @property
    def applies_truncates(self) -> bool:
        """Whether a truncate is no bad record, but a delete of all rows: for the reader that marks what is unsent."""
        return self.marks_unsent and self.truncates == APPLY

    def __str__(self) -> str:
        pairs = [("flattened", "true")] * self.flattened + [("decimals", self.decimals)] * bool(self.decimals)
        pairs += [("documents", "true")] * self.documents
        pairs += [(_TIME + name, unit) for name, unit in self.times]
        pairs += [("unavailable", self.unavailable)] * (self.unavailable != UNAVAILABLE)
        pairs += [(_UNSENT, self.unsent)] * (self.unsent != KEEP) + [(_MARKED, "true")] * self.marks_unsent
        pairs += [(_TRUNCATES, self.truncates)] * (self.truncates != BAD)
        return urlencode([*pairs, *((_META, path) for path in self.meta)], quote_via=quote, safe="")


def parse_options(text: str) -> DebeziumOptions:
    """Return the options in the text that their `str` is."""
    pairs = parse_qsl(text, keep_blank_values=True)
    single = dict(pairs)
    return DebeziumOptions(
        single.get("flattened") == "true",
        single.get("documents") == "true",
        single.get("decimals", ""),
        tuple((name.removeprefix(_TIME), unit) for name, unit in pairs if name.startswith(_TIME)),
        single.get("unavailable", UNAVAILABLE),
        tuple(path for name, path in pairs if name == _META),
        single.get(_UNSENT, KEEP),
        single.get(_MARKED) == "true",
        single.get(_TRUNCATES, BAD),
    )


def placeholder_bytes(unavailable: str) -> bytes:
    """Return the bytes of the placeholder for values that were not sent; empty if there can be none."""
    try:
        return bytes.fromhex(unavailable.removeprefix(_HEX)) if unavailable.startswith(_HEX) else unavailable.encode()
    except ValueError:
        return b""
