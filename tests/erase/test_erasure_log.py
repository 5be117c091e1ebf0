"""The notes of erasures: what they have, what they do not have, and what a read of the past says of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from lakehouse.lake.erasure.erased_past import erased_since
from lakehouse.lake.erasure.erasure_log import (
    Erasure,
    ErasureSubject,
    Search,
    find_erasure,
    read_erasures,
    write_erasure,
)
from lakehouse.lake.layout import Layout
from lakehouse.semantics.moment import AtEvent, AtTick

ASKED = ErasureSubject({"customers": "4711"}, ("orders.customer_id",), {"orders": {0: (3, 4)}})


def test_a_note_is_read_as_it_was_written_and_names_nobody(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    assert read_erasures(layout) == []
    erasure = Erasure.begin(ASKED, "ticket 12", "ops (user root)")
    erasure = replace(
        erasure, progress="purged", records={"orders": 3}, tables=("totals",), columns=("id",), stages=("a",), tick=9
    ).with_search(Search("2026-11-29T12:00:00Z", 4, 100, 0))
    write_erasure(layout, erasure)
    assert read_erasures(layout) == [erasure]
    (file,) = tmp_path.rglob("*.json")
    assert "4711" not in file.read_text()
    assert not {"salt", "subject", "columns"} & erasure.facts().keys()
    assert json.loads(json.dumps(erasure.facts()))["records"] == {"orders": 3}


def test_an_erasure_is_recognized_by_what_was_asked() -> None:
    erasures = [Erasure.begin(ASKED, "", ""), Erasure.begin(ASKED, "second", "")]
    assert erasures[0].subject != erasures[1].subject, "each has a salt of its own"
    assert find_erasure(erasures, ASKED) == erasures[1]
    for other in (
        replace(ASKED, keys={"customers": "4712"}),
        replace(ASKED, keys={"orders": "4711"}),
        replace(ASKED, named_by=()),
        replace(ASKED, places={"orders": {0: (3, 5)}}),
    ):
        assert find_erasure(erasures, other) is None


def test_columns_hold_the_keys_or_texts_of_their_own() -> None:
    subject = ErasureSubject({"customers": "4711"}, ("orders.customer_id", "orders.by=anna=1"))
    assert subject.named_texts == [("orders.customer_id", "4711"), ("orders.by", "anna=1")]
    assert subject.texts == {"4711", "anna=1"}


def test_a_read_of_an_earlier_moment_is_told(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    write_erasure(layout, replace(Erasure.begin(ASKED, "ticket 12", ""), tables=("totals", "known"), tick=9))
    write_erasure(layout, Erasure.begin(ASKED, "not that far", ""))
    for moment in (AtTick(8), AtEvent(0)):
        for table in (None, "totals", "state.totals"):
            sentence = erased_since(layout, moment, table)
            assert sentence is not None
            assert "at tick 9" in sentence
            assert "ticket 12) of totals, known" in sentence
            assert "not that far" not in sentence
    assert erased_since(layout, AtTick(9)) is None
    assert erased_since(layout, None) is None
    assert erased_since(layout, AtTick(1), "others") is None
