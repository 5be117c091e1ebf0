"""`lakehouse past blame` and `bisect`; over tables written without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .versioned import Story, VersionedTable, position, visit


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def blame(story, lakehouse):
    """Blame a key of visits; return the rows."""

    def run(key: str, *options: str) -> list[dict[str, Any]]:
        outcome = lakehouse("blame", "visits", "--key", key, *options, "--json", "--lake", str(story.root))
        assert outcome.code == 0, outcome.err
        return [json.loads(line) for line in outcome.out.splitlines()]

    return run


def test_the_record_that_last_set_a_row(blame):
    (row,) = blame("ann")
    assert row["value"] == {"n": 2, "place": "p2"}
    assert row["record"] == {
        "topic": "clicks", "topic_id": "id-1", "partition": 0, "offset": 1, "tick": 3,
        "timestamp": "1970-01-01T00:00:00.300000Z", "key": "ann", "value": "a1",
    }  # fmt: skip
    assert row["position"]["tick"] == 3


@pytest.mark.parametrize(
    ("moment", "offset"),
    [
        (["--version", "2"], 0), (["--tick", "2"], 0), (["--tick", "3"], 1), (["--at", "1970-01-01T00:00:00.25Z"], 0),
        (["--offsets", "clicks/0=2,clicks/1=1"], 1),
    ],
)  # fmt: skip
def test_at_a_moment(blame, moment, offset):
    assert [row["record"]["offset"] for row in blame("ann", *moment)] == [offset]


def test_a_key_whose_bytes_are_no_text(blame):
    assert blame("cat")[0]["record"]["value"] == "base64:/w=="


def test_a_person_reads_a_table(story, lakehouse):
    out = lakehouse("blame", "visits", "--key", "dan", "--lake", str(story.root)).out
    assert "│ user=dan │ n=1, place=p1 │ clicks/1@2 │ 1970-01-01 00:00:00.350Z │ dan     │ d0        │" in out
    out = lakehouse("blame", "visits", "--key", "bob", "--lake", str(story.root)).out
    assert out == "visits has no row of key 'bob' at its newest version.\n"
    out = lakehouse("blame", "visits", "--key", "cat", "--tick", "1", "--lake", str(story.root)).out
    assert out == "visits has no row of key 'cat' at tick 1.\n"


def test_a_row_whose_record_is_not_in_this_lake(tmp_path, lakehouse):
    """It was restored from a changelog, or nothing with a position has set it."""
    story = Story(tmp_path)
    table = VersionedTable(tmp_path, "restored")
    table.commit(
        1,
        {**visit("far", 1, 1, 0), "_position": position(99, 5)},
        {**visit("other", 1, 1, 0), "_position": position(1, 0, topic="it's gone")},
        {**visit("none", 1, 1, 0), "_position": None},
    )
    for key, place in (("far", "clicks/0@5"), ("other", "it's gone/0@0"), ("none", "-")):
        outcome = lakehouse("blame", "restored", "--key", key, "--json", "--lake", str(story.root))
        assert json.loads(outcome.out)["record"] is None
        out = lakehouse("blame", "restored", "--key", key, "--lake", str(story.root)).out
        assert place in out
        assert "not in this lake's bronze" in out


def test_a_recreated_topic_has_the_offset_twice(tmp_path, lakehouse):
    story = Story(tmp_path)
    story.bronze.tick(9, ("clicks", "eve", 0, 900, "anew"), topic_id="id-2")
    story.visits.commit(9, visit("eve", 1, 9, 0), times=(900, 900))
    for key, value in (("eve", "anew"), ("ann", "a1")):
        outcome = lakehouse("blame", "visits", "--key", key, "--json", "--lake", str(tmp_path))
        assert json.loads(outcome.out)["record"]["value"] == value


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["visits", "--key", "ann", "--tick", "4"], "tick 4 lies between versions"),
        (["late.visits", "--key", "ann"], "rows of late never change"),
        (["visits"], "Missing option '--key'"),
        (["nix", "--key", "ann"], "table 'nix' does not exist"),
    ],
)
def test_blame_refuses(story, lakehouse, arguments, said):
    outcome = lakehouse("blame", *arguments, "--lake", str(story.root))
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> VersionedTable:
    """Versions 1 to 12: ann's n is the number of the version; from version 7 on there is bob, whose n is null."""
    table = VersionedTable(tmp_path_factory.mktemp("counted"))
    for n in range(1, 13):
        more = [{**visit("bob", 0, n, n), "n": None}] if n == 7 else []
        table.commit(n, visit("ann", n, n, n), *more, times=(n, n))
    return table


