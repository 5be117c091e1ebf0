"""`lakehouse deploy`: new logic of several tables at one tick, promoted, finished after a crash, taken back."""

from __future__ import annotations

import json
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import declarations_digest
from lakehouse.run.deploy.declared import refuse_other_declarations
from lakehouse.run.start.application import load_app

from .conftest import Command
from .test_repair_below import Shop, shop

__all__ = ["shop"]
ALL = ["customer", "by_city", "city_total", "moves"]
FILTER = ".filter('level > 0')"


def as_json(lakehouse: Command, *arguments: str, code: int = 0) -> Any:
    result = lakehouse(*arguments, "--json")
    assert result.code == code, result.err
    return json.loads(result.out)


def effects(lakehouse: Command, file: str, code: int = 0) -> dict[str, str]:
    plan = as_json(lakehouse, "deploy", "plan", "--app", file, code=code)
    return {item["table"]: item["effect"] for item in plan["tables"]}


def all_rows(shop: Shop, file: str) -> dict[str, Any]:
    return {table.name: shop.rows(table.name) for table in load_app(file).tables}


def test_another_declaration_than_the_approved_one_is_refused() -> None:
    def application(logic: str) -> App:
        visits = lh.stream("clicks", key="user string", schema="place string, n int").filter(logic).latest("visits")
        return lh.app(visits, lh.stream("names", key="user string", schema="name string").latest("names"))

    digest = declarations_digest(application("n > 0").tables)
    refuse_other_declarations(application("n > 0"), digest)
    with pytest.raises(PlanError, match=f"expected '{digest}'.*Put its file back, or stage it again"):
        refuse_other_declarations(application("n > 1"), digest)


@pytest.mark.slow
def test_new_logic_is_staged_asked_and_promoted(shop: Shop, lakehouse: Command) -> None:
    from lakehouse.lake.control.writer_leases import table_lease

    assert effects(lakehouse, "app.py") == dict.fromkeys(ALL, "new")
    shop.catch_up()
    shop.declare("new.py", steps=FILTER)
    assert set(effects(lakehouse, "app.py").values()) == {"nothing"}
    assert "Nothing to deploy" in lakehouse("deploy", "stage", "--app", "app.py").out
    assert effects(lakehouse, "new.py") == dict.fromkeys(ALL, "rebuilt")
    page = lakehouse("deploy", "plan", "--app", "new.py").out
    assert "level > 0" in page
    assert "lakehouse deploy stage --app new.py" in page
    for name in ("Next", "a-b", "../x", "", "x" * 64):
        refused = lakehouse("deploy", "stage", "--app", "new.py", "--as", name)
        assert "expected a small letter" in refused.err, name
    assert "nothing is built" in lakehouse("deploy", "show", "--app", "new.py").err

    old, new = all_rows(shop, "app.py"), shop.expected("new.py")
    staged = as_json(lakehouse, "deploy", "stage", "--app", "new.py", "--as", "blue", "--limit", "1")
    counts = {name: item["added"] + item["removed"] + item["changed"] for name, item in staged["tables"].items()}
    assert counts == {
        name: sum(old[name].get(key) != new[name].get(key) for key in old[name].keys() | new[name].keys())
        for name in ALL
    }
    assert all_rows(shop, "app.py") == old
    both = as_json(
        lakehouse, "query", "SELECT count(*) FILTER (l.n <> s.n) AS n FROM (SELECT count(*) n FROM customer) l, "
        "(SELECT count(*) n FROM staged_blue.customer) s",
    )  # fmt: skip
    assert both == {"n": int(len(old["customer"]) != len(new["customer"]))}
    shown = as_json(lakehouse, "deploy", "show", "customer", "--app", "new.py", "--as", "blue")
    assert list(shown["tables"]) == ["customer"]
    assert shown["tables"]["customer"]["changes"]
    assert (
        "expected tables of the deployment" in lakehouse("deploy", "show", "x", "--app", "new.py", "--as", "blue").err
    )

    shop.declare("edited.py", steps=".filter('level > 7')")
    edited = lakehouse("deploy", "promote", "--app", "edited.py", "--as", "blue", "--expect", staged["digest"])
    assert edited.code == 2
    assert f"expected '{staged['digest']}', as they were when it was staged" in edited.err
    assert all_rows(shop, "app.py") == old, "what nobody looked at is not promoted"

    with table_lease(shop.layout, "moves"):
        held = lakehouse("deploy", "promote", "--app", "new.py", "--as", "blue")
    assert held.code == 3
    assert "moves" in held.err
    promote = ["deploy", "promote", "--app", "new.py", "--as", "blue", "--why", "levels", "--expect", staged["digest"]]
    done = as_json(lakehouse, *promote)
    assert (done["tick"], done["before"]) == (4, 3)
    assert as_json(lakehouse, *promote)["tick"] is None, "given again, as by a task that is tried again"
    assert all_rows(shop, "new.py") == {name: new[name] for name in ALL}
    assert effects(lakehouse, "new.py") == dict.fromkeys(ALL, "nothing")
    assert "staged_blue" in lakehouse("query", "SELECT * FROM staged_blue.customer").err, "it is gone"
    log = [json.loads(line) for line in lakehouse("look", "interventions", "--json").out.splitlines()]
    assert {(item["at"], item["table"], item["reason"]) for item in log} == {(4, name, "levels") for name in ALL}
    totals = [
        json.loads(line)["total"]
        for line in lakehouse(
            "query", "SELECT sum(total)::BIGINT AS total FROM by_city", "--tick", "3", "--json"
        ).out.splitlines()
    ]
    assert totals == [sum(row["total"] for row in old["by_city"].values())]


