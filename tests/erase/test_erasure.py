"""Erasures on real Spark and Delta: random lakes, killed at random steps; the rest is what the others' records give.

The oracle is the model over the records that remain, and a search of our own through every byte.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, NotFound, PlanError, StorageError
from lakehouse.formats.decode import decode_record
from lakehouse.lake.erasure import erasure_log
from lakehouse.lake.erasure.subject import ErasureSubject
from lakehouse.lake.function_failures import failures_by_table
from lakehouse.lake.moment.cut import Cut
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.run.audit.audit import audit
from lakehouse.run.audit.missing import KafkaAccess
from lakehouse.run.erase import erasure as erasure_module
from lakehouse.run.erase.erasure import Erased, Eraser, plan_erasure
from lakehouse.run.repair import intervene
from lakehouse.run.repair.backfill import ignore_progress, revert
from lakehouse.run.repair.intervene import Why
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.moment import AtTick
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.bronze import interventions
from tests.seeds import seeds
from tests.spark.test_backfill import Bench, bench

__all__ = ["bench"]

ANNA, BO, CIA = "anna-berg", "bo-lind", "cia-holm"
ASKED = ErasureSubject({"customers": ANNA}, ("orders.customer",))
NO_KAFKA = KafkaAccess(None, why="there is none")


class Killed(BaseException):
    """In place of a SIGKILL between two steps: nothing catches it."""


def application(*, own_table: bool = False) -> App:
    customers = lh.stream("customers", key="id string", schema="name string, city string")
    orders = lh.stream("orders", key="id string", schema="customer string, amount bigint", own_table=own_table)
    known = customers.latest("known")
    by_customer = orders.group_by("customer").agg(n=lh.count(), total=lh.sum("amount")).table("by_customer")
    named = orders.join(known, on="customer", how="left").select("customer", "city", "amount").latest("named")
    cities = known.group_by("city").agg(n=lh.count()).table("cities")
    windows = (
        orders.group_by("customer").window(lh.tumbling("10 seconds", grace="1 hour")).agg(n=lh.count())
        .table("windows", emit="final")
    )  # fmt: skip
    rich = by_customer.group_by("n").agg(customers=lh.count()).table("rich")
    return lh.app(known, by_customer, named, cities, windows, rich)


def drawn_records(dice: random.Random, count: int) -> list[Record]:
    """Records of both topics, six a tick: updates, deletes, and records that do not fit."""
    times = [1_000 * n for n in range(count)]
    next_offsets, made = {"customers": 0, "orders": 0}, []
    for n, (time, order) in enumerate(zip(times, order_times(times), strict=True)):
        who = dice.choice((ANNA, BO, CIA))
        topic = dice.choice(("customers", "orders", "orders"))
        if topic == "customers":
            key, value = who, {"name": who.title(), "city": dice.choice("xyz")}
        else:
            key, value = f"o{dice.randrange(9)}", {"customer": who, "amount": dice.randrange(100)}
        data: bytes | None = json.dumps(value).encode()
        if (chance := dice.random()) < 0.1:
            data = None
        elif chance < 0.2 and topic == "customers":
            data = b"not JSON"
        made.append(Record(topic, topic, 0, next_offsets[topic], time, key.encode(), data, n // 6 + 1, order))
        next_offsets[topic] += 1
    return made


def is_annas(record: Record) -> bool:
    return record.key == ANNA.encode() or ANNA.encode() in (record.value or b"")


def expected(app: App, records: list[Record]) -> dict[str, dict[Any, Any]]:
    tables = model.run(app, records, decode_record).tables
    return {table.name: dict(tables[table.name]) for table in app.tables}


def contents(bench: Bench, app: App, at: Any = None) -> dict[str, dict[Any, Any]]:
    return {table.name: bench.rows(table, at) for table in app.tables}


def erase(bench: Bench, app: App, subject: ErasureSubject = ASKED, **options: Any) -> Erased:
    publish: Callable[[], None] = options.get("publish", lambda: None)
    return Eraser(bench.lake, app, Why("ticket 12"), publish, ignore_progress).erase(subject, options.get("values", ()))


def files_with(folder: Path, word: bytes) -> list[str]:
    """The files that hold a word, by a reader of our own."""
    result = []
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if data.startswith(b"PAR1"):
                data += repr(pq.read_table(path).to_pylist()).encode()
            if word in data:
                result.append(str(path.relative_to(folder)))
    return result


def check_audits(bench: Bench, app: App) -> None:
    for table in app.tables:
        result = audit(bench.lake.open(table), app, NO_KAFKA, deep=True)
        assert (result.problems, [item for item in result.notes if "no row in bronze" in item]) == ([], []), table.name


def die_at(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Let the process die after so many steps of an erasure."""
    left = [calls]

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            left[0] -= 1
            if not left[0]:
                raise Killed
            return result

        return call

    for owner, name in (
        (erasure_log, "write_erasure"),
        (erasure_module.erased, "keep_places"),
        (erasure_module.erased, "delete_records"),
        (erasure_module, "carry_out"),
        (erasure_module, "build_tables"),
        (erasure_module.files, "vacuum_files"),
        (erasure_module, "scrub_log"),
    ):
        monkeypatch.setattr(owner, name, dying(getattr(owner, name)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 2, 3, on_spark=True))
