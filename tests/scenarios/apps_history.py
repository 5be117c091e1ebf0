"""The applications of the scenarios about histories of tables."""

from __future__ import annotations

import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="status string, amount bigint")
by_key = orders.group_by("status").agg(n=lh.count(), total=lh.sum("amount"), all=lh.collect_list("id")).table("totals")
histories = lh.app(
    orders.latest("orders").history(),
    orders.latest("ordered", order_by="rowtime").history("ordered_history"),
    by_key.history(),
)


def history_of_windows() -> lh.App:
    return lh.app(orders.group_by("status").window(lh.tumbling("1 minute")).agg(n=lh.count()).table("never").history())


def history_of_rows() -> lh.App:
    return lh.app(orders.latest("orders").group_by("status").agg(n=lh.count()).table("never").history())


def history_of_having() -> lh.App:
    return lh.app(orders.group_by("status").agg(n=lh.count()).having("n > 1").table("never").history())


def history_is_no_side_of_a_join() -> lh.App:
    return lh.app(orders.join(orders.latest("orders").history(), prefix="o_").latest("never"))


def history_has_no_changelog_per_event() -> lh.App:
    return lh.app(orders.latest("orders").history().changes().to_topic("never"))