@pytest.mark.slow
def test_a_crash_while_promoting_is_finished_and_all_goes_back(
    shop: Shop, lakehouse: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakehouse.run.deploy import deployment
    from lakehouse.run.repair import intervene

    shop.catch_up()
    shop.declare("new.py", steps=FILTER)
    bring, brought = intervene.bring_table, []

    def bring_two(open_table: Any, app: Any, tick: int) -> None:
        brought.append(open_table.name)
        if len(brought) == 3:
            raise KeyboardInterrupt
        bring(open_table, app, tick)

    def die_early(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(deployment, "build_tables", die_early)
        assert lakehouse("deploy", "stage", "--app", "new.py").code != 0
    assert "nothing is built for these declarations" in lakehouse("deploy", "show", "--app", "new.py").err

    monkeypatch.setattr(intervene, "bring_table", bring_two)
    assert lakehouse("deploy", "promote", "--app", "new.py").code != 0
    monkeypatch.setattr(intervene, "bring_table", bring)
    old, new = shop.expected("app.py"), shop.expected("new.py")
    assert brought == ["customer", "by_city", "city_total"]
    half = {name: shop.rows(name) for name in ALL}
    assert half == {**{name: new[name] for name in ALL[:2]}, **{name: old[name] for name in ALL[2:]}}
    for command in ("back", "promote", "stage"):  # city_total and moves would have become the new ones all the same
        early = lakehouse("deploy", command, "--app", "app.py")
        assert (early.code, "at tick 4, and not finished" in early.err) == (2, True), (command, early.err)
    assert effects(lakehouse, "app.py", code=1)["moves"] == "refused"
    finished = as_json(lakehouse, "deploy", "promote", "--app", "new.py")
    assert (finished["tick"], finished["before"], finished["tables"]) == (4, 3, {})
    assert all_rows(shop, "new.py") == {name: new[name] for name in ALL}
    assert not (shop.folder / "lake" / "beside" / "deploy-next").exists()
    shop.send(5, ("orders", "9", {"customer": "a", "amount": 2}), ("customers", "b", {"city": "Bonn", "level": 1}))
    shop.catch_up("new.py")
    assert all_rows(shop, "new.py") == {name: shop.expected("new.py")[name] for name in ALL}

    shop.declare("other.py", steps=".filter('level > 1')")
    wrong = lakehouse("deploy", "back", "--app", "other.py")
    assert wrong.code != 0
    assert "otherwise than before their deployment: customer." in wrong.err
    back = lakehouse("deploy", "back", "--app", "app.py")
    assert "At tick 6" in back.out, back.err
    assert all_rows(shop, "app.py") == {name: shop.expected("app.py")[name] for name in ALL}
    again = lakehouse("deploy", "back", "--app", "app.py")
    assert again.code != 0
    assert "otherwise than before" in again.err


@pytest.mark.rotated
def test_what_no_table_can_become_is_refused_before_anything_is_built(shop: Shop, lakehouse: Command) -> None:
    shop.catch_up()
    text = (shop.folder / "app.py").read_text()
    (shop.folder / "key.py").write_text(text.replace('group_by("city")\nby_city', 'group_by("city", "level")\nby_city'))
    assert effects(lakehouse, "key.py", code=1)["by_city"] == "refused"
    refused = lakehouse("deploy", "stage", "--app", "key.py")
    assert refused.code != 0
    assert "by_city" in refused.err
    assert "another name" in refused.err
    (shop.folder / "fewer.py").write_text(
        text.replace("orders=lh.count(), total", "total").replace('"orders", "total"', '"total"')
    )
    assert effects(lakehouse, "fewer.py", code=1)["by_city"] == "refused"
    assert "column orders: is no longer declared" in lakehouse("deploy", "stage", "--app", "fewer.py").err
    assert lakehouse("deploy", "discard", "--app", "app.py").out == "next: nothing was staged.\n"
    assert not (shop.folder / "lake" / "beside").exists()