def test_what_is_left_is_what_the_others_give(bench: Bench, seed: int) -> None:
    dice = random.Random(seed)
    app = application(own_table=dice.random() < 0.5)
    records = drawn_records(dice, 48)
    others = [record for record in records if not is_annas(record)]
    assert write_bronze(bench.lake, app, records) == 8
    bench.catch_up(app, 4)
    bench.catch_up(app)
    assert contents(bench, app) == expected(app, records)
    plan = plan_erasure(bench.lake, app, ASKED)
    assert sum(plan.records.values()) == len(records) - len(others)
    assert erasure_log.read_erasures(bench.layout) == [], "a plan leaves nothing"

    with pytest.MonkeyPatch.context() as patch:
        for _ in range(2):
            die_at(patch, dice.randint(1, 25))
            try:
                erase(bench, app, values=[ANNA.title()])
            except Killed:
                continue
            break
    outcome = erase(bench, app, values=[ANNA.title()])
    assert outcome.erasure.is_finished
    assert outcome.occurrences == ()
    assert outcome.erasure.records == plan.records
    lake = Path(bench.layout.root)
    assert files_with(lake, ANNA.encode()) == files_with(lake, ANNA.title().encode()) == []

    again = erase(bench, app, values=[ANNA.title()]).erasure
    assert (again.id, len(again.searches)) == (outcome.erasure.id, len(outcome.erasure.searches) + 1)

    left = expected(app, others)
    assert contents(bench, app) == left
    check_audits(bench, app)
    # The past is folded from what is left; the others' records are all there.
    for table in app.tables:
        assert bench.folded(table, 9) == left[table.name], table.name
    half = [record for record in others if record.tick <= 4]
    assert contents(bench, app, AtTick(4)) == expected(app, half)
    # The same key that comes later is a new person's.
    more = [
        replace(
            record, offset=record.offset + 100, tick=record.tick + 9, timestamp=record.timestamp + 48_000,
            order_time=record.order_time + 48_000,
        )
        for record in records[:12]
    ]  # fmt: skip
    assert write_bronze(bench.lake, app, more) == 11
    bench.catch_up(app)
    assert contents(bench, app) == expected(app, [*others, *more])


