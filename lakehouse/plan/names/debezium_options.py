"""What is declared of a database's change log, as it stands in the name of its format: "debezium?decimals=string"."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode

UNAVAILABLE = "__debezium_unavailable_value"
DECIMALS = ("precise", "string")
# Nanoseconds in a unit.
UNITS = {"nanos": 1, "micros": 1_000, "millis": 1_000_000, "days": 86_400_000_000_000}
_HEX = "hex:"
_TIME, _META = "time.", "meta"


@dataclass(frozen=True, slots=True)
class DebeziumOptions:
    """See `lakehouse.plan.databases.debezium`. times: units by the field's name. meta: paths in the envelope."""

    flattened: bool = False
    documents: bool = False
    decimals: str = ""
    times: tuple[tuple[str, str], ...] = ()
    unavailable: str = UNAVAILABLE
    meta: tuple[str, ...] = ()

    def __str__(self) -> str:
        pairs = [("flattened", "true")] * self.flattened + [("decimals", self.decimals)] * bool(self.decimals)
        pairs += [("documents", "true")] * self.documents
        pairs += [(_TIME + name, unit) for name, unit in self.times]
        pairs += [("unavailable", self.unavailable)] * (self.unavailable != UNAVAILABLE)
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
    )


def placeholder_bytes(unavailable: str) -> bytes:
    """Return the bytes of the placeholder for values that were not sent; empty if there can be none."""
    try:
        return bytes.fromhex(unavailable.removeprefix(_HEX)) if unavailable.startswith(_HEX) else unavailable.encode()
    except ValueError:
        return b""
