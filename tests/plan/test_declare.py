"""Declarations: what they hold, and what is refused, with a message that says what to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakehouse as lh
from lakehouse.errors import ExpressionError, PlanError

orders = lh.stream("orders", key="id string", schema="customer string, amount decimal(10, 2), n bigint")
by_number = orders.select("map(n, customer) AS m")


def declared(**changed: str) -> Callable[[], object]:
    """A stream declared with some of its arguments changed."""
    arguments = {"topic": "t", "key": "id string", "schema": "v int"} | changed
    return lambda: lh.stream(arguments.pop("topic"), **arguments)  # type: ignore[arg-type]


REFUSED: list[tuple[Callable[[], object], str]] = [
    # names and topics
    (declared(topic="no topic"), "topic 'no topic': Kafka allows"),
    (declared(topic=".."), "Kafka allows"),
    (declared(topic="x" * 250), "at most 249 letters"),
    (declared(topic="1st"), "stream '1st': expected a letter"),
    (declared(name="_own"), "leading underscore"),
    (declared(key=" "), "expected the key's column"),
    (declared(key="id string, ID int"), "are the same name, since case is ignored"),
    (declared(key="V string"), "are the same name, since case is ignored"),
    # schemas
    (declared(schema="v"), "can't be read as a schema|not a column and its type"),
    (declared(schema="v int, V string"), "are the same name, since case is ignored"),
    (declared(schema="v varchar(3)"), "unknown type"),
    (declared(schema="v int not null"), "not a column and its type"),
    (declared(schema="rowtime bigint"), "pseudo column"),
    (declared(key="id", schema="id string"), "no value column"),
    (declared(schema="v map ( 5 )"), "can't be read as a schema"),
    (declared(schema="v array"), "'array' does not say what is in it. Write it as 'array<string>'"),
    (declared(schema="v struct<x: map<string>>"), "'map<string>' does not say what is in it"),
    (declared(schema="v array<decimal(39, 2)>"), r"'decimal\(39, 2\)': a decimal has 1 to 38 digits"),
    (declared(schema="v decimal(5, 6)"), r"'decimal\(5, 6\)': a decimal has 1 to 38 digits"),
    (declared(schema="v int(5)"), r"'int\(5\)': a int has no length. Write 'int'"),
    (declared(schema="v array<map<int, string>>"), "names in a JSON object are texts, so the keys of a map are, too"),
    (declared(key="id array<map<string, int>>"), "key: 'id' is a .*, and a key can't have a map in it"),
    (lambda: orders.select("cast(n AS decimal(40, 2)) AS v"), "'cast.* a decimal has 1 to 38 digits"),
    (lambda: orders.select("cast(n AS array) AS v"), "'array' does not say what is in it"),
    (lambda: orders.rekey("map('n', n) AS k"), "rekey: 'k' is a map.*, and a key can't have a map in it"),
    (lambda: orders.group_by("array(map('n', n)) AS k"), "group_by: 'k' is a array<map.*a key can't have a map in it"),
    # formats
    (declared(format="xml"), "expected one of json, delimited, kafka"),
    (declared(key_format="xml"), "key_format='xml'"),
    (declared(format="kafka", schema="a int, b int"), "format kafka holds one column"),
    (declared(format="kafka", schema="a date"), "format kafka holds one column"),
    (declared(format="csv", schema="a array<int>"), "delimited can't hold a array<int>"),
    # event time
    (declared(event_time="v = 1"), "is a boolean; expected a timestamp"),
    (declared(event_time="nowhere"), "'nowhere', which does not exist"),
    # steps
    (lambda: orders.filter("missing > 1"), "'missing', which does not exist. There are: id, customer"),
    (lambda: orders.filter("n >"), "can't be parsed as Spark SQL"),
    (lambda: orders.filter("n > 1 AS big"), "names a column with AS"),
    (lambda: orders.filter("n > 1; SELECT 1"), "one expression and nothing else|parsed"),
    (lambda: orders.filter("sum(n) > 1"), "no aggregate"),
    (lambda: orders.filter("n IN (SELECT 1)"), "no subquery"),
    (lambda: orders.filter("rand() > 0.5"), "no random number"),
    (lambda: orders.select("now() AS t"), "no clock"),
    (lambda: orders.select("raise_error('x') AS t"), "without stopping the job"),
    (lambda: orders.select("n + 1"), "is a column without a name"),
    (lambda: orders.select("id"), "no column is left beside the key"),
    (lambda: orders.select(id="upper(customer)"), "'id' is the key"),
    (lambda: orders.select("n", "customer AS N"), "are the same name, since case is ignored"),
    (lambda: orders.select("n AS rowtime"), "pseudo column"),
    (lambda: orders.rekey(), "at least one expression"),
    (lambda: orders.rekey("upper(customer) AS id"), "a column 'id' exists already"),
    (lambda: orders.rekey("id", "customer", "amount", "n"), "no value column would be left"),
    # tables
    (lambda: orders.latest("9"), "table '9': expected a letter"),
    (lambda: orders.group_by(), "at least one expression"),
    (lambda: orders.group_by("rowtime").agg(n=lh.count()).table("t"), "pseudo column"),
    (lambda: orders.group_by("id").agg(), "at least one aggregate"),
    (lambda: orders.group_by("id").agg(id=lh.count()), "are the same name, since case is ignored"),
    (lambda: orders.group_by("id").agg(total=lh.sum("customer")), "sums a string. Cast it"),
    (lambda: orders.group_by("id").agg(total="sum(n)"), "is not an aggregate"),  # type: ignore[arg-type]
    # applications
    (lambda: lh.app(), "at least one table or sink"),
    (lambda: lh.app(orders), "alone keeps nothing"),  # type: ignore[arg-type]
    (lambda: lh.app("orders"), "expected tables and sinks"),  # type: ignore[arg-type]
    (lambda: lh.app(orders.latest("a"), orders.filter("n > 1").latest("a")), "declared twice, differently"),
    (lambda: lh.app(orders.latest("a"), orders.rekey("n").latest("A")), "are the same name, since case is ignored"),
    (lambda: lh.app(orders.to_topic("out"), orders.filter("n > 1").to_topic("out")), "written by two sinks"),
    (lambda: lh.app(orders.to_topic("orders")), "read and written"),
    (lambda: orders.to_topic("out", partitions=0), "expected 1 to 10000"),
    (lambda: by_number.to_topic("out"), "column 'm': the keys of a map in JSON are texts, found bigint. Cast them"),
    (lambda: by_number.select("array(m) AS a").to_topic("out", format="json_sr"), "json_sr': column 'a': the keys"),
    (lambda: by_number.latest("last").changes().to_topic("out"), "to_topic: format='json': column 'm': the keys of a"),
    (lambda: lh.app(orders.latest("a")).table("b"), "There are: a"),
    (
        lambda: lh.app(orders.latest("a"), lh.stream("orders", key="id string", schema="n int").latest("b")),
        "stream 'orders' is declared twice",
    ),
]


@pytest.mark.parametrize(("declare", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_refused(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        declare()


def test_an_expression_that_cannot_be_used_is_an_expression_error() -> None:
    with pytest.raises(ExpressionError):
        orders.filter("rand() > 0.5")


@pytest.mark.parametrize("schema", ["(" * 500 + "n int", f"n {'array<' * 2000}int{'>' * 2000}", f"n int{'(' * 500}1"])
def test_a_schema_that_is_nested_too_deeply_is_refused(schema: str) -> None:
    with pytest.raises(PlanError, match="nested too deeply: expected at most 40 types"):
        lh.stream("t", key="id string", schema=schema)


def test_forty_types_may_be_inside_of_each_other_and_names_may_have_any_bracket() -> None:
    deep = f"n {'array<' * 40}int{'>' * 40}, other string from '{'<' * 100}'"
    assert lh.stream("t", key="id string", schema=deep).columns[1].type.count("array") == 40


def test_a_stream_takes_its_name_from_the_topic_and_its_key_from_the_schema() -> None:
    stream = lh.stream("eu.orders-1", key="id", schema="id bigint, v int")
    assert stream.source.name == "eu_orders_1"
    assert [str(column) for column in stream.source.key] == ["id bigint"]
    assert [str(column) for column in stream.source.value] == ["v int"]
    assert (stream.source.key_format, stream.source.value_format) == ("kafka", "json")


def test_a_key_of_several_columns_is_json_and_a_date_can_be() -> None:
    assert lh.stream("t", key="a string, b int", schema="v int").source.key_format == "json"
    assert lh.stream("t", key="d date", key_format="json", schema="v int").source.key_format == "json"
    with pytest.raises(PlanError, match="Use json or delimited"):
        lh.stream("t", key="d date", schema="v int")


def test_a_select_keeps_the_key_and_nothing_else() -> None:
    stream = orders.select("id", "cast(n AS int) AS next", town="upper(customer)")
    assert [str(column) for column in stream.columns] == ["id string", "next int", "town string"]


def test_names_that_are_words_of_sql_are_written_in_backticks_and_pass_every_step() -> None:
    words = lh.stream("words", key="`order` string", schema="`select` int, `end` int, n int")
    kept = words.select("`order`", "`select`", "`end`", "n").with_columns(n="n + 1").rename(n="m").cast(select="bigint")
    assert [str(column) for column in kept.drop("m").columns] == ["order string", "end int", "select bigint"]
    assert kept.rekey("`end`").key == ("end",)


def test_a_rekey_makes_the_old_key_a_value() -> None:
    stream = orders.rekey("upper(customer) AS name")
    assert stream.key == ("name",)
    assert [column.name for column in stream.columns] == ["name", "id", "customer", "amount", "n"]


def test_declarations_are_values() -> None:
    def declare() -> lh.App:
        stream = lh.stream("orders", key="id string", schema="n bigint")
        return lh.app(stream.latest("a"), stream.group_by("id").agg(total=lh.sum("n")).table("b"))

    assert declare() == declare()
    assert hash(declare()) == hash(declare())


def test_one_table_may_be_kept_and_published() -> None:
    table = orders.latest("a")
    made = lh.app(table, table.changes().to_topic("x"), table.changes(net=True).to_topic("y"))
    assert [item.name for item in made.tables] == ["a"]
    assert [(sink.topic, sink.mode) for sink in made.sinks] == [("x", "event"), ("y", "net")]
    assert made.topics == ("orders",)


def test_what_a_table_keeps_and_its_changelog_leaves_out_has_a_topic_of_its_own() -> None:
    counts = orders.group_by("customer").agg(n=lh.count())
    big = counts.having("n > 1").table("big")
    assert lh.describe(lh.app(big.changes().to_topic("out"))).splitlines()[-2:] == [
        "TOPIC out <- table big, event changelog",
        "TOPIC out-state <- what the table keeps and that changelog leaves out",
    ]
    for tells_all in (counts.table("all").changes(), counts.table("all", suppress=True).changes(net=True)):
        assert "out-state" not in lh.describe(lh.app(tells_all.to_topic("out")))
    with pytest.raises(PlanError, match="'out-state' is written by two sinks"):
        lh.app(big.changes().to_topic("out"), orders.to_topic("out-state"))
    read = lh.stream("out-state", key="id string", schema="n bigint").latest("read")
    with pytest.raises(PlanError, match="'out-state' is read and written"):
        lh.app(big.changes().to_topic("out"), read)


def test_a_plan_as_text() -> None:
    totals = orders.filter("n > 1").group_by("customer").agg(total=lh.sum("amount")).table("totals")
    assert lh.describe(lh.app(totals.changes().to_topic("out"))) == "\n".join(
        [
            "TABLE totals (key customer)",
            "  sum(amount) AS total",
            "  GROUP BY customer",
            "  FILTER n > 1",
            "  FROM topic orders (stream orders)",
            "    key   kafka: id string",
            "    value json: customer string, amount decimal(10, 2), n bigint",
            "TOPIC out <- table totals, event changelog",
        ]
    )


def test_topics_beside_a_sink_are_its_own() -> None:
    """Each sink has a topic that says how far its records go: nobody else writes it, and it needs a name."""
    plain = orders.select("n").to_topic("plain")
    with pytest.raises(PlanError, match="'plain-covers' is written by two sinks: it also says how far the records of"):
        lh.app(orders.select("n").to_topic("plain-covers"), plain)
    covers = lh.stream("plain-covers", key="id string", schema="n int", name="covers")
    with pytest.raises(PlanError, match="topic 'plain-covers' is read and written by this application"):
        lh.app(plain, covers.latest("covers"))
    orders.to_topic("t" * 242)
    for declare in (orders.to_topic, orders.latest("last").changes().to_topic):
        with pytest.raises(
            PlanError, match=r"has 243 characters; expected at most 242, .* Give the sink a shorter name"
        ):
            declare("t" * 243)