@pytest.mark.rotated
def test_bad_requests_change_nothing(bench: Bench) -> None:
    app = application()
    records = drawn_records(random.Random(1), 12)
    write_bronze(bench.lake, app, records)
    bench.catch_up(app)
    for subject, error, text in (
        (ErasureSubject({}), ConfigError, "found no key"),
        (ErasureSubject({"nobody": "x"}), PlanError, "stream 'nobody' is not in this application"),
        (ErasureSubject({"customers": ""}), ConfigError, "found an empty key"),
        (ErasureSubject({}, ("orders.customer=",)), ConfigError, "found an empty key"),
        (ErasureSubject({}, ("orders.customer",)), ConfigError, "found no key"),
        (ErasureSubject({"customers": ANNA, "orders": "o1"}, ("orders.customer",)), ConfigError, "beside 2 keys"),
        (ErasureSubject({}, ("orders.amount=many",)), ConfigError, "expected bigint"),
        (ErasureSubject({"customers": ANNA}, ("orders",)), ConfigError, "expected STREAM.COLUMN"),
        (ErasureSubject({"customers": ANNA}, ("orders.who",)), PlanError, "no column 'who'; expected one of id, "),
        (ErasureSubject({"customers": "dora"}), NotFound, "bronze has no such record"),
        (ErasureSubject({}, (), {"orders": {0: (900, 901)}}), NotFound, "bronze has no such record"),
        (ErasureSubject({}, (), {"nothing": {0: (0, 1)}}), PlanError, "reads no topic 'nothing'"),
    ):
        with pytest.raises(error, match=text):
            erase(bench, app, subject, values=["a text"] if subject.places else ())
    with pytest.raises(ConfigError, match="found no text to search the lake for afterwards"):
        erase(bench, app, ErasureSubject({}, (), {"orders": {0: (0, 1)}}))
    with pytest.raises(ConfigError, match="the reason names what is erased"):
        Eraser(bench.lake, app, Why(f"{ANNA} asked"), lambda: None, ignore_progress).erase(ASKED, ())
    with pytest.raises(PlanError, match=r"the lake has tables cities, named, .*which the application does not declare"):
        erase(bench, lh.app(*[table for table in app.tables if table.name in ("known", "by_customer", "windows")]))
    assert erasure_log.read_erasures(bench.layout) == []
    assert contents(bench, app) == expected(app, records)


@pytest.mark.rotated
def test_a_record_of_a_place_is_erased_and_what_names_it_elsewhere_is_found(bench: Bench) -> None:
    orders = lh.stream("orders", key="id string", schema="note string")
    app = lh.app(orders.latest("notes"))
    texts = ["for anna-berg", "by anna-berg", "for bo-lind"]
    records = [
        Record("orders", "o", 0, n, n, f"k{n}".encode(), json.dumps({"note": text}).encode(), 1, 0)
        for n, text in enumerate(texts)
    ]
    write_bronze(bench.lake, app, records)
    bench.catch_up(app)
    first = ErasureSubject({}, (), {"orders": {0: (0, 0)}})
    outcome = erase(bench, app, first, values=[ANNA])
    assert not outcome.erasure.is_finished
    assert {item.place for item in outcome.occurrences} >= {"column value", "column note"}
    by_text = ErasureSubject({}, ("orders.note=by anna-berg",))
    assert plan_erasure(bench.lake, app, by_text).records == {"orders": 1}
    outcome = erase(bench, app, by_text, values=[ANNA])
    assert outcome.erasure.is_finished
    assert erase(bench, app, first, values=[ANNA]).erasure.is_finished, "given again, it searches again"
    assert bench.rows(app.tables[0]) == {("k2",): {"note": "for bo-lind"}}
    # A record of the same kind that comes later is erased by the same command, whatever the last search found.
    late = replace(records[1], offset=3, tick=outcome.erasure.tick + 1, key=b"k3")
    write_bronze(bench.lake, app, [late])
    bench.catch_up(app)
    again = erase(bench, app, by_text, values=[ANNA])
    assert (again.erasure.is_finished, again.erasure.id != outcome.erasure.id) == (True, True)
    check_audits(bench, app)


ORDERS = lh.stream("orders", key="id string", schema="customer string, amount bigint")
COUNTS = ORDERS.group_by("customer").agg(n=lh.count()).table("counts")
SHOP = lh.app(COUNTS)
HERS = ErasureSubject({}, (f"orders.customer={ANNA}",))


def orders_of(*customers: str, first: int = 0, tick: int = 1, topic_id: str = "o") -> list[Record]:
    """An order of each customer, all in one tick."""
    numbers = range(first, first + len(customers))
    values = [json.dumps({"customer": customer, "amount": 1}).encode() for customer in customers]
    return [
        Record("orders", topic_id, 0, n, 1_000 * n, f"o{n}".encode(), value, tick, 1_000 * n)
        for n, value in zip(numbers, values, strict=True)
    ]


def refuse_customers(customers: Any) -> Any:
    raise ValueError(f"no price for {customers[0]}")


