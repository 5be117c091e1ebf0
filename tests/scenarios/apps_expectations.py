"""The applications of the scenarios about what is expected of a topic's records."""

from __future__ import annotations

import lakehouse as lh

orders = (
    lh.stream(
        "orders",
        key="id string",
        schema="amount bigint, price decimal(8, 2), city string, at timestamp, day date, lines array<string>",
        event_time="at",
    )
    .expect("positive", "amount > 0")
    .expect("known_city", "city in ('Rome', 'Oslo') AND amount < 1000")
    .expect("not_too_early", "at >= timestamp'2026-01-01' AND day >= date'2026-01-01' AND price <> -3")
    .expect("has_lines", "size(lines) > 0 OR rowoffset > 100")
)
expected = lh.app(orders.latest("last_order"), orders.group_by("city").agg(n=lh.count()).table("per_city"))


def expects_after_a_step() -> lh.App:
    return lh.app(orders.filter("amount > 1").expect("late", "amount < 9").latest("never"))


def expects_twice() -> lh.App:
    return lh.app(orders.expect("Positive", "amount < 9").latest("never"))


def expects_a_number() -> lh.App:
    return lh.app(orders.expect("a_number", "amount + 1").latest("never"))


def expects_for_one_table() -> lh.App:
    return lh.app(orders.latest("judged"), orders.expect("more", "amount > 1").latest("judged_more"))


def expects_of_changes() -> lh.App:
    customers = lh.debezium("shop.public.customers", key="id int", schema="name string")
    return lh.app(customers.expect("named", "name is not null").latest("never"))
