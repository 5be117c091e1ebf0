"""`past changes --follow` and `query --watch`: what comes while they run, over a lake written without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.cli.terminal import repeating
from lakehouse.lake import reader
from lakehouse.lake.row import net_changes

from .conftest import Command
from .versioned import Story


@pytest.fixture
def story(folder: Path) -> Story:
    return Story(folder / "lake", feed=True)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run one of these at each pause; at the end somebody presses Ctrl-C."""

    def given(*steps: Callable[[], object]) -> None:
        left = iter(steps)

        def pause() -> None:
            step = next(left, None)
            if step is None:
                raise KeyboardInterrupt
            step()

        monkeypatch.setattr(repeating, "pause_between_looks", pause)

    return given


def visit(user: str, n: int) -> dict[str, object]:
    return {"user": user, "n": n, "place": "Rome"}


def test_changes_that_come_are_followed_until_ctrl_c(story: Story, meanwhile, lakehouse: Command) -> None:
    def write() -> None:
        story.visits.commit(9, visit("eve", 1), times=(800, 800))
        story.visits.commit(10, visit("eve", 2), gone=[{"user": "ann"}], times=(900, 900))

    meanwhile(lambda: None, write)
    outcome = lakehouse("past", "changes", "visits", "--follow", "--json")
    assert outcome.code == 0, outcome.err
    told = [json.loads(line) for line in outcome.out.splitlines()]
    assert sorted((item["version"], item["change"], item["key"]["user"]) for item in told) == [
        (6, "insert", "eve"), (7, "delete", "ann"), (7, "update", "eve"),
    ]  # fmt: skip


def test_a_change_is_a_line_and_a_limit_ends_it(story: Story, meanwhile, lakehouse: Command) -> None:
    meanwhile(lambda: story.visits.commit(9, visit("eve", 1), times=(800, 800)))
    outcome = lakehouse("past", "changes", "visits", "-f", "--from", "3", "--limit", "2")
    assert outcome.code == 0
    assert [line.split("  ")[0] for line in outcome.out.splitlines()] == ["version 3", "version 4"]
    assert outcome.out.splitlines()[0].endswith("update  user=ann  n=2, place=p2")


def test_one_key_is_followed(story: Story, meanwhile, lakehouse: Command) -> None:
    meanwhile(lambda: story.visits.commit(9, visit("eve", 1), visit("ann", 9), times=(800, 800)))
    (line,) = lakehouse("past", "changes", "visits", "-f", "--key", "eve").out.splitlines()
    assert line.endswith("insert  user=eve  n=1, place=Rome")


def test_a_table_that_begins_again_is_told(story: Story, meanwhile, lakehouse: Command) -> None:
    import shutil

    from deltalake import DeltaTable

    def again() -> None:
        shutil.rmtree(story.visits.path)
        DeltaTable.create(story.visits.path, story.visits.schema)

    meanwhile(again)
    outcome = lakehouse("past", "changes", "visits", "--follow")
    assert (outcome.code, "table 'visits' begins again: it was at version 5, and is at 0" in outcome.err) == (2, True)


@pytest.mark.parametrize("more", [("--per-event",), ("--to", "4")])
def test_what_can_not_be_followed_is_refused(story: Story, lakehouse: Command, more: tuple[str, ...]) -> None:
    outcome = lakehouse("past", "changes", "visits", "--follow", *more)
    assert (outcome.code, "changes --follow: found --per-event, or --to" in outcome.err) == (2, True)


def test_an_answer_is_shown_again_when_it_has_changed(story: Story, meanwhile, lakehouse: Command) -> None:
    sql = "SELECT count(*) AS n FROM visits"
    meanwhile(
        lambda: None,
        lambda: story.visits.open_epoch(),
        lambda: story.visits.commit(9, visit("eve", 1), times=(800, 800)),
    )
    outcome = lakehouse("query", sql, "--watch")
    assert outcome.code == 0, outcome.err
    assert [line.strip("│ ") for line in outcome.out.splitlines() if line.startswith("│")] == ["3", "4"]
    assert outcome.out.count(sql) == 2, "a commit without rows changed nothing"


@pytest.mark.parametrize(
    "command", [("query", "SELECT 1", "--watch"), ("past", "changes", "visits", "--follow", "--from", "0")]
)
def test_ctrl_c_is_the_end_also_while_an_answer_is_made(
    story: Story, monkeypatch: pytest.MonkeyPatch, lakehouse: Command, command: tuple[str, ...]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(net_changes, "walk_net_changes", interrupted)
    monkeypatch.setattr(reader, "query_lake", interrupted)
    outcome = lakehouse(*command)
    assert (outcome.code, outcome.err) == (0, "")


def test_following_from_a_version_that_is_not_there_yet_is_refused(story: Story, lakehouse: Command) -> None:
    outcome = lakehouse("past", "changes", "visits", "--follow", "--from", "9")
    assert (outcome.code, "has versions 0 to 5; version 9 does not exist" in " ".join(outcome.err.split())) == (2, True)


@pytest.mark.parametrize("more", [("--json",), ("--csv",), ("--tick", "3")])
def test_a_watched_query_is_for_a_person_and_for_now(story: Story, lakehouse: Command, more: tuple[str, ...]) -> None:
    outcome = lakehouse("query", "SELECT 1", "--watch", *more)
    assert (outcome.code, "query --watch: found --json, --csv, or a moment" in outcome.err) == (2, True)