def bisect(lakehouse: Any, table: VersionedTable, *arguments: str) -> Any:
    return lakehouse("bisect", "visits", *arguments, "--lake", table.path.removesuffix("/silver/visits"))


@pytest.mark.parametrize(
    ("condition", "options", "version"),
    [
        ("count(*) < 2", [], 7), ("n < 5 -- a row's, with a remark", [], 5), ("max(n) < 12", ["--good", "1"], 12),
        ("visits.n IS NOT NULL", [], 7), ("bool_and(n > 0)", ["--good", "1"], None),
        ("sum(n) <= 9", ["--good", "8"], 10), ("count(*) FILTER (n IS NULL) = 0", ["--good", "3", "--bad", "9"], 7),
        ("max(_event_time) < '1970-01-01T00:00:00.002Z'", ["--good", "1"], 2),
    ],
)  # fmt: skip
def test_the_first_version_at_which_it_is_not_true(counted, lakehouse, condition, options, version):
    outcome = bisect(lakehouse, counted, condition, *options, "--json")
    if version is None:
        assert "is true at version 12; with --bad, name one where it is not" in outcome.err
        return
    actual = json.loads(outcome.out)
    assert (actual["version"], actual["last_true"], actual["tick"]) == (version, version - 1, version)
    assert actual["tried"] <= 6


def test_a_person_reads_where_to_look(counted, lakehouse):
    out = bisect(lakehouse, counted, "count(*) < 2").out
    assert out.startswith("version 7 (tick 7), committed 2")
    assert "is the first where it is not true; it is at version 6.\nVersions tried: " in out
    assert out.endswith("What it changed: lakehouse past show visits 7\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["count(*) > 1"], "the condition is not true at version 0; with --good, name one where it is"),
        (["count(*) >= 0"], "the condition is true at version 12; with --bad, name one where it is not"),
        (["count(*) < 2", "--good", "8"], "the condition is not true at version 8"),
        (
            ["count(*) < 2", "--good", "5", "--bad", "5"],
            "good is version 5, bad is version 5; expected bad to be later",
        ),
        (["count(*) < 2", "--bad", "20"], "has no version 20. It has versions 0 to 12"),
        (["count(*)"], "expected a condition, true or false; found BIGINT"),
        (["NULL", "--good", "1"], "the condition is not true at version 1"),
        (["nix > 1"], 'column "nix" not found'),
        (["1 = 1; SELECT 2"], "syntax error"),
        (["(SELECT count(*) FROM bronze.clicks) = 0"], "bronze.clicks"),
        (["count(*) > (SELECT count(*) FROM '/etc/passwd')"], "passwd"),
        ([""], "expected a condition, true or false; found"),
    ],
)
def test_bisect_refuses(counted, lakehouse, arguments, said):
    outcome = bisect(lakehouse, counted, *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_versions_that_vacuum_removed_are_left_out(tmp_path, lakehouse):
    story = Story(tmp_path)
    story.visits.vacuum()
    outcome = lakehouse("bisect", "visits", "count(*) < 3", "--json", "--lake", str(tmp_path))
    assert json.loads(outcome.out)["version"] == 5
    outcome = lakehouse("bisect", "visits", "count(*) < 3", "--good", "2", "--lake", str(tmp_path))
    assert (outcome.code, outcome.out) == (2, "")
    assert "version 2: some of its files are gone (VACUUM)" in outcome.err


NO_SPARK = """
import sys
from lakehouse.cli.main import main
for lake, arguments in {commands!r}:
    assert main([*arguments, "--lake", lake]) == 0, arguments
print([name for name in ("pyspark", "py4j") if name in sys.modules])
"""


def test_nothing_of_this_needs_spark(folder: Path) -> None:
    Story(folder / "lake")
    Story(folder / "fed", feed=True)
    commands = [
        ("lake", ["query", "SELECT * FROM visits", "--tick", "3"]), ("lake", ["diff", "visits", "tick:1", "now"]),
        ("lake", ["blame", "visits", "--key", "ann"]), ("lake", ["bisect", "visits", "count(*) < 3"]),
        ("lake", ["log", "visits"]), ("fed", ["show", "visits", "3"]),
    ]  # fmt: skip
    code = NO_SPARK.format(commands=commands)
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[-1] == "[]"