@pytest.mark.rotated
def test_nothing_is_left_of_what_failed_and_parts_of_a_key_need_a_text(bench: Bench) -> None:
    """The commits count rows that do not meet a rule by a key, and functions that fail by an error with values."""
    orders = lh.stream("orders", key="id string, customer string", schema="amount bigint")
    judged = orders.expect("small", "length(customer) < 4", otherwise="warn")
    counts = judged.group_by("customer").agg(n=lh.count()).table("counts").expect("few", "n < 1", otherwise="warn")
    priced = judged.map("price", refuse_customers, "customer", type="string").latest("priced")
    app = lh.app(counts, priced)
    keys = [{"id": f"o{n}", "customer": who} for n, who in enumerate((ANNA, BO))]
    records = [
        Record("orders", "o", 0, n, n, json.dumps(key).encode(), b'{"amount": 1}', 1, n) for n, key in enumerate(keys)
    ]
    write_bronze(bench.lake, app, records)
    bench.catch_up(app)
    assert files_with(Path(bench.layout.silver("counts")) / "_delta_log", ANNA.encode()) != []
    hers = ErasureSubject({"orders": f"o0,{ANNA}"})
    with pytest.raises(ConfigError, match=r"'orders' has parts \(id string, customer string\).*expected --value"):
        erase(bench, app, hers)
    assert erasure_log.read_erasures(bench.layout) == []
    outcome = erase(bench, app, hers, values=[ANNA])
    assert (outcome.occurrences, outcome.erasure.records) == ((), {"orders": 1})
    assert files_with(Path(bench.layout.root), ANNA.encode()) == []
    failed = {item.function: item.records for item in failures_by_table(bench.layout)["counts"]}
    assert failed["expectation counts.few of rows"] >= 1
    check_audits(bench, app)


@pytest.mark.slow
def test_nobody_intervenes_in_its_tables_between_its_steps(bench: Bench) -> None:
    """What was staged before, or a version of before, would bring the person back."""
    records = [*orders_of(ANNA, BO), *orders_of(BO, ANNA, first=2, tick=2)]
    write_bronze(bench.lake, SHOP, records[:2])
    bench.catch_up(SHOP)
    write_bronze(bench.lake, SHOP, records[2:])
    bench.catch_up(SHOP)
    with pytest.MonkeyPatch.context() as patch:
        die_at(patch, 4)  # the places are kept, and bronze has lost the records
        with pytest.raises(Killed):
            erase(bench, SHOP, HERS)
    # The application has got a table meanwhile: what it has of the person goes, too.
    amounts = ORDERS.latest("amounts")
    more = lh.app(COUNTS, amounts)
    bench.catch_up(more)
    with pytest.raises(StorageError, match=r"table counts: an erasure that began at .* is not finished"):
        revert(bench.lake.open(COUNTS), more, Cut(1))
    with pytest.raises(StorageError, match=r"table counts: an erasure that began at .* is not finished"):
        erase(bench, more, ErasureSubject({}, (f"orders.customer={BO}",)))
    (begun,) = erasure_log.read_erasures(bench.layout)
    plan = plan_erasure(bench.lake, more, HERS)
    assert (plan.records, plan.tables) == (begun.records, ("counts", "amounts"))
    assert [text.partition(" ")[0] for text in plan.stages] == ["delete", "build", "remove", "search"]
    other = lh.app(ORDERS.filter("amount > 0").group_by("customer").agg(n=lh.count()).table("counts"), amounts)
    with pytest.raises(PlanError, match="declared otherwise than it was built"):
        erase(bench, other, HERS)
    with pytest.MonkeyPatch.context() as patch:
        swap = erasure_module.carry_out
        patch.setattr(erasure_module, "carry_out", lambda *given: (swap(*given), raise_killed()))
        with pytest.raises(Killed):
            erase(bench, more, HERS)
    assert [item.tables for item in erasure_log.read_erasures(bench.layout)] == [("counts", "amounts")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(erasure_module.files, "vacuum_files", raise_killed)
        with pytest.raises(Killed):
            erase(bench, more, HERS)
    with pytest.raises(PlanError, match="does not declare table amounts, from which this erasure takes records"):
        erase(bench, SHOP, HERS)
    outcome = erase(bench, more, HERS)
    assert (outcome.erasure.is_finished, set(outcome.erasure.tables)) == (True, {"counts", "amounts"})
    assert contents(bench, more) == expected(more, [record for record in records if not is_annas(record)])
    assert files_with(Path(bench.layout.root), ANNA.encode()) == []
    revert(bench.lake.open(COUNTS), more, Cut(1))
    assert bench.rows(COUNTS) == {(BO,): {"n": 1}}


def raise_killed(*_: object, **__: object) -> None:
    raise Killed


@pytest.mark.rotated
def test_a_decision_without_its_tick_gets_it_when_the_erasure_is_given_again(bench: Bench) -> None:
    write_bronze(bench.lake, SHOP, orders_of(ANNA, BO))
    bench.catch_up(SHOP)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interventions, "_append_tick", raise_killed)
        with pytest.raises(Killed):
            erase(bench, SHOP, HERS)
    with pytest.MonkeyPatch.context() as patch:
        clock = SimpleNamespace(monotonic=monotonic, sleep=lambda _: pytest.fail("it waits for nobody"))
        patch.setattr(intervene, "time", clock)
        assert erase(bench, SHOP, HERS).erasure.is_finished
    assert bench.rows(COUNTS) == {(BO,): {"n": 1}}


