"""Moments on the clocks of zones: hours of change, and others; what is written for them, and read back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo, available_timezones

from lakehouse.ksql.expression.expression import ColumnScope
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.parser import parse
from lakehouse.ksql.syntax.tree import Name

# Java has no such names, or (the last three) other clocks than the zone database of today.
NOT_JAVAS = {
    "America/Coyhaique",
    "EST",
    "Factory",
    "GMT+0",
    "GMT-0",
    "HST",
    "MST",
    "ROC",
    "localtime",
    "EET",
    "MET",
    "WET",
}
ALWAYS = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns",
          "Africa/Casablanca", "Europe/Dublin", "Pacific/Apia", "Asia/Tehran", "Etc/GMT+12")  # fmt: skip
OFFSETS = ("Z", "+05:45", "-18:00", "UTC", "GMT+2")
HOUR = 3_600_000
FIRST, LAST = 0, 4_102_444_800_000  # 1970 to 2100
# Formats that tell a moment, and others.
EXACT = (
    f"yyyy-MM-dd HH:mm:ss.SSS {3 * 'X'}",
    "yyyyMMddHHmmssSSSxx",
    "d MMM yyyy HH:mm:ss.SSS Z",
    "dd.MM.yyyy hh:mm:ss.SSS a x",
)
LOCAL = "yyyy-MM-dd HH:mm:ss.SSS"
WRITTEN = ("EEEE d MMMM yy, h:mm a", "VV O", "OOOO ZZZZ", f"{5 * 'X'} ZZZZZ X XX", "HH:mm z", "D G K k")


def names(dice: Random, count: int) -> list[str]:
    """Return names of zones: some that are always tested, and so many others."""
    return [*ALWAYS, *OFFSETS, *dice.sample(sorted(available_timezones() - NOT_JAVAS - {*ALWAYS}), count)]


def moments(dice: Random, zone: str, count: int) -> list[int]:
    """Return moments in milliseconds: hours around a change of the clock, if there is one, and others."""
    result = [dice.randrange(FIRST, LAST) for _ in range(count)]
    changes = _changes(zone) if zone not in OFFSETS else []
    for change in dice.sample(changes, min(2, len(changes))):
        result += [change + part for part in (-HOUR, -1, 0, HOUR // 2, HOUR)]
    return result


def _changes(zone: str) -> list[int]:
    """The hours of 2019 to 2021 at whose beginning a clock is put forward or back."""
    info, begin = ZoneInfo(zone), 1_546_300_800
    offsets = [datetime.fromtimestamp(begin + hour * 3600, UTC).astimezone(info).utcoffset() for hour in range(26_000)]
    return [(begin + n * 3600) * 1000 for n in range(1, len(offsets)) if offsets[n] != offsets[n - 1]]


def comes_twice(millis: int, zone: str) -> bool:
    """Say whether the clock of a zone has shown the same before."""
    if zone in OFFSETS:
        return False
    return datetime.fromtimestamp(millis / 1000, UTC).astimezone(ZoneInfo(zone)).fold == 1


def has_seconds(millis: int, zone: str) -> bool:
    """Say whether a zone was off by seconds, which no format of an offset tells: Africa/Monrovia until 1972."""
    if zone in OFFSETS:
        return False
    offset = datetime.fromtimestamp(millis / 1000, UTC).astimezone(ZoneInfo(zone)).utcoffset()
    return offset is not None and offset % timedelta(minutes=1) != timedelta(0)


def compiled(text: str) -> str:
    """Return an expression of SQL over the columns MS, ZONE as Spark SQL."""
    query = parse(f"SELECT {text} FROM x")
    node = query.items[0].expression  # type: ignore[union-attr]
    assert node is not None
    ready = {Name("MS"): Sql("ms", k.BIGINT), Name("ZONE"): Sql("zone", k.STRING)}
    return ColumnScope((), precomputed=ready).sql(node).text


def forms() -> dict[str, str]:
    """Return expressions by their names: what is written, and in back_... what is read again."""
    made = {}
    for number, format in enumerate((*EXACT, LOCAL, *WRITTEN)):
        made[f"text_{number}"] = f"TIMESTAMPTOSTRING(ms, '{format}', zone)"
    for number, format in enumerate((*EXACT, LOCAL)):
        made[f"back_{number}"] = f"STRINGTOTIMESTAMP({made[f'text_{number}']}, '{format}', zone)"
    made["back_other"] = f"UNIX_TIMESTAMP(PARSE_TIMESTAMP({made['text_0']}, '{EXACT[0]}', 'Asia/Tokyo'))"
    made["converted"] = "UNIX_TIMESTAMP(CONVERT_TZ(FROM_UNIXTIME(ms), zone, 'America/Sao_Paulo'))"
    return made


def wrong(row: dict[str, object], millis: int, zone: str) -> list[str]:
    """Return what is wrong with what was read again of a moment."""
    twice, is_cut = comes_twice(millis, zone), has_seconds(millis, zone)
    local = f"back_{len(EXACT)}"
    return [
        f"{name} of {millis} in {zone}: {value}"
        for name, value in row.items()
        if name.startswith("back_") and value != millis and not (twice if name == local else is_cut)
    ]
