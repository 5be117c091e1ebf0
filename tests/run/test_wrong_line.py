"""An error of an application's file names the user's own line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.errors import ConfigError, LakehouseError, PlanError
from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.refused.place import message_with_place
from lakehouse.plan.table import Table
from lakehouse.run.start.application import load_app

HEAD = 'import lakehouse as lh\norders = lh.stream("orders", key="id string", schema="city string")\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('bad = lh.stream("o", key="id string", schema="b timestmp")', "app.py:3: stream 'o': .*\n    bad = lh.stream"),
        ('(\n    orders.filter("city > \'a\'")\n    .group_by("citty")\n)', "app.py:5: .*\n    .group_by"),
        ('orders.latest("last").explode("x")', "app.py:3: table 'last' has no explode"),
        ('lh.stream("o", key="id string", shema="a int")', "app.py:3: TypeError: .*'shema'. Did you mean 'schema'"),
        ('orders.latest("last", retain="1 day")', r"app.py:3: TypeError: .*'retain'.* There are: name, order_by"),
        ("lh.app(", "app.py:3: SyntaxError: '.' was never closed\n    lh.app"),
        ("import no_such_module", "app.py:3: ModuleNotFoundError: No module named 'no_such_module'"),
        ("1 / 0", "app.py:3: ZeroDivisionError: division by zero\n    1 / 0"),
    ],
)
def test_the_users_line_is_named(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(HEAD + text + "\n")
    with pytest.raises(PlanError, match=f"^{said}"):
        load_app("app.py")


def test_the_line_of_a_module_that_the_application_imports_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("shared_streams.py").write_text(HEAD + 'orders.drop("twon")\n')
    Path("app_of_it.py").write_text("import shared_streams\n")
    for target in ("app_of_it.py", "app_of_it"):
        with pytest.raises(LakehouseError, match=r"^shared_streams.py:3: stream 'orders': drop: 'twon'"):
            load_app(target)


def test_an_expression_knows_its_line_for_what_only_spark_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no JVM when it is declared: the message comes later, and names the line all the same."""
    monkeypatch.chdir(tmp_path)
    text = """(
    orders.filter("city > 'a'")
    .with_columns(town="upper(city)")
    .group_by("town")
    .agg(last=lh.max("lower(city)"))
    .having("last > 'b'")
    .table("towns")
)
"""
    Path("app.py").write_text(HEAD + "towns = " + text + "app = lh.app(towns)\n")
    (towns,) = load_app("app.py").tables
    (aggregation,) = towns.fold.aggregations
    having = towns.later_operators[0].predicate
    assert [message_with_place("no", of.place) for of in (*_of_steps(towns), aggregation.argument, having)] == [
        "app.py:4: no\n    orders.filter(\"city > 'a'\")",
        'app.py:5: no\n    .with_columns(town="upper(city)")',
        'app.py:7: no\n    .agg(last=lh.max("lower(city)"))',
        "app.py:8: no\n    .having(\"last > 'b'\")",
    ]


def _of_steps(table: Table) -> list[Expression]:
    return [item for step in table.stream.steps for item in step.expressions if not item.is_column]


def test_an_expression_of_sql_knows_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.sql").write_text(
        "CREATE STREAM orders (id VARCHAR KEY, city VARCHAR) WITH (kafka_topic='orders', value_format='JSON');\n"
        "CREATE TABLE cities AS SELECT city, COUNT(*) AS n FROM orders WHERE LEN(city) > 1 GROUP BY city;\n"
    )
    (cities,) = load_app("shop.sql").tables
    assert {message_with_place("no", of.place) for of in _of_steps(cities)} == {"shop.sql: no"}
    assert Expression("n").place != ("shop.sql", None)


def test_two_expressions_of_one_text_are_one_whatever_their_lines() -> None:
    first = Expression("city > 'a'")
    second = Expression("city > 'a'")
    assert first.place != second.place
    assert (first, hash(first), repr(first)) == (second, hash(second), repr(second))


APP = HEAD + 'last = orders.latest("last")\n'


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        (APP + "app = lh.app(last)", "app.py:nope", "app.py has no 'nope'. The application there is app.py:app."),
        (APP + "app = lh.app(last)", "app.py:last", "'last' is table 'last', expected an application: last = lh.app"),
        (APP, "app.py:lats", r"app.py has no 'lats'. Did you mean 'last'\? Declare one: app = lh.app"),
        (APP, "app.py", r"declares no application. Add a line such as app = lh.app\(last\)."),
        (APP + "a, b = lh.app(last), lh.app(last, orders.to_topic('x'))", "app.py", "Name one: app.py:a or app.py:b."),
    ],
)
def test_an_application_that_is_not_there_is_told_with_those_that_are(
    text: str, target: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(text + "\n")
    with pytest.raises(ConfigError, match=said):
        load_app(target)
