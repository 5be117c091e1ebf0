"""Moments in texts: what the writers of Java, Python, Go and JavaScript make of a moment is read as that moment."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import NeedsSpark
from lakehouse.formats.decode import decode_columns
from lakehouse.formats.values.text_value import parse_date, parse_timestamp
from lakehouse.formats.values.unfit import Unfit
from lakehouse.kafka.produce import parse_lines
from lakehouse.model.function.moment_casts import to_timestamp
from lakehouse.plan.expression.schema import Column
from lakehouse.semantics.time.named_moment import time_ms

# Within these years the moment has an offset's date in the calendar, too.
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC))
OFFSETS = st.integers(-18 * 60, 18 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def _offset(at: datetime, form: str) -> str:
    """Z, z, +01, +0100 or +01:00; in full where the offset has minutes."""
    offset = at.utcoffset() or timedelta()
    sign, minutes = "-" if offset < timedelta() else "+", abs(offset) // timedelta(minutes=1)
    if not minutes and form in "Zz":
        return form
    hours, rest = divmod(minutes, 60)
    by = "" if form == "+0100" else ":"
    return f"{sign}{hours:02}" if not rest and form == "+01" else f"{sign}{hours:02}{by}{rest:02}"


@st.composite
def written(draw: st.DrawFn) -> tuple[datetime, str]:
    """A moment, and one of the texts that it has in ISO 8601."""
    at = draw(MOMENTS).astimezone(draw(OFFSETS))
    least = draw(st.sampled_from(["hours", "minutes", "seconds", "nanoseconds"]))  # what is left out is zero
    kept = {"hours": (0, 0, 0), "minutes": (at.minute, 0, 0), "seconds": (at.minute, at.second, 0)}
    minute, second, micros = kept.get(least, (at.minute, at.second, at.microsecond))
    at = at.replace(minute=minute, second=second, microsecond=micros)
    basic = draw(st.booleans())
    day, colon = (f"{at:%m%d}", "") if basic else (f"-{at:%m-%d}", ":")
    year = f"{at.year:04}" if basic else draw(st.sampled_from([f"{at.year:04}", f"+{at.year:06}"]))
    parts = [f"{at:%H}", f"{at:%M}", f"{at:%S}"][: {"hours": 1, "minutes": 2}.get(least, 3)]
    fraction = ""
    if least == "nanoseconds":
        fraction = draw(st.sampled_from(".,")) + f"{micros:06}" + draw(st.text("0123456789", max_size=3))
    zone = _offset(at, draw(st.sampled_from(["Z", "z", "+01", "+0100", "+01:00"])))
    return at, f"{year}{day}{draw(st.sampled_from('Tt '))}{colon.join(parts)}{fraction}{zone}"


@given(written())
def test_a_moment_is_read_as_it_was_written(given: tuple[datetime, str]) -> None:
    at, text = given
    assert parse_timestamp(text) == at
    assert parse_timestamp(f" {text}\n") == at
    assert parse_date(text) == at.date()  # the date as written
    columns = (Column("at", "timestamp"), Column("on", "date"))
    row = {"at": at.astimezone(UTC), "on": at.date()}
    assert decode_columns("json", columns, f'{{"at": "{text}", "on": "{text}"}}'.encode()) == row
    assert decode_columns("delimited|", columns, f"{text}|{text}".encode()) == row


@given(MOMENTS)
def test_what_python_writes_is_read(at: datetime) -> None:
    for text in (at.isoformat(), str(at), at.isoformat(timespec="microseconds"), f"{at:%Y%m%dT%H%M%S.%fZ}".zfill(23)):
        assert parse_timestamp(text) == at


NO_MOMENTS = ["2026-01-31T24:00Z", "2026-01-31T12:60Z", "2026-01-31T12:01:60Z", "2026-W05-6", "2026-031", "12:01Z",
              "T12:01Z", "+012026-01-31T12:01Z", "-2026-01-31T12:01Z", "20261331", "2026-01-31T12:01ZZ", "z", "",
              "2026-01-31T12:01:00,Z Z", "2026-01-31T12:01+19:00", "2026013", "202601311", "2026-01-31Tz",
              "2026-01-31T12:00:00 PST", "2026-01-31T12:00:00BST", "2026-01-31T12:00:00 SystemV/PST8",
              "2026-01-31T12:00:00 posix/Europe/Berlin", "2026-01-31T12:00:00 localtime", "2026-01-31T12:00:00 ROC",
              "2026-01-31T12:00:00\u00a0UTC", "2026-01-31T12:00:00Z\u00a0", "\u20032026-01-31T12:00:00Z"]  # fmt: skip


@pytest.mark.parametrize("text", NO_MOMENTS)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(Unfit, match="expected timestamp"):
        parse_timestamp(text)


# As Spark 4.2 reads them: minutes to the west of UTC, or none where it refuses.
WRITTEN_OFFSETS: dict[str, float | None] = {
    "+1": 60, "+01": 60, "+5:3": 303, "+5:30": 330, "+05:3": 303, "+05:30": 330, "+0530": 330, "+05:30:15": 330.25,
    "+053015": 330.25, "+5:30:15": 330.25, "+10:05": 605, "-18:00": -1080, "+18:00:01": None, "+05:60": None,
    "+530": None, "+001": None, "+010:00": None, "+100:00": None, "+01600": None, "+12345": None, "+1:234": None,
    "+05:3015": None, "+0530:15": None, "+01:2:34": None, "+1:": None, "+": None,
}  # fmt: skip


@pytest.mark.parametrize("prefix", ["", "UTC", "GMT", "UT", " "])
@pytest.mark.parametrize(("offset", "minutes"), WRITTEN_OFFSETS.items())
def test_an_offset_of_another_form_does_not_shift_the_time(prefix: str, offset: str, minutes: float | None) -> None:
    text = f"2026-01-31T12:00:00{prefix}{offset}"
    if minutes is None:
        with pytest.raises(Unfit, match="expected timestamp"):
            parse_timestamp(text)
        with pytest.raises(NeedsSpark):
            to_timestamp(text)
    else:
        assert parse_timestamp(text) == datetime(2026, 1, 31, 12, tzinfo=UTC) - timedelta(minutes=minutes)


@pytest.mark.parametrize(("text", "day"), [
    ("20260131", date(2026, 1, 31)), ("2026-01-31Z", date(2026, 1, 31)), ("2026-01-31-05:00", date(2026, 1, 31)),
    ("+002026-01-31", date(2026, 1, 31)), ("2026-01-31t23:59-12:00", date(2026, 1, 31)),
])  # fmt: skip
def test_dates(text: str, day: date) -> None:
    assert parse_date(text) == day


@pytest.mark.parametrize("text", ["2026-01-31T12:01Z", "20260131t1301+01", "2026-01-31T12:01:00,000z"])
def test_the_command_line_reads_the_same_texts(text: str) -> None:
    at = datetime(2026, 1, 31, 12, 1, tzinfo=UTC)
    assert time_ms(text) == at.timestamp() * 1000
    record: Any = next(parse_lines([f'{{"value": 1, "timestamp": "{text}"}}'], "json"))
    assert record.timestamp_ms == at.timestamp() * 1000
