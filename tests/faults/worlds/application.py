"""The application of a world: tables of every kind over four topics, declared in Python or in SQL."""

from __future__ import annotations

from dataclasses import dataclass

PYTHON = """
import lakehouse as lh


def double(amounts):
    return amounts * 2


orders = lh.stream("orders", key="id string", schema="customer string, amount bigint, note string")
orders = orders.expect("small", "amount < 900", otherwise="quarantine")
clicks = lh.stream("clicks", key="user string", schema="page string"{own})
logins = lh.stream("users", key="user string", schema="city string")
payments = lh.stream(
    "payments", key="customer string", schema="amount bigint, method string, tip bigint", format="{payments}"
)
users = logins.latest("users")
latest = orders.latest("latest_orders")
newest = orders.latest("newest_orders", order_by="rowtime")
totals = (
    orders.map("doubled", double, "amount", type="bigint")
    .group_by("customer")
    .agg(n=lh.count(), total=lh.sum("amount"), most=lh.max("amount"), twice=lh.sum("doubled"))
    .table("totals")
)
by_user = clicks.group_by("user")
windows = by_user.window(lh.tumbling("10 seconds", grace="365 days")).agg(n=lh.count())
visits, final = windows.table("visits"), windows.table("final_visits", emit="final")
recent = windows.table("recent_visits", retention="366 days")
hops = by_user.window(lh.hopping("10 seconds", "5 seconds", grace="365 days")).agg(n=lh.count()).table("hops")
sessions = by_user.window(lh.session("3 seconds", grace="365 days")).agg(n=lh.count()).table("sessions")
sizes = totals.group_by("n").agg(customers=lh.count()).table("sizes")
cities = clicks.join(users, how="left", prefix="of_").group_by("of_city").agg(n=lh.count()).table("cities")
met = clicks.join(logins, within="2 seconds", grace="365 days", prefix="of_")
pairs = met.group_by("user").agg(n=lh.count()).table("pairs")
histories = newest.history("order_states", track=["customer"])
paid = payments.latest("paid")
settled = latest.join(paid, on="customer", how="left", prefix="paid_")
settled = settled.select("amount", "paid_amount", "paid_tip").table("settled")
published = (totals.changes().to_topic("totals-changes"), latest.changes(net=True).to_topic("latest-changes"))
app = lh.app({tables}, *published[:{published}])
"""
SQL = """
CREATE STREAM `orders` (`id` VARCHAR KEY, `customer` VARCHAR, `amount` BIGINT, `note` VARCHAR,
    CONSTRAINT small EXPECT (`amount` < 900) ON VIOLATION QUARANTINE
  ) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE STREAM `clicks` (`user` VARCHAR KEY, `page` VARCHAR) WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON');
CREATE STREAM `logins` (`user` VARCHAR KEY, `city` VARCHAR) WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON');
CREATE TABLE `users` (`user` VARCHAR PRIMARY KEY, `city` VARCHAR) WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON');
CREATE TABLE `paid` (`customer` VARCHAR PRIMARY KEY, `amount` BIGINT, `method` VARCHAR, `tip` BIGINT)
  WITH (KAFKA_TOPIC='payments', VALUE_FORMAT='{payments}');
CREATE TABLE `totals` WITH (KAFKA_TOPIC='totals-changes') AS
  SELECT `customer`, COUNT(*) AS `n`, SUM(`amount`) AS `total`, MAX(`amount`) AS `most`, SUM(`amount` * 2) AS `twice`
  FROM `orders` GROUP BY `customer`;
CREATE TABLE `sizes` AS SELECT `n`, COUNT(*) AS `customers` FROM `totals` GROUP BY `n`;
CREATE TABLE `visits` AS SELECT `user`, COUNT(*) AS `n` FROM `clicks`
  WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 365 DAYS) GROUP BY `user`;
CREATE TABLE `final_visits` AS SELECT `user`, COUNT(*) AS `n` FROM `clicks`
  WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 365 DAYS) GROUP BY `user` EMIT FINAL;
CREATE TABLE `hops` AS SELECT `user`, COUNT(*) AS `n` FROM `clicks`
  WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS, GRACE PERIOD 365 DAYS) GROUP BY `user`;
CREATE TABLE `sessions` AS SELECT `user`, COUNT(*) AS `n` FROM `clicks`
  WINDOW SESSION (3 SECONDS, GRACE PERIOD 365 DAYS) GROUP BY `user`;
CREATE TABLE `cities` AS SELECT u.`city` AS `of_city`, COUNT(*) AS `n` FROM `clicks` c
  LEFT JOIN `users` u ON c.`user` = u.`user` GROUP BY u.`city`;
CREATE TABLE `pairs` AS SELECT c.`user` AS `user`, COUNT(*) AS `n` FROM `clicks` c
  JOIN `logins` l WITHIN 2 SECONDS GRACE PERIOD 365 DAYS ON c.`user` = l.`user` GROUP BY c.`user`;
"""
PYTHON_TABLES = {
    "latest_orders": "latest", "newest_orders": "newest", "order_states": "histories", "totals": "totals",
    "sizes": "sizes", "visits": "visits", "final_visits": "final", "recent_visits": "recent", "hops": "hops",
    "sessions": "sessions", "cities": "cities", "pairs": "pairs", "users": "users", "paid": "paid",
    "settled": "settled",
}  # fmt: skip
SQL_TABLES = (
    "totals", "sizes", "visits", "final_visits", "hops", "sessions", "cities", "pairs", "users", "paid"
)  # fmt: skip


@dataclass(frozen=True)
class Application:
    """What is declared. in_avro: the topic of payments is. published: how many topics the application in Python has."""

    in_sql: bool
    in_avro: bool
    own_table: bool
    published: int = 2

    @property
    def file(self) -> str:
        return "app.sql" if self.in_sql else "app.py"

    @property
    def tables(self) -> tuple[str, ...]:
        return SQL_TABLES if self.in_sql else tuple(PYTHON_TABLES)

    @property
    def topics(self) -> dict[str, str]:
        """The topics that are published, and the table of which each is the changelog."""
        if self.in_sql:
            return {"totals-changes": "totals", "cities": "cities", "pairs": "pairs"}
        both = {"totals-changes": "totals", "latest-changes": "latest_orders"}
        return dict(list(both.items())[: self.published])

    def streams_of(self, topic: str) -> tuple[str, ...]:
        """Return the names of the streams, or tables, that are declared over a topic; each has a quarantine."""
        in_sql = {"payments": ("paid",), "users": ("users", "logins")}
        return in_sql.get(topic, (topic,)) if self.in_sql else (topic,)

    @property
    def text(self) -> str:
        payments = "avro" if self.in_avro else "json"
        if self.in_sql:
            return SQL.format(payments=payments.upper())
        own = ", own_table=True" if self.own_table else ""
        tables = ", ".join(PYTHON_TABLES.values())
        return PYTHON.format(own=own, payments=payments, tables=tables, published=self.published)
