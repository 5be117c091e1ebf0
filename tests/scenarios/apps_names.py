"""The applications of the scenarios about fields of any name, and about times from the future."""

from __future__ import annotations

import lakehouse as lh

people = lh.stream(
    "people",
    key="id string from 'pk.id', land string from 'länd'",
    key_format="json",
    schema="deleted boolean from '__deleted', at timestamp from '@timestamp', level string from 'log.level', "
    "price decimal(10, 2) from 'price (EUR)', name string from 'имя', quoted string from 'it''s \"so\"', "
    "upper int from 'N', lower int from 'n', corrupt string from '_corrupt', "
    "who struct<user_id: int from 'user id', a: int from 'X', b: int from 'x', "
    "tags: array<struct<k: string from 'k=v,', at: timestamp from 'when?'>>, "
    "by: map<string, struct<z: int from 'z z'>>>",
    event_time="at",
)
newest = people.latest("newest")
levels = people.filter("NOT coalesce(deleted, false)").group_by("level").agg(
    n=lh.count(), total=lh.sum("price"), users=lh.collect_list("who.user_id")
).table("levels")  # fmt: skip
fields = lh.app(newest, levels, newest.changes().to_topic("newest-changelog"))


def blank_in_a_struct() -> lh.App:
    return lh.app(lh.stream("t", key="id string", schema="s struct<`a b`: int>").latest("t"))


def made_with_a_comma() -> lh.App:
    return lh.app(lh.stream("t", key="id string", schema="n int").select("named_struct('a,b', n) AS s").latest("t"))


def case_in_a_struct() -> lh.App:
    return lh.app(lh.stream("t", key="id string", schema="s struct<a: int, A: int>").latest("t"))


def undeclared_name() -> lh.App:
    return lh.app(lh.stream("t", key="id string", schema="`@timestamp` bigint").latest("t"))


clicks = lh.stream("clicks", key="user string", schema="page string, at bigint", event_time="at", max_ahead="1 hour")
guarded = lh.app(
    clicks.latest("last_page"),
    clicks.group_by("page").window(lh.tumbling("1 hour", grace="0 minutes")).agg(n=lh.count()).table("pages"),
)


def ahead_of_itself() -> lh.App:
    return lh.app(lh.stream("clicks", key="user string", schema="page string", max_ahead="1 hour").latest("t"))
