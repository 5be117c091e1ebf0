"""Functions that are told records: once, also across ends in between; without Spark, over rows that are given."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, JobFailed, PlanError, StorageError
from lakehouse.lake.control.partial_progress import refuse_partial
from lakehouse.lake.layout import Layout
from lakehouse.plan.alert import StreamRecord
from lakehouse.run.job import function_sinks

NUMBERS = lh.stream("numbers", key="id string", schema="n bigint")


def row(tick: int, offset: int) -> dict[str, Any]:
    place = {"tick": tick, "order_time": 0, "topic": "numbers", "partition": 0, "offset": offset, "ordinals": []}
    row = {"id": f"k{offset}", "n": offset, "_null_key": offset == 3, "_tombstone": offset == 4}
    return {**row, "_event_time_ms": 1000 * offset, "_position": place}


class World:
    """Rows that a stream has, and a function that is told them, and may fail, or end the process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = [row(1, 0), row(1, 1), row(2, 2), row(3, 3), row(3, 4)]
        self.told: list[StreamRecord] = []
        self.fails: dict[str, BaseException] = {}
        self.lake: Any = SimpleNamespace(spark=None, layout=Layout(str(folder)))
        self.bronze = "bronze-1"
        monkeypatch.setattr(function_sinks, "stream_events", lambda lake, of, after, to: (after, to))
        monkeypatch.setattr(function_sinks.driver_rows, "stream_rows", self.between)
        monkeypatch.setattr(function_sinks, "table_id", lambda spark, path: self.bronze)

    def between(self, frame: Any) -> Generator[dict[str, Any]]:
        after, to = frame
        yield from (row for row in self.rows if after < row["_position"]["tick"] <= to)

    def function(self, record: StreamRecord) -> None:
        self.told.append(record)
        if error := self.fails.pop(record.id, None):
            raise error

    def tell(self, tick: int) -> int:
        """Tell what there is up to a tick, as a job that has just begun."""
        function = function_sinks._Function(self.lake, NUMBERS.to_function("tell", self.function))
        return function.call_up_to(tick) if function.is_behind(tick) else 0

    @property
    def ids(self) -> list[str]:
        return [record.id for record in self.told]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_each_record_is_told_once(world: World) -> None:
    assert world.tell(2) == 3
    assert world.tell(2) == 0
    assert world.tell(3) == 2
    assert world.ids == [f"tell/{tick}/numbers/0/{n}/" for n, tick in enumerate((1, 1, 2, 3, 3))]
    assert [record.key for record in world.told[2:]] == [{"id": "k2"}, None, {"id": "k4"}]
    assert [record.value for record in world.told[2:]] == [{"n": 2}, {"n": 3}, None]
    assert world.told[1].time.isoformat() == "1970-01-01T00:00:01+00:00"
    assert world.told[1].position.offset == 1


def test_a_function_that_fails_ends_the_run_and_is_told_the_record_again(world: World) -> None:
    second = "tell/1/numbers/0/1/"
    world.fails[second] = ValueError("no line")
    with pytest.raises(JobFailed, match=f"function 'tell' failed on record {second}: ValueError: no line"):
        world.tell(2)
    assert world.tell(3) == 4
    assert world.ids.count(second) == 2
    assert world.ids == ["tell/1/numbers/0/0/", second, second, *(f"tell/{t}/numbers/0/{n}/" for t, n in
                                                                  ((2, 2), (3, 3), (3, 4)))]  # fmt: skip


@pytest.mark.parametrize("nth", range(5))
def test_an_end_in_a_call_repeats_that_record_alone(world: World, nth: int) -> None:
    ids = [f"tell/{tick}/numbers/0/{n}/" for n, tick in enumerate((1, 1, 2, 3, 3))]
    world.fails[ids[nth]] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        world.tell(3)
    world.tell(3)
    assert world.ids == [*ids[: nth + 1], *ids[nth:]]


def test_ticks_under_way_are_finished_before_later_ones_are_read(world: World) -> None:
    """A record that was fixed at tick 4 stands at its own, earlier position: it must not move what was counted."""
    world.fails["tell/2/numbers/0/2/"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        world.tell(3)
    between = world.between

    def with_fixed(frame: Any) -> Generator[dict[str, Any]]:
        if frame[1] >= 4:
            yield row(1, 7)
        yield from between(frame)

    function_sinks.driver_rows.stream_rows = with_fixed  # type: ignore[assignment]
    world.tell(4)
    assert world.ids[3:] == ["tell/2/numbers/0/2/", "tell/3/numbers/0/3/", "tell/3/numbers/0/4/", "tell/1/numbers/0/7/"]


def test_ticks_under_way_wait_for_a_table_that_is_built_anew(world: World) -> None:
    """A table behind the function is at tick 1 again: nothing is told, and the note does not go back."""
    world.fails["tell/2/numbers/0/2/"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        world.tell(3)
    assert [world.tell(tick) for tick in (1, 2, 3)] == [0, 0, 3]
    assert world.ids[3:] == [f"tell/{tick}/numbers/0/{n}/" for tick, n in ((2, 2), (3, 3), (3, 4))]


def test_another_declaration_among_ticks_that_are_told_in_part_is_refused(world: World) -> None:
    world.fails["tell/1/numbers/0/1/"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        world.tell(2)
    was = world.rows
    for rows in (was[1:], []):
        world.rows = rows
        with pytest.raises(StorageError, match="told 1 records of the ticks 1 to 2, of a declaration other than this"):
            world.tell(3)
    world.rows = was
    assert world.tell(3) == 4


def test_new_logic_and_erasures_wait_for_ticks_that_are_told_in_part(world: World) -> None:
    refuse_partial(world.lake.layout, "new logic")
    world.fails["tell/2/numbers/0/2/"] = ValueError("no line")
    with pytest.raises(JobFailed):
        world.tell(3)
    with pytest.raises(PlanError, match="new logic: function 'tell' has 2 records of ticks that are not through"):
        refuse_partial(world.lake.layout, "new logic")
    world.tell(3)
    refuse_partial(world.lake.layout, "new logic")


def test_a_bronze_made_again_is_told_from_its_beginning(world: World) -> None:
    world.tell(3)
    world.bronze = "bronze-2"
    assert world.tell(3) == 5


def test_a_lake_without_a_folder_is_refused() -> None:
    app = lh.app(NUMBERS.to_function("tell", print))
    with pytest.raises(
        ConfigError, match=r"function 'tell': the lake gs://b/lake is neither in a local folder nor on s3a"
    ):
        function_sinks.check_functions(Layout("gs://b/lake"), app)
    function_sinks.check_functions(Layout("gs://b/lake"), lh.app(NUMBERS.latest("last")))
    function_sinks.check_functions(Layout("s3a://b/lake"), app)