@pytest.mark.rotated
def test_the_past_has_no_time_that_only_an_erased_record_had_moved(bench: Bench) -> None:
    """Her record alone had closed the others' window, at a tick that is read after the erasure."""
    windows = (
        ORDERS.group_by("customer").window(lh.tumbling("10 seconds", grace="0 seconds")).agg(n=lh.count())
        .table("windows", emit="final")
    )  # fmt: skip
    app = lh.app(windows)
    records = [
        replace(record, timestamp=time, order_time=time, tick=tick)
        for record, time, tick in zip(
            orders_of(BO, ANNA, BO, BO), (1_000, 100_000, 2_000, 200_000), (1, 1, 2, 3), strict=True
        )
    ]
    write_bronze(bench.lake, app, records)
    for tick in (1, 2, 3):
        bench.catch_up(app, tick)
    others = [record for record in records if not is_annas(record)]
    erase(bench, app, HERS)
    for tick in (1, 2, 3):
        assert contents(bench, app, AtTick(tick)) == expected(app, [item for item in others if item.tick <= tick]), tick
    assert contents(bench, app) == expected(app, others)


@pytest.mark.slow
def test_a_revert_comes_back_only_if_one_says_so(bench: Bench) -> None:
    records = [*orders_of(ANNA, BO), *orders_of(BO, first=2, tick=2)]
    write_bronze(bench.lake, SHOP, records[:2])
    bench.catch_up(SHOP)
    write_bronze(bench.lake, SHOP, records[2:])
    bench.catch_up(SHOP)
    revert(bench.lake.open(COUNTS), SHOP, Cut(1))
    plan = plan_erasure(bench.lake, SHOP, HERS)
    assert plan.reverted == ("counts",)
    assert "what was taken away from table counts by a revert comes back" in " ".join(plan.stages)
    with pytest.raises(PlanError, match=r"what a revert took away comes back\. Expected --rebuild-reverted"):
        erase(bench, SHOP, HERS)
    assert erasure_log.read_erasures(bench.layout) == []
    assert bench.rows(COUNTS) == {(ANNA,): {"n": 1}, (BO,): {"n": 1}}
    eraser = Eraser(bench.lake, SHOP, Why(), lambda: None, ignore_progress)
    assert eraser.erase(HERS, (), rebuild_reverted=True).erasure.is_finished
    assert bench.rows(COUNTS) == {(BO,): {"n": 2}}


@pytest.mark.rotated
def test_offsets_of_a_recreated_topic_need_its_id(bench: Bench) -> None:
    old, new = orders_of(ANNA, topic_id="first-id"), orders_of(BO, tick=2, topic_id="second-id")
    write_bronze(bench.lake, SHOP, [*old, *new])
    bench.catch_up(SHOP)
    with pytest.raises(PlanError, match=r"stands for 2 records.* orders@first-id/0=\.\.\. or orders@second-id/0="):
        erase(bench, SHOP, ErasureSubject({}, (), {"orders": {0: (0, 0)}}), values=[ANNA])
    assert erase(
        bench, SHOP, ErasureSubject({}, (), {"orders@first-id": {0: (0, 0)}}), values=[ANNA]
    ).erasure.is_finished
    assert bench.rows(COUNTS) == {(BO,): {"n": 1}}
