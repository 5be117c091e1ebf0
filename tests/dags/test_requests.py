"""Requests of runs: params checked together, and the argument lists made of them. Without Airflow.

Hostile values come ten thousand at a time: each is refused, or becomes one argument that can't be an option.
"""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_dags import commands, requests
from lakehouse_dags.manifest import Application
from lakehouse_dags.requests import BadRequest

APP = Application(
    "shop", "/srv/shop/app.py", "/srv/shop/lakehouse.toml", "/srv/shop/lake", ("orders",), ("orders",),
    ("current_orders", "totals"),
)  # fmt: skip
PYTHON = Path("/venv/bin/python")
# The DAGs' params when only the table, the stream and the moment are chosen.
GOOD: dict[str, dict[str, Any]] = {
    "backfill_range": {
        "table": "totals", "from": None, "to": None, "offsets": None, "chunk_hours": 24, "dry_run": True, "reason": "",
    },
    "reconstruct_point_in_time": {
        "table": "totals", "clock": "event", "moment": "2013-06-30T23:59Z", "target": "then", "prove": True,
    },
    "recovery_drill": {"table": "all", "damage": "all"},
    "table_maintenance": {"table": "all", "keep_hours": 168, "dry_run": False},
    "quarantine_replay": {"stream": "orders", "contains": None, "fix": None, "dry_run": True, "reason": ""},
    "deploy": {"dry_run": True, "reason": ""},
    "erase": {"stream": "orders", "key": "4711", "named_by": None, "value": None, "dry_run": True, "reason": ""},
}  # fmt: skip
OF: dict[str, tuple[str, ...]] = {
    "backfill_range": ("plan", "backfill", "reconcile", "discard"),
    "reconstruct_point_in_time": ("checkout", "prove"),
    "recovery_drill": ("drill",),
    "table_maintenance": ("upkeep",),
    "quarantine_replay": ("try", "replay"),
    "deploy": ("stage", "promote", "unstage"),
    "erase": ("plan_erasure", "erase"),
}
DAY = {"from": "2013-07-04", "to": "2013-07-05"}


def asked(kind: str, **params: Any) -> dict[str, Any]:
    return requests.CHECKS[kind](APP, {**GOOD[kind], **params})


def line(command: str, request: dict[str, Any]) -> list[str]:
    """The arguments after the program, without the configuration."""
    result = commands.command_argv(PYTHON, APP.as_facts(), command, request)
    assert result[:4] == [str(PYTHON), "-P", "-m", "lakehouse.cli.main"]
    ours = ["--lake=/srv/shop/lake", "--config=/srv/shop/lakehouse.toml", "--json"]
    assert [argument for argument in result if argument in ours] == ours
    return [argument for argument in result[4:] if argument not in ours]


# -- requests --


def test_a_range_of_event_times_is_done_in_chunks_that_cover_it():
    request = asked("backfill_range", **{"from": "2013-07-04", "to": "2013-07-06T12:00+02:00"})
    parts = requests.split_backfill(request)
    assert [(item["from"], item["to"]) for item in parts] == [
        ("2013-07-04T00:00:00Z", "2013-07-05T00:00:00Z"),
        ("2013-07-05T00:00:00Z", "2013-07-06T00:00:00Z"),
        ("2013-07-06T00:00:00Z", "2013-07-06T10:00:00Z"),
    ]
    assert line("backfill", {**parts[0], "reason": "a bug"}) == [
        "repair", "backfill", "--app=/srv/shop/app.py", "--from=2013-07-04T00:00:00Z", "--to=2013-07-05T00:00:00Z",
        "--why=a bug", "--", "totals",
    ]  # fmt: skip
    assert "--plan" in line("reconcile", request)


def test_offsets_are_done_partition_by_partition_and_all_rows_at_once():
    request = asked("backfill_range", offsets="orders/0=1..9,orders/1=3..3")
    assert [one["offsets"] for one in requests.split_backfill(request)] == ["orders/0=1..9", "orders/1=3..3"]
    everything = asked("backfill_range")
    (one,) = requests.split_backfill(everything)
    assert one["label"] == "all rows"
    # Rows stay out of Airflow's own database.
    assert line("plan", one) == ["repair", "backfill", "--app=/srv/shop/app.py", "--plan", "--limit=0", "--", "totals"]
    assert line("reconcile", one) == ["test", "audit", "--app=/srv/shop/app.py", "--deep", "--", "totals"]


