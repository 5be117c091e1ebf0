"""Convert moments and dates, in all the forms of ISO 8601 that programs write, to the form that Spark reads.

| written                                  | by                                                                |
|------------------------------------------|-------------------------------------------------------------------|
| 2026-01-31T12:01Z, 2026-01-31T12+01:00   | Java's OffsetDateTime once a minute; Python's isoformat(timespec) |
| 20260131T120100Z, 20260131T1201+0100     | the basic format                                                  |
| 2026-01-31t12:01:00z                     | RFC 3339, in small letters                                        |
| 2026-01-31T12:01:00,5Z                   | ISO 8601's own comma                                              |
| 2026-01-31Z, 2026-01-31+01:00            | Java's ISO_OFFSET_DATE, xs:date                                   |
| +002026-01-31T12:01:00Z                  | JavaScript's year of six digits                                   |
| 2026-01-31T12:01+01:00[Europe/Berlin]    | Java's ZonedDateTime, JavaScript's Temporal (RFC 9557)            |
| 2026-01-31 12:01:00.5 +0100 CET          | Go's String()                                                     |

Where an offset and a zone's name stand together, the offset counts.

A text that Spark reads already (yyyy-MM-ddTHH:mm:ss, with any fraction and zone, or less of that) keeps its meaning.
None of these programs writes dates by weeks or by days of the year, so those stay unread.
"""

from __future__ import annotations

import re

from lakehouse.semantics.blanks import JAVA_BLANKS

# Names that Java's ZoneId.SHORT_IDS takes for one zone of several, and that the tz database does not have.
JAVA_SHORT_ZONES = (
    "ACT", "AET", "AGT", "ART", "AST", "BET", "BST", "CAT", "CNT", "CST", "CTT", "EAT", "ECT", "IET", "IST", "JST",
    "MIT", "NET", "NST", "PLT", "PNT", "PRT", "PST", "SST", "VST",
)  # fmt: skip
# Replacements, in order, for a text that Spark does not read already. Java and Python read these patterns alike, and
# each takes time in proportion to the text: a record may have megabytes of blanks.
_BLANK = r"[\x00-\x20]"
FORMS: tuple[tuple[str, str], ...] = (
    (r"^([0-9+-]+[Tt ][0-9:.,]+(?:[Zz]|[+-][0-9:]+))(?:\[[^\[\]]*\])+$", "$1"),
    (r"^([0-9-]+ [0-9:.]+ [+-][0-9]{4}) [A-Z+-][A-Za-z0-9:+-]*(?: m=[+-][0-9.]+)?$", "$1"),
    (r"^\+?0{0,2}([0-9]{4})(?=-)", "$1"),
    (r"^([0-9]{8}[Tt ][0-9]{4})([0-9]{2})", "$1:$2"),
    (r"^([0-9]{8}[Tt ][0-9]{2})([0-9]{2})(?![0-9])", "$1:$2"),
    (r"^([0-9]{4})([0-9]{2})([0-9]{2})(?![0-9])", "$1-$2-$3"),
    (r"^([0-9-]+)t", "$1T"),
    (rf"([0-9.]{_BLANK}*)z$", "$1Z"),
    (r"^([0-9-]+[T ][0-9:]+),", "$1."),
    (rf"^([0-9-]+[T ][0-9]{{1,2}}:[0-9]{{1,2}})({_BLANK}*[A-Za-z+-].*)$", "$1:00$2"),
    (rf"^([0-9-]+[T ][0-9]{{1,2}})({_BLANK}*[A-Za-z+-].*)$", "$1:00:00$2"),
    (r"^([0-9]{4}-[0-9]{1,2}-[0-9]{1,2})(Z|[+-][0-9]{2}(?::?[0-9]{2})?)$", "$1T00:00:00$2"),
)
# The beginning of a text in one of these forms; no text that Spark reads already begins like it.
OTHER = (
    rf"{_BLANK}*(?:\+|[0-9]{{5,6}}-|[0-9]{{8}}(?:[Tt Zz+-]|{_BLANK}*$)|[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}(?:[tzZ+-]|"
    rf"[T ](?:[0-9]{{1,2}}(?::[0-9]{{1,2}})?{_BLANK}*[A-Za-z+-]|[0-9:]+(?:,|(?:[.][0-9]*)?{_BLANK}*z)|"
    r"[0-9:.]+(?:(?:Z|[+-][0-9:]+)\[| [+-][0-9]{4} [A-Z+-]))))"
)
_FORMS = tuple((re.compile(pattern), re.sub(r"\$(\d)", r"\\\1", new)) for pattern, new in FORMS)


def normal_form(text: str) -> str:
    """Return a text in the form that Spark reads; a text that is no moment does not become one."""
    text = text.strip(JAVA_BLANKS)
    for pattern, replacement in _FORMS:
        text = pattern.sub(replacement, text)
    return text
