"""Alerts on the model: what crosses, told by a fold that knows nothing of the code; and declarations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.errors import ExpressionError, PlanError
from lakehouse.plan.alert import On
from lakehouse.run.scenario.scenario import on_model
from lakehouse.semantics.operators.crossing import find_crossing
from lakehouse.semantics.record import Record

NUMBERS = lh.stream("numbers", key="id string", schema="n bigint", format="json")
LAST = NUMBERS.latest("last")


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (None, True, "enter"), (False, True, "enter"), (True, True, None), (True, False, "leave"),
        (True, None, "leave"), (False, None, None), (None, None, None), (None, False, None),
    ],
)  # fmt: skip
def test_a_crossing_is_told_by_two_rows(before: bool | None, after: bool | None, found: str | None) -> None:
    assert find_crossing(before, after) == found


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 6)), max_size=30),
    st.integers(1, 5),
    st.sampled_from(["enter", "leave", "both"]),
)
def test_every_crossing_is_told_once_under_any_batching(
    history: list[tuple[str, int | None]], size: int, on: On
) -> None:
    app = lh.app(LAST.alert("high", "n > 3", on=on).to_topic("high"))
    sent = [
        Record(
            "numbers", "id", 0, number, number, key.encode(), None if n is None else b'{"n": %d}' % n,
            tick=number // size + 1, order_time=number,
        )
        for number, (key, n) in enumerate(history)
    ]  # fmt: skip
    wanted, rows = [], dict[str, int | None]()
    for number, (key, n) in enumerate(history):
        before, after = (value is not None and value > 3 for value in (rows.get(key), n))
        if before != after and on in ("enter" if after else "leave", "both"):
            wanted.append((key, "enter" if after else "leave", rows.get(key), n, number))
        rows[key] = n
    actual = on_model(app, sent).topics["high"]
    values = [change.value or {} for change in actual]
    assert [
        ((change.key or ("",))[0], value["crossing"], *((value[side] or {}).get("n") for side in ("before", "after")))
        for change, value in zip(actual, values, strict=True)
    ] == [item[:4] for item in wanted]
    assert [change.timestamp for change in actual] == [number for *_, number in wanted]
    ids = [f"high/{number // size + 1}/numbers/0/{number}/0" for *_, number in wanted]
    assert [value["alert_id"] for value in values] == ids
    assert len(set(ids)) == len(ids)
    in_one = on_model(app, [replace(record, tick=1) for record in sent]).topics["high"]
    assert [(change.key, change.timestamp) for change in in_one] == [
        (change.key, change.timestamp) for change in actual
    ]


def test_an_alert_describes_itself() -> None:
    app = lh.app(
        LAST.alert("high", "n > 3").to_topic("high"),
        LAST.alert("moves", on="both").to_function("tell", print),
    )
    assert lh.describe(app).splitlines()[-2:] == [
        "TOPIC high <- ALERT high: ROW OF TABLE last BEGINS TO MEET n > 3",
        "FUNCTION tell <- ALERT moves: ROW OF TABLE last COMES OR GOES",
    ]
    assert [table.name for table in app.tables] == ["last"], "the table is kept, since it is read"
    alert = LAST.alert("high", "n > 3")
    assert [str(column) for column in alert.columns] == [
        "id string", "alert string", "crossing string", "before struct<n: bigint>", "after struct<n: bigint>",
        "alert_id string",
    ]  # fmt: skip


def test_what_can_not_be_told_is_refused() -> None:
    with pytest.raises(PlanError, match="alert 'no name'"):
        LAST.alert("no name")
    with pytest.raises(ExpressionError, match="reads 'm', which does not exist"):
        LAST.alert("high", "m > 3")
    with pytest.raises(PlanError, match="expected a function of one argument"):
        NUMBERS.to_function("tell", 3)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="function 'tell' is declared twice"):
        lh.app(NUMBERS.to_function("tell", print), LAST.to_stream().to_function("tell", print))
    with pytest.raises(PlanError, match=r"to_function.*table\.alert"):
        LAST.to_function("tell", print)  # type: ignore[attr-defined]


def test_two_alerts_of_one_name_are_refused() -> None:
    """Their records would have the same identities; the same alert may be published twice."""
    high, low = LAST.alert("edge", "n > 3"), LAST.alert("edge", "n < 1")
    with pytest.raises(PlanError, match=r"alert 'edge' is declared twice, differently, so two records .* another name"):
        lh.app(high.to_topic("high"), low.to_topic("low"))
    with pytest.raises(PlanError, match="alert 'edge' is declared twice"):
        lh.app(high.to_topic("high"), NUMBERS.latest("other").alert("edge", "n > 3").latest("others"))
    lh.app(high.to_topic("high"), LAST.alert("edge", "n > 3").latest("seen"))