@given(
    start=st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2100, 1, 1)),
    span=st.timedeltas(min_value=timedelta(milliseconds=1), max_value=timedelta(days=199)),
    hours=st.integers(min_value=24, max_value=24 * 366),
)
def test_chunks_leave_no_gap_and_do_not_overlap(start: datetime, span: timedelta, hours: int) -> None:
    texts = {"from": start.isoformat(), "to": (start + span).isoformat()}
    parts = requests.split_backfill(asked("backfill_range", chunk_hours=hours, **texts))
    bounds = [datetime.fromisoformat(parts[0]["from"]), *(datetime.fromisoformat(item["to"]) for item in parts)]
    assert [item["from"] for item in parts[1:]] == [item["to"] for item in parts[:-1]]
    assert (bounds[0], bounds[-1]) == (start.replace(tzinfo=UTC), (start + span).replace(tzinfo=UTC))
    assert all(timedelta(0) < b - a <= timedelta(hours=hours) for a, b in pairwise(bounds))


def test_an_interval_is_the_runs_own_or_the_params():
    own = (datetime(2013, 7, 4, tzinfo=UTC), datetime(2013, 7, 5, tzinfo=UTC))
    none: dict[str, Any] = {"table": "all", "from": None, "to": None}
    actual = requests.check_backfill_interval(APP, none, own)
    assert (actual["tables"], actual["from"]) == (["current_orders", "totals"], "2013-07-04T00:00:00Z")
    given_by_hand = {"table": "totals", "from": "2020-01-01", "to": "2020-01-02"}
    assert requests.check_backfill_interval(APP, given_by_hand, None)["to"] == "2020-01-02T00:00:00Z"
    assert requests.check_backfill_interval(APP, given_by_hand, own)["to"] == "2020-01-02T00:00:00Z"
    with pytest.raises(BadRequest, match="no data interval: expected the params from and to"):
        requests.check_backfill_interval(APP, none, None)
    with pytest.raises(BadRequest, match="found one of from and to"):
        requests.check_backfill_interval(APP, {**none, "from": "2013-07-04"}, own)
    with pytest.raises(BadRequest, match="no data interval"):
        requests.check_backfill_interval(APP, none, (own[0], own[0]))


@pytest.mark.parametrize(
    ("clock", "moment", "options"),
    [
        ("event", "2013-06-30T23:59Z", ["--at=2013-06-30T23:59:00Z", "--clock=event"]),
        ("commit", "2013-06-30", ["--at=2013-06-30T00:00:00Z", "--clock=commit"]),
        ("tick", "41", ["--tick=41"]),
        ("version", "0", ["--version=0"]),
        ("offsets", "orders/0=120,orders/1=80", ["--offsets=orders/0=120,orders/1=80"]),
    ],
)
def test_the_clocks_of_a_moment(clock, moment, options):
    request = asked("reconstruct_point_in_time", clock=clock, moment=moment)
    assert line("checkout", request) == [
        "past", "checkout", "--app=/srv/shop/app.py", *options, "--again", "--", "totals", "then",
    ]  # fmt: skip
    assert line("prove", request) == ["past", "rebuild", "--app=/srv/shop/app.py", "--prove", *options, "--", "totals"]


def test_the_other_commands():
    assert line("drill", {"table": "totals", "damage": "lost file"}) == [
        "test", "drill", "--app=/srv/shop/app.py", "--damage=lost file", "--", "totals",
    ]  # fmt: skip
    assert line("upkeep", asked("table_maintenance", keep_hours=400)) == [
        "repair", "upkeep", "--app=/srv/shop/app.py", "--keep-at-least=400 hours",
    ]  # fmt: skip
    assert line("upkeep", asked("table_maintenance", table="totals", dry_run=True))[-2:] == ["--", "totals"]
    request = asked("quarantine_replay", contains="field amount", fix="repair", dry_run=False, reason="units")
    assert line("replay", {**request, "digest": "7-0123456789abcdef"}) == [
        "repair", "replay", "--app=/srv/shop/app.py", "--reason=field amount", "--fix=repair", "--again",
        "--expect=7-0123456789abcdef", "--why=units", "--", "orders",
    ]  # fmt: skip
    # As the replay, which leaves out what was fixed before: a plan is refused like the replay that it is the plan of.
    assert line("try", request) == [
        "repair", "replay", "--app=/srv/shop/app.py", "--reason=field amount", "--fix=repair", "--plan", "--again",
        "--", "orders",
    ]  # fmt: skip
    deployed = asked("deploy", dry_run=False, reason="--lake=/tmp")
    assert line("stage", deployed) == ["deploy", "stage", "--app=/srv/shop/app.py", "--limit=0"]
    assert line("promote", {**deployed, "digest": "0123456789abcdef"}) == [
        "deploy", "promote", "--app=/srv/shop/app.py", "--expect=0123456789abcdef", "--why=--lake=/tmp",
    ]  # fmt: skip
    assert line("unstage", deployed) == ["deploy", "discard", "--app=/srv/shop/app.py"]
    erased = asked("erase", key="--x=1", named_by="orders.customer, orders.by.id", value="Anna", reason="ticket 12")
    same = [
        "repair", "erase", "--app=/srv/shop/app.py", "--key=orders=--x=1", "--named-by=orders.customer",
        "--named-by=orders.by.id", "--value=Anna",
    ]  # fmt: skip
    assert line("plan_erasure", erased) == [*same, "--plan"]
    assert line("erase", erased) == [*same, "--why=ticket 12"], "a revert since the approval is refused"
    assert line("erase", {**erased, "reverted": ["totals"]}) == [*same, "--rebuild-reverted", "--why=ticket 12"]
    assert commands.command_argv(PYTHON, APP.as_facts(), "check", {})[4:] == [
        "test", "check", "--app=/srv/shop/app.py", "--lake=/srv/shop/lake", "--config=/srv/shop/lakehouse.toml",
    ]  # fmt: skip


