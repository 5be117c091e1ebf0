"""The benchmarks' runner: its medians, slopes, targets and tables, on figures that are written here. No JVM."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
# At the end: what the tests call by these names stays theirs.
sys.path += [str(BENCHMARKS), str(BENCHMARKS / "peers")]

import catching_up  # noqa: E402
import common  # noqa: E402
import figures  # noqa: E402
import parts  # noqa: E402
import recipe_freshness  # noqa: E402
import run  # noqa: E402
import soak  # noqa: E402
from figures import Figure  # noqa: E402


def table(title: str, columns: str, *rows: str) -> dict[str, Any]:
    return {"title": title, "columns": columns.split("|"), "rows": [row.split("|") for row in rows]}


def test_medians_are_of_each_part() -> None:
    rounds = [{"seconds": 3.0, "memory": 1.0}, {"seconds": 9.0, "memory": 3.0}, {"seconds": 4.0, "memory": 2.0}]
    assert figures.medians(rounds) == {"seconds": 4.0, "memory": 2.0}


@pytest.mark.parametrize(
    ("figure", "met", "wanted"),
    [
        (Figure("start", "bronze", 8.0, target=8.0), True, "<= 8 s"),
        (Figure("start", "bronze", 8.01, target=8.0), False, "<= 8 s"),
        (Figure("catch-up", "ratio", 2.0, "x", 2.0, at_least=True), True, ">= 2 x"),
        (Figure("catch-up", "ratio", 1.99, "x", 2.0, at_least=True), False, ">= 2 x"),
        (Figure("catch-up", "ratio", 5.0, "x"), None, ""),
    ],
)
def test_a_target_is_met_or_not(figure: Figure, met: bool | None, wanted: str) -> None:
    assert (figure.met, figure.wanted(), figure.as_json()["met"]) == (met, wanted, met)


def test_slopes_are_between_neighbours() -> None:
    assert figures.slopes({1e6: 4.0, 1e5: 2.0, 1e7: 40.0}) == pytest.approx([0.30103, 1.0])
    assert figures.slopes({1e5: 2.0}) == []


def test_drift_is_a_straight_line() -> None:
    assert figures.drift([(0.0, 1.0), (0.5, 2.0), (1.0, 3.0)]) == pytest.approx(2.0)
    assert figures.drift([(0.5, 2.0), (0.5, 3.0)]) == figures.drift([]) == 0.0


def test_a_cell_is_found_by_its_row_and_column() -> None:
    tables = [table("a", "what|seconds", "now|0.3"), table("b", "what|rows", "now|1,000", "then|5")]
    assert figures.cell(tables, "now", "rows") == 1000.0
    with pytest.raises(KeyError, match=r"'before'.*'rows'"):
        figures.cell(tables, "before", "rows")


def test_catch_up_is_held_against_its_targets() -> None:
    ours = {"seconds": 20.0, "bronze": 10.0, "memory": 2.5}
    median = {"lakehouse": ours, "recipe": {"seconds": 50.0, "bronze": 8.0}, "Kafka Streams": {"seconds": 20.0}}
    actual = figures.catch_up_figures(5_000_000, median)
    assert [(each.what, each.value, each.met) for each in actual] == [
        ("recipe's seconds / lakehouse's", 2.5, True),
        ("Kafka Streams's seconds / lakehouse's", 1.0, False),
        ("recipe's bronze / lakehouse's", 0.8, False),
        ("memory of the whole job", 2.5, True),
    ]
    assert figures.catch_up_figures(1, {"recipe": {"seconds": 1.0}}) == []


def test_figures_are_a_table_in_markdown() -> None:
    made = figures.figures_table([Figure("start", "bronze", 9.0, target=8.0), Figure("start", "spark", 4.0)])
    assert made.splitlines()[2:] == [
        "| start | bronze | 9.00 s | <= 8 s | missed |",
        "| start | spark | 4.00 s |  |  |",
    ]
    assert figures.peers_table({"recipe": {"seconds": 50.04, "memory": 2.0}}).splitlines()[2:] == [
        "| recipe | 50.0 |  |  |  |  |  | 2.0 |"
    ]


BATCHES = "family|rows|local median|local largest|random median|random largest|fill"
LATE = "readable in|p50 (s)|p99 (s)|largest (s)"
REBUILT = "what|seconds|records a second"
MANY = "tables|new tables, the first batch|a batch|largest|a table"
PRINTED: dict[str, list[dict[str, Any]]] = {
    "tables": [
        table("t", "tables|decoded once|a further table, of the first one's time: once", "1|4.0|", "2|5.0|0.25"),
        table("t", "tables|decoded once|a further table, of the first one's time: once", "1|4.0|", "2|9.0|1.25"),
    ],
    "freshness": [
        table("freshness at", LATE, "bronze|1.0|2.0|3", "silver latest|2.0|3.0|4", "silver counts|3.0|7.0|8"),
        table("recipe: freshness", LATE, "bronze|4.0|9|9", "silver latest|9.0|9|9", "silver counts|6.0|9|9"),
    ],
    "growth": [table("g", BATCHES, "count|100,000|1.0|1|1.0|1|9", "count|1,000,000|2.0|1|10.0|1|9")],
    "rebuild": [
        table("1,000 records in", REBUILT, "count and sum, from bronze|1.2|1", "count and sum, the batch job|1.0|1",
              "latest, from bronze|2.0|1", "latest, the batch job|1.0|1"),
        table("10,000 records in", REBUILT, "count and sum, from bronze|12|1", "count and sum, the batch job|10|1",
              "latest, from bronze|24|1", "latest, the batch job|12|1"),
    ],
    "many": [table("m", MANY, "1|3|1.0|1|1.000", "50|9|20|21|0.400")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "values", "met"),
    [
        ("tables", [0.25], [True]),
        ("freshness", [1.0, 2.0, 3.0, 7.0, 4.0, 3.0], [False, False, True, False, True, False]),
        ("growth", [0.301, 1.0], [False, False]),
        ("rebuild", [1.2, 2.0, 1.2, 2.0, 1.0, 1.2], [True, False, True, False, True, False]),
        ("many", [20.0, 0.4], [False, True]),
    ],
)
def test_what_a_script_prints_becomes_figures(name: str, values: list[float], met: list[bool]) -> None:
    actual = parts.PARTS[name].figures(PRINTED[name])
    assert [each.value for each in actual] == pytest.approx(values, abs=0.001)
    assert [each.met for each in actual] == met


def test_every_part_names_scripts_that_exist() -> None:
    for part in parts.PARTS.values():
        for script, *_ in [*part.quick, *part.full]:
            assert (BENCHMARKS / script).is_file(), script


def test_a_wrong_table_fails_its_peer() -> None:
    catching_up.check("recipe", (2, 10, 7), (2, 10, 7))
    with pytest.raises(catching_up.PeerFailed, match=r"recipe: .*expected"):
        catching_up.check("recipe", (2, 11, 7), (2, 10, 7))


def test_a_printed_table_is_also_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tables.jsonl"
    monkeypatch.setenv("LAKEHOUSE_BENCHMARK_JSON", str(file))
    common.show("a title", ["what", "seconds"], [["now", "0.5"]])
    (actual,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert figures.cell([actual], "now", "seconds") == 0.5


def test_what_is_measured_is_left_though_a_part_failed(tmp_path: Path) -> None:
    rounds = {"lakehouse": [{"seconds": 2.0, "memory": 1.0}], "recipe": [{"seconds": 4.0, "memory": 1.0}]}
    figure = Figure("catch-up", "ratio", 2.0, "x", 2.0, at_least=True)
    actual = run.earlier(tmp_path)
    actual |= {"catch_up": {"1000": rounds}, "figures": {"1000": [figure.as_json()]}, "failed": {"start": "no Java"}}
    actual["measured"] = {"1000": "today, quiet", "growth": "today, quiet", "many": "yesterday"}
    run.written(actual, tmp_path)
    assert run.earlier(tmp_path) == actual
    text = (tmp_path / "figures.md").read_text()
    assert "| lakehouse | 2.0 |" in text
    assert "| catch-up | ratio | 2.00 x | >= 2 x | met |" in text
    assert "- 1,000 records, growth: today, quiet\n- many: yesterday\n- **start failed**: no Java\n" in text


def test_a_commit_of_bronze_belongs_to_the_batch_that_read_it(tmp_path: Path) -> None:
    """An index of a file ends in its version, a negative one before it."""
    for number, (version, index) in enumerate([(1, -100), (1, 3), (4, -100), (4, 1)], 9):
        file = tmp_path / str(number)
        file.write_text(f"v1\n{{}}\n{json.dumps({'reservoirVersion': version, 'index': index})}")
        os.utime(file, (number * 10, number * 10))
    planned = recipe_freshness.batches(tmp_path)
    assert planned == [(0, 90.0), (1, 100.0), (3, 110.0), (4, 120.0)]
    # The first batch had no rows, and so no MERGE.
    assert recipe_freshness.readable(planned, [105.0, 115.0, 125.0], 5)[1:].tolist() == [105.0, 115.0, 115.0, 125.0]


def test_a_soak_leaves_its_warm_up_out() -> None:
    empty = dict.fromkeys(soak.WHAT, 0.0)
    samples = [
        {**empty, "seconds": s, "memory": m, "batch": None} for s, m in [(0.0, 9.0), (1800.0, 1.0), (3600.0, 2.0)]
    ]
    actual = soak.slopes(samples, 900.0)
    assert actual["memory"] == pytest.approx((1.5, 2.0))
    assert actual["batch"] == (0.0, 0.0)
