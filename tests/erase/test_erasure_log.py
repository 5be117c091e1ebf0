"""The notes of erasures: what they have, what they do not have, and what a read of the past says of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, StorageError
from lakehouse.lake.erasure.erased_past import erased_since
from lakehouse.lake.erasure.erasure_log import (
    Erasure,
    Search,
    find_erasure,
    read_erasures,
    write_erasure,
)
from lakehouse.lake.erasure.subject import ErasureSubject, types_of_subject
from lakehouse.lake.layout import Layout
from lakehouse.run.erase.search import names_one_of, refuse_unsearchable, search_erased
from lakehouse.run.repair.rebuild import refuse_erased
from lakehouse.run.repair.replay import plan_replay
from lakehouse.run.repair.unfinished_erasure import refuse_during_erasure
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


TYPES = {"customers": ("id bigint",), "orders.customer_id": ("customer_id string",), "orders.price": ("price double",)}


def test_a_key_is_recognized_and_searched_by_its_value() -> None:
    erasure = Erasure.begin(ASKED, "", "", TYPES)
    for text in ("04711", "+4711", " 4711"):
        subject = replace(ASKED, keys={"customers": text})
        assert find_erasure([erasure], subject) == erasure, text
        assert subject.named_values(TYPES) == [("orders.customer_id", text), ("orders.customer_id", "4711")]
        assert subject.searched_texts(TYPES) == {text, "4711"}
    assert find_erasure([erasure], replace(ASKED, keys={"customers": "47110"})) is None
    days = ErasureSubject({"customers": "2024-1-1"})
    assert days.searched_texts({"customers": ("born date",)}) == {"2024-1-1", "2024-01-01"}
    price = ErasureSubject({}, ("orders.price=1.50",))
    assert price.searched_texts(TYPES) == {"1.50", "1.5"}
    text_key = ErasureSubject({"customers": "007"}, ("orders.price",))
    assert text_key.searched_texts({**TYPES, "customers": ("id string",)}) == {"007", "7.0"}


def test_types_are_those_of_the_columns_that_hold_the_subject() -> None:
    customers = lh.stream("customers", key="id bigint, part binary", schema="name string")
    orders = lh.stream("orders", key="id string", schema="by struct<customer: int>, amount bigint")
    app = lh.app(customers.latest("known"), orders.latest("all_orders"))
    subject = ErasureSubject({"customers": "1,YQ=="}, ("orders.by.customer", "orders.amount=1"))
    assert types_of_subject(app, subject) == {
        "customers": ("id bigint", "part binary"),
        "orders.by.customer": ("customer int",),
        "orders.amount": ("amount bigint",),
    }


def test_parts_of_a_key_and_bytes_can_not_be_searched_alone() -> None:
    for columns, text in ((("id string", "customer string"), "has parts"), (("id binary",), "is of bytes")):
        types = {"orders": columns}
        with pytest.raises(ConfigError, match=text):
            refuse_unsearchable(ErasureSubject({"orders": "o0,anna"}), types, ())
        refuse_unsearchable(ErasureSubject({"orders": "o0,anna"}), types, ("anna",))
        refuse_unsearchable(ErasureSubject({"orders": "o0,anna"}, ("orders.by=anna",)), types, ())
    refuse_unsearchable(ErasureSubject({"orders": "o0"}), {"orders": ("id string",)}, ())
    refuse_unsearchable(ErasureSubject({"orders": "o0"}), {}, ())


def test_an_erasure_is_finished_by_a_search_for_all_its_texts(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    erasure = Erasure.begin(ASKED, "", "").with_values(["Anna Berg"])
    erasure, result = search_erased(layout, erasure, ASKED, ())
    assert (result.occurrences, erasure.is_finished) == ((), False)
    erasure, _ = search_erased(layout, erasure, ASKED, ("anna@berg.example",))
    assert not erasure.is_finished
    assert read_erasures(layout) == [erasure]
    assert b"Anna" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*.json"))
    erasure, _ = search_erased(layout, erasure, ASKED, ("Anna Berg",))
    assert not erasure.is_finished, "an address was searched for, too"
    erasure, _ = search_erased(layout, erasure, ASKED, ("Anna Berg", "anna@berg.example"))
    assert erasure.is_finished


def test_a_reason_may_have_a_number_that_has_the_key_in_it() -> None:
    assert names_one_of({"1"}, "ticket 1")
    assert not names_one_of({"1"}, "ticket 12")
    assert names_one_of({"anna-berg"}, "anna-berg asked")


def test_a_repair_is_not_even_planned_while_an_erasure_is_not_finished(tmp_path: Path) -> None:
    customers = lh.stream("customers", key="id bigint", schema="name string")
    app = lh.app(customers.latest("known"))
    layout = Layout(str(tmp_path))
    erasure = replace(Erasure.begin(ASKED, "", ""), progress="chosen", tables=("known",))
    write_erasure(layout, erasure)
    with pytest.raises(StorageError, match=r"table known: an erasure that began at .* is not finished"):
        plan_replay(layout, app, customers.source, [], lambda: pytest.fail("no Spark"))
    refuse_during_erasure(layout, ["other"])
    refuse_during_erasure(layout, ["known"], {erasure.id})
    write_erasure(layout, replace(erasure, progress="purged"))
    refuse_during_erasure(layout, ["known"])


def test_a_changelog_gives_no_moment_before_an_erasure(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    write_erasure(layout, replace(Erasure.begin(ASKED, "", ""), tables=("totals",), tick=9))
    for name, tick in (("totals", 9), ("others", 8)):
        refuse_erased(layout, name, tick)
    with pytest.raises(ConfigError, match=r"records of table 'totals' were erased at tick 9, .*expected tick 9 or a"):
        refuse_erased(layout, "totals", 8)
