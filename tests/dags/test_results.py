"""The commands' results: what is kept, what is a failure without retry, and what a person reads."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse_dags import commands, decisions


@given(text=st.text(max_size=400))
def test_text_for_people_is_no_markup(text: str) -> None:
    shown = decisions.escape_markdown(text)
    assert "\n" not in shown
    bare = [letter for at, letter in enumerate(shown) if at == 0 or shown[at - 1] != "\\"]
    assert not set(bare) & set("*[]()<>`#!|{}") or "\\\\" in shown


def test_a_proof_succeeds_with_one_way_and_fails_with_two_contents():
    def proof(*hashes: str | None) -> dict[str, Any]:
        return {"equal": False, "ways": [{"hash": item} for item in hashes]}

    assert commands.is_enough("prove", proof("1", None))
    assert not commands.is_enough("prove", proof(None))
    assert commands.describe_fault("prove", proof("1", "1")) is None
    assert commands.describe_fault("prove", proof("1", "2")) == "the ways to rebuild the table do not agree"


def test_a_backfill_that_left_rows_a_drill_and_an_audit_that_failed_are_not_tried_again():
    assert "3 rows still differ" in str(commands.describe_fault("reconcile", {"added": 1, "removed": 0, "changed": 2}))
    assert commands.describe_fault("reconcile", {"added": 0, "removed": 0, "changed": 0, "plan": True}) is None
    assert "no such row" in str(commands.describe_fault("reconcile", {"ok": False, "problems": ["no such row"]}))
    assert commands.describe_fault("drill", {"ok": False, "cases": []}) is not None
    assert commands.describe_fault("drill", {"ok": True}) is None
    assert "in 2 places" in str(commands.describe_fault("erase", {"found": [{"file": "a"}, {"file": "b"}]}))
    assert "is not finished" in str(commands.describe_fault("erase", {"found": [], "finished_at": None}))
    assert commands.describe_fault("erase", {"found": [], "finished_at": "2026-01-01T00:00:00Z"}) is None
    assert commands.describe_fault("plan", {"added": 1, "removed": 0, "changed": 2}) is None


def test_a_result_without_what_a_task_needs_of_it_is_a_failure():
    """An audit, or a plan, whose line was lost would look as if nothing differed."""
    assert commands.NEEDED.keys() == commands.COMMANDS.keys() | {"audit"}
    assert commands.describe_missing("reconcile", {}) == (
        "found no result, expected one with added, removed, changed: its output was lost, or is not that of `lakehouse`"
    )
    assert "found a result with added, changed, expected one with removed" in str(
        commands.describe_missing("reconcile", {"added": 0, "changed": 0})
    )
    assert "expected one with problems" in str(commands.describe_missing("reconcile", {"ok": True}))
    assert commands.describe_missing("reconcile", {"ok": True, "problems": []}) is None
    assert commands.describe_missing("check", {}) is None
    for command in commands.COMMANDS.keys() - {"check", "upkeep"}:
        assert commands.describe_missing(command, {"event": "warning"} if command not in ("ingest", "silver") else {})


def kept(command: str, *results: dict[str, Any]) -> dict[str, Any]:
    summary = commands.summary_of(command)
    for result in results:
        summary.add(result)
    return commands.task_result(summary)


def test_a_hash_beyond_64_bits_is_passed_on_as_text():
    drilled = {"hash": 2**100, "rows": 2**63 - 1, "ok": True, "cases": [{"n": -(2**63) - 1, "seconds": 0.5}]}
    assert kept("drill", drilled) == {
        "hash": str(2**100), "rows": 2**63 - 1, "ok": True, "cases": [{"n": str(-(2**63) - 1), "seconds": 0.5}],
        "event": "done",
    }  # fmt: skip


def test_results_of_many_lines_are_summed_up():
    one = {"topic": "orders", "partition": 0, "offset": 7, "fits": False, "reason": "no JSON", "replayed_at": None,
           "digest": "9-0123456789abcdef"}  # fmt: skip
    fits = {**one, "fits": True, "reason": None, "replayed_at": 9}
    assert kept("replay", one, fits, fits, {**fits, "fixed_before": True}) == {
        "fit": 2, "fixed_before": 1, "still_bad": 1, "tick": 9, "examples": ["orders/0/7: no JSON"],
        "digest": "9-0123456789abcdef", "event": "done",
    }  # fmt: skip
    status = {"tick": 3, "tables": [{"name": "totals", "rows": 2, "version": 5, "tick": 3, "plan": "long", "unmet": [
        {"expectation": "orders.positive", "records": 4, "first": "orders/0/1", "reason": "amount > 0, found -3"}]}],
              "topics": [{"name": "orders", "next": {"0": 7}, "lag": 0, "rows": 7}]}  # fmt: skip
    stated = kept("status", status)
    assert commands.table_facts(stated, "totals") == {
        "rows": 2, "version": 5, "tick": 3, "unmet": {"orders.positive": 4}, "offsets": {"orders": {"0": 7}},
    }  # fmt: skip
    assert "found -3" not in str(stated), "what a record holds stays out of Airflow's database"
    assert commands.table_facts(stated, "current_orders") is None