# -- what is refused --


@pytest.mark.parametrize(
    ("kind", "params", "said"),
    [
        ("backfill_range", {**DAY, "offsets": "orders/0=1..2"}, "found offsets beside from or to"),
        ("backfill_range", {"from": "2013-07-05", "to": "2013-07-04"}, "the earlier first"),
        ("backfill_range", {"from": "2013-07-04", "to": "2013-07-04"}, "the earlier first"),
        ("backfill_range", {"from": "2013-02-30"}, "expected a day or a time"),
        ("backfill_range", {"from": "2013-07-04T25:00Z"}, "expected a day or a time"),
        ("backfill_range", {"from": "0001-01-01T00:00+23:59"}, "expected a day or a time"),
        ("backfill_range", {"offsets": "prices/0=1..2"}, "found topic 'prices', expected one of orders"),
        ("backfill_range", {"offsets": "orders/0=9..1"}, "the smaller offset first"),
        ("backfill_range", {"from": "1970-01-01", "to": "2020-01-01"}, "Choose chunk_hours of 2192 or more"),
        ("backfill_range", {"dry_run": False}, "reason is empty"),
        ("backfill_range", {"dry_run": False, "reason": "  "}, "reason is empty"),
        ("backfill_range", {"dry_run": "false"}, "expected true or false"),
        ("backfill_range", {"table": "orders"}, "expected one of current_orders, totals"),
        ("backfill_range", {"chunk_hours": 0}, "whole number"),
        ("backfill_range", {"chunk_hours": True}, "whole number"),
        ("backfill_range", {"reason": "a\nb"}, "reason is"),
        ("backfill_range", {"reason": "x" * 301}, "reason is"),
        ("reconstruct_point_in_time", {"target": "TOTALS"}, "which the application keeps"),
        ("reconstruct_point_in_time", {"clock": "tick"}, "expected one by the clock 'tick', such as 41"),
        ("reconstruct_point_in_time", {"clock": "offsets", "moment": "41"}, "such as orders/0=120"),
        ("reconstruct_point_in_time", {"moment": "41"}, "such as 2013-06-30T23:59Z"),
        ("reconstruct_point_in_time", {"clock": "tick", "moment": "\u0661"}, "such as 41"),
        ("recovery_drill", {"damage": "fire"}, "expected one of all, lost file"),
        ("table_maintenance", {"keep_hours": 167}, "whole number from 168"),
        ("table_maintenance", {"keep_hours": 168.5}, "whole number from 168"),
        ("quarantine_replay", {"fix": "os.system"}, "fix is"),
        ("quarantine_replay", {"fix": "/etc/passwd:x"}, "fix is"),
        ("quarantine_replay", {"stream": "../orders"}, "expected one of orders"),
        ("deploy", {"dry_run": False}, "reason is empty"),
        ("erase", {"dry_run": False}, "reason is empty"),
        ("erase", {"key": " "}, "key is empty"),
        ("erase", {"key": None}, "key is None"),
        ("erase", {"stream": "customers"}, "expected one of orders"),
        ("erase", {"named_by": "customers.id"}, "expected STREAM.COLUMN of one of orders"),
        ("erase", {"named_by": "orders"}, r"named_by is \*\*\*, expected a text"),
        ("erase", {"named_by": "orders.id;x"}, "named_by is"),
        ("erase", {"dry_run": False, "reason": "4711 asked"}, "reason names what is erased"),
    ],
)
def test_contradictions_are_refused_with_a_reason(kind, params, said):
    with pytest.raises(BadRequest, match=said):
        asked(kind, **params)


