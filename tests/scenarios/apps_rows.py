"""Applications of the scenario files about what is made of tables: filters, aggregates with undo, joins of tables."""

from __future__ import annotations

import lakehouse as lh

# The worked example of docs/rules.md: a sum over a stream, and over the topic read as a table.
numbers = lh.stream("numbers", key="id string", schema="room string, n bigint, x double")
last = numbers.latest("last")
of_stream = numbers.group_by("'all' AS every").agg(total=lh.sum("n")).table("of_stream")
of_table = last.group_by("'all' AS every").agg(total=lh.sum("n")).table("of_table")
example = lh.app(of_stream, of_table)

# Filters and projections (rule 11).
high = lh.app(last.filter("n > 5").select("n", twice="2 * n").table("high").changes().to_topic("high"))
unchanged = lh.app(last.filter("n > 5").select("room").table("rooms", suppress=True).changes().to_topic("rooms"))

# Aggregates (rules 9, 10 and 12).
per_room = last.group_by("room").agg(rows=lh.count(), known=lh.count("n"), total=lh.sum("n"), mean=lh.avg("n"))
groups = lh.app(per_room.table("per_room").changes().to_topic("per-room"))
crowded = lh.app(
    last.filter("n IS NOT NULL")
    .group_by("room")
    .agg(rows=lh.count())
    .having("rows > 1")
    .table("crowded")
    .changes()
    .to_topic("crowded")
)
lists = lh.app(
    last.group_by("room")
    .agg(listed=lh.collect_list("n"), different=lh.collect_set("n"), often=lh.histogram("cast(n AS string)"))
    .table("lists")
    .changes()
    .to_topic("lists")
)
picked = lh.app(
    last.group_by("room")
    .agg(
        low=lh.min("n"), high=lh.max("n"), newest=lh.latest("n"), oldest=lh.earliest("n"), top=lh.top_k("n", 2),
        kinds=lh.count_distinct("n"), spread=lh.stddev("n"), product=lh.reduce("n", lambda so_far, n: so_far * n),
    )
    .table("picked")
)  # fmt: skip
fractions = lh.app(last.group_by("room").agg(total=lh.sum("x"), mean=lh.avg("x")).table("fractions"))
with_undo = lh.aggregate("n", zero=0, add=lambda so_far, n: so_far + n, undo=lambda so_far, n: so_far - n,
                         accumulator="bigint")  # fmt: skip
without_undo = lh.aggregate("n", zero=0, add=lambda so_far, n: so_far + n, accumulator="bigint")
own = lh.app(last.group_by("room").agg(a=with_undo, b=without_undo).table("own"))

# Joins of tables by their keys: Kafka Streams' own table of inputs and results.
left = lh.stream("left", key="id string", schema="l string").latest("left_table")
right = lh.stream("right", key="id string", schema="r string").latest("right_table")
by_key = lh.app(
    left.join(right).table("inner_joined").changes().to_topic("inner"),
    left.join(right, how="left").table("left_joined").changes().to_topic("left-outer"),
    left.join(right, how="right").table("right_joined").changes().to_topic("right-outer"),
    left.join(right, how="outer").table("outer_joined").changes().to_topic("outer"),
)

# By a foreign key: Kafka Streams' own table, too.
referring = lh.stream("referring", key="k string", schema="fk bigint").latest("referring_table")
referred = lh.stream("referred", key="fk bigint", key_format="kafka", schema="v string").latest("referred_table")
by_reference = lh.app(
    referring.join(referred, on="fk").table("inner_refer").changes().to_topic("inner"),
    referring.join(referred, on="fk", how="left").table("left_refer").changes().to_topic("left-outer"),
)

# Which sides have a row.
indicated = lh.app(
    left.join(right, how="outer", indicator="sides").table("outer_said").changes().to_topic("outer"),
    referring.join(referred, on="fk", how="left", indicator="sides").table("refer_said").changes().to_topic("refer"),
)

# A chain: orders with their customers, these with their cities, and sums that undo.
cities = lh.stream("cities", key="city string", schema="country string").latest("city")
customers = lh.stream("customers", key="name string", schema="city string").latest("customer")
orders = lh.stream("orders", key="id string", schema="customer string, amount bigint").latest("order_")
placed = orders.join(customers, on="customer").table("placed")
shipped = placed.join(cities, on="city", how="left").table("shipped")
chain = lh.app(
    shipped.group_by("country").agg(orders=lh.count(), total=lh.sum("amount")).table("countries").changes().to_topic(
        "countries"
    )
)  # fmt: skip
# A table joined with itself.
staff = lh.stream("staff", key="name string", schema="boss string, room bigint").latest("staff_")
bosses = lh.app(staff.join(staff, on="boss", how="left", prefix="boss_").table("bosses").changes().to_topic("bosses"))


def window_over_rows() -> None:
    last.group_by("room").window(lh.tumbling("1 hour"))


def retention_below() -> lh.App:
    hourly = numbers.group_by("room").window(lh.tumbling("1 hour", grace="0 seconds")).agg(n=lh.count())
    return lh.app(hourly.table("hourly", retention="2 days").group_by("room").agg(n=lh.sum("n")).table("t"))


def windowed_join() -> lh.App:
    hourly = numbers.group_by("room").window(lh.tumbling("1 hour")).agg(n=lh.count()).table("hourly")
    return lh.app(hourly.join(last, on="room").table("t"))


def other_key_type() -> lh.App:
    return lh.app(left.join(referred).table("t"))


def foreign_key_of_other_type() -> lh.App:
    return lh.app(left.join(referred, on="l").table("t"))


def outer_by_reference() -> lh.App:
    return lh.app(referring.join(referred, on="fk", how="outer").table("t"))


def suppressed_side() -> lh.App:
    quiet = numbers.latest("quiet", suppress=True)
    return lh.app(quiet.join(last, prefix="o_").table("t"))


def unnamed_side() -> lh.App:
    return lh.app(last.filter("n > 1").join(right).table("t"))


# Rows under other keys: a row that moves leaves its old key.
by_room = lh.app(last.rows.rekey("room").latest("by_room").changes().to_topic("by-room"))
# What a delete leaves behind: the key alone, so its order is that of nulls.
positive = last.filter("n > 0").table("positive")
few = numbers.group_by("room").agg(n=lh.count(), least=lh.min("n")).having("n < 2").table("few")
deletes_in_order = lh.app(
    positive.to_stream().latest("positive_copy", order_by="coalesce(n, 0)"),
    positive.to_stream().latest("numbered_copy", order_by="n"),
    few.to_stream().latest("few_copy", order_by="coalesce(least, 100)"),
)


# Rows are no records.
def rows_joined() -> lh.App:
    return lh.app(last.rows.join(last, on="room", prefix="o_").latest("joined"))


def rows_merged() -> lh.App:
    return lh.app(last.rows.merge(last.filter("n > 1").rows).latest("merged"))


def rows_meeting_records() -> lh.App:
    return lh.app(numbers.join(last.rows, within="1 hour", prefix="o_").latest("met"))


def rows_published() -> lh.App:
    return lh.app(last.rows.to_topic("rows"))


def rows_ordered() -> lh.App:
    return lh.app(last.rows.latest("ordered", order_by="n"))


def rows_told() -> lh.App:
    return lh.app(last.rows.to_function("told", print))
