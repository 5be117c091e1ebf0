"""Which version is a table at offsets of its topics; over tables written without Spark."""

from __future__ import annotations

import pytest

from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.history import History
from lakehouse.semantics.moment import AtOffsets
from lakehouse.semantics.time.named_moment import moment_from_text

from .versioned import Story, VersionedTable, visit
from .written import WrittenLake


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("lake"))


@pytest.mark.parametrize(
    ("offsets", "version"),
    [
        ("clicks/0=0,clicks/1=0", 1), ("clicks/0=1,clicks/1=1", 2), ("clicks/0=2,clicks/1=1", 3),
        ("clicks/0=3,clicks/1=1", None), ("clicks/0=3,clicks/1=2", 4), ("clicks/0=3,clicks/1=3", 5),
        ("clicks/0=1,clicks/1=0", None), ("clicks/0=1,clicks/1=2", None), ("clicks/0=3,clicks/1=2,views/0=1", 4),
    ],
)  # fmt: skip
def test_offsets(story, offsets, version):
    assert History(story.layout, "visits").at(moment_from_text(f"offsets:{offsets}")) == version


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ("clicks/0=4", "offsets clicks/0=4: bronze has clicks/0 up to 3"),
        ("clicks/7=1", "offsets clicks/7=1: bronze has clicks/7 up to 0"),
        ("views/0=1", r"one for every partition with records; add clicks/0=3,clicks/1=3 \(or smaller ones\)"),
        ("clicks/0=1", r"one for every partition with records; add clicks/1=3 \(or"),
        ("clicks/0=1,nix/0=1", "offsets of nix: bronze has clicks, views"),
    ],
)
def test_offsets_without_a_version(story, offsets, said):
    with pytest.raises(LakehouseError, match=said):
        History(story.layout, "visits").at(moment_from_text(f"offsets:{offsets}"))


def test_offsets_of_all_topics_of_a_table(tmp_path):
    lake = WrittenLake(tmp_path)
    table = VersionedTable(tmp_path, topics=["clicks", "views", "silent"])
    for tick, topic in enumerate(("clicks", "views", "clicks"), 1):
        lake.tick(tick, (topic, "ann", 0, 100, "v"))
        table.commit(tick, visit("ann", tick, tick, 0), times=(100, 100))
    layout = Layout(str(tmp_path))
    actual = [History(layout, "visits").at(moment_from_text(f"offsets:clicks/0=1,views/0={n}")) for n in (0, 1)]
    assert actual == [1, 2]
    with pytest.raises(ConfigError, match="one for every partition with records; add views/0=1 "):
        History(layout, "visits").at(moment_from_text("offsets:clicks/0=1"))


def test_offsets_of_a_recreated_topic(tmp_path):
    lake = WrittenLake(tmp_path)
    table = VersionedTable(tmp_path)
    for tick, topic_id in ((1, "old"), (2, "new"), (3, "new")):
        lake.tick(tick, ("clicks", "ann", 0, 100, "v"), topic_id=topic_id)
        table.commit(tick, visit("ann", tick, tick, 0), times=(100, 100))
    layout = Layout(str(tmp_path))
    assert [History(layout, "visits").at(AtOffsets({"clicks": {0: n}})) for n in (1, 2)] == [2, 3]