@pytest.mark.parametrize("name", ["stream", "key", "named_by", "value", "reason"])
def test_a_refused_erasure_names_nobody(name):
    for text in ("Anna Berg\n", "Anna Berg" * 99):
        with pytest.raises(BadRequest) as refused:
            asked("erase", **{name: text})
        assert "Anna" not in str(refused.value)
    number = asked("erase", key="1", reason="ticket 12", dry_run=False)
    assert number["reason"] == "ticket 12", "a part of a longer number is another number"


def test_unknown_params_are_refused_by_name():
    names = tuple(GOOD["recovery_drill"])
    requests.refuse_unknown({"table": "totals"}, names)
    requests.refuse_unknown(None, names)
    with pytest.raises(BadRequest, match=r"does not have: \['tabel'\]; expected some of damage, table"):
        requests.refuse_unknown({"tabel": "totals"}, names)


# -- hostile --

PIECES = st.sampled_from([
    "'", '"', "`", "$(id)", "${HOME}", ";", "&&", "|", ">", "<", "\\", "../", "/etc/passwd", "--help", "-c", "--",
    "--config=/x", "{{ var.value.secret }}", "{% raw %}", "{#", "%s", "\n", "\r", "\x00", "\x1b[2J", "\u2028", "\u202e",
    "*", "~", "#", "!", "=", ",", "totals", "orders/0=1..9", "2013-07-04", "41", "\ud800", "ä", "😀", " ", "",
])  # fmt: skip
HOSTILE = st.one_of(
    st.lists(PIECES, max_size=6).map("".join),
    st.text(max_size=50),
    st.none(), st.booleans(), st.integers(), st.floats(), st.lists(st.text(max_size=5), max_size=2),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(values=st.lists(HOSTILE, min_size=50, max_size=50))
def test_ten_thousand_hostile_values_in_each_param_are_refused_or_one_harmless_argument(values: list[Any]) -> None:
    for value in values:
        for kind, good in GOOD.items():
            for name in good:
                decided = {"dry_run": False, "reason": "why"} if "reason" in good else {}
                check_one(kind, {**good, **decided, name: value})


def check_one(kind: str, params: dict[str, Any]) -> None:
    try:
        request = requests.CHECKS[kind](APP, params)
    except BadRequest as refused:
        text = str(refused)
    else:
        text = json.dumps(request)  # it travels as JSON
        parts = requests.split_request(request) if kind in ("backfill_range", "recovery_drill") else [request]
        for command in OF[kind]:
            for part in parts:
                harmless(commands.command_argv(PYTHON, APP.as_facts(), command, {**part, "digest": "0123456789abcdef"}))
    assert text.isprintable(), "it goes to the log and the UI"


def harmless(argv: list[str]) -> None:
    """The list of a good request, but for the values of a few options; a value follows its "="."""
    known = {
        "--at", "--clock", "--tick", "--version", "--offsets", "--from", "--to", "--reason", "--why", "--fix", "--plan",
        "--discard", "--again", "--prove", "--damage", "--deep", "--keep-at-least", "--dry-run", "--replay", "--app",
        "--limit", "--config", "--json", "--key", "--named-by", "--value", "--rebuild-reverted", "--lake", "--expect",
        "-P", "-m",
    }  # fmt: skip
    positionals = argv.index("--") if "--" in argv else len(argv)
    assert not any(argument.startswith("-") for argument in argv[positionals + 1 :])
    for argument in argv[:positionals] + argv[positionals + 1 :]:
        argument.encode()
        assert not any(ord(letter) < 32 or ord(letter) == 127 for letter in argument)
        if argument.startswith("-"):
            assert argument.partition("=")[0] in known
        elif argument not in (str(PYTHON), "lakehouse.cli.main", APP.app):
            assert argument.isidentifier(), "a command, a table, a stream, the name of a new table"


def test_a_hostile_reason_reaches_the_command_as_it_was_written(tmp_path):
    """Through a real process: no shell, no template, no option in between."""
    reasons = ["'; rm -rf / #", '"$(id)" `id` && true', "{{ conn.secret }} %s", "--help", "a=b \\n ~ * ä 😀", "| > /x"]
    program = tmp_path / "program.py"
    program.write_text("import json, sys; print(json.dumps(sys.argv[1:]))")
    for reason in reasons:
        request = asked("backfill_range", dry_run=False, reason=reason)
        arguments = commands.command_argv(PYTHON, APP.as_facts(), "backfill", request)[4:]
        process = subprocess.run([sys.executable, program, *arguments], capture_output=True, text=True, check=True)
        assert json.loads(process.stdout) == arguments
        assert f"--why={reason}" in arguments
