"""The applications of the scenarios about aggregates, having, suppress and order_by."""

from __future__ import annotations

import lakehouse as lh

samples = lh.stream(
    "samples",
    key="id string",
    schema=(
        "n bigint, x double, d decimal(4, 2), s string, b boolean, tags array<string>, "
        "who struct<first: string, last: string>, marks map<string, int>"
    ),
)
by_id = samples.group_by("id")

integers = lh.app(
    by_id.agg(
        records=lh.count(), numbers=lh.count("n"), total=lh.sum("n"), mean=lh.avg("n"), least=lh.min("n"),
        most=lh.max("n"), spread=lh.stddev("n"), kinds=lh.count_distinct("n"),
    ).table("integers")
)  # fmt: skip
doubles = lh.app(
    by_id.agg(total=lh.sum("x"), mean=lh.avg("x"), least=lh.min("x"), most=lh.max("x"), spread=lh.stddev("x"))
    .table("doubles")
)  # fmt: skip
decimals = lh.app(
    by_id.agg(total=lh.sum("d"), mean=lh.avg("d"), least=lh.min("d"), most=lh.max("d"), spread=lh.stddev("d"))
    .table("decimals")
)  # fmt: skip
texts = lh.app(
    by_id.agg(least=lh.min("s"), most=lh.max("s"), kinds=lh.count_distinct("s"), times=lh.histogram("s"))
    .table("texts")
)  # fmt: skip
computed = lh.app(by_id.agg(total=lh.sum("n * 2"), most=lh.max("upper(s)"), long=lh.count("length(s)")).table("made"))

by_offset = lh.app(
    by_id.agg(
        newest=lh.latest("n"),
        newest_or_null=lh.latest("n", ignore_nulls=False),
        oldest=lh.earliest("n"),
        oldest_or_null=lh.earliest("n", ignore_nulls=False),
    ).table("offsets")
)
lists = lh.app(
    by_id.agg(
        listed=lh.collect_list("n"), first_two=lh.collect_list("n", limit=2), known=lh.collect_set("n"),
        first_two_known=lh.collect_set("n", limit=2),
    ).table("lists")
)  # fmt: skip
largest = lh.app(by_id.agg(top=lh.top_k("n", 2), top_kinds=lh.top_k("n", 2, distinct=True)).table("largest"))
nested = lh.app(
    by_id.agg(
        newest=lh.latest("who"), people=lh.collect_set("who"), tags=lh.collect_list("tags"), names=lh.count("who.last"),
        kinds=lh.count_distinct("who"), oldest_marks=lh.earliest("marks"),
    ).table("nested")
)  # fmt: skip
booleans = lh.app(by_id.agg(least=lh.min("b"), most=lh.max("b"), newest=lh.latest("b")).table("booleans"))

# User-defined: a fold without a zero, and one with a zero, a state of its own, and a result.
reduced = lh.app(by_id.agg(joined=lh.reduce("s", lambda so_far, s: f"{so_far}+{s}")).table("joined"))
custom = lh.app(
    by_id.agg(
        ratio=lh.aggregate(
            "n",
            zero={"even": 0, "all": 0},
            add=lambda seen, n: {"even": seen["even"] + (n is not None and n % 2 == 0), "all": seen["all"] + 1},
            result=lambda seen: seen["even"] / seen["all"],
            accumulator="struct<even: bigint, all: bigint>",
            returns="double",
        ),
        depth=lh.aggregate(
            "n", zero=0, add=lambda depth, n: depth - 1 if n is None else depth + 1, accumulator="bigint"
        ),
    ).table("ratios")
)

# Having and suppress.
totals = by_id.agg(records=lh.count(), total=lh.sum("n"))
rich = lh.app(totals.having("total > 10").table("rich").changes().to_topic("rich-changelog"))
named_rich = lh.app(totals.having("total > 10 AND id <> 'nobody'").table("rich"))
labelled = lh.app(by_id.agg(label=lh.latest("s", ignore_nulls=False)).having("label = 'keep'").table("labelled"))
struct_having = lh.app(samples.group_by("who").agg(n=lh.count()).having("who.first = 'Ada'").table("adas"))
suppressed = lh.app(by_id.agg(numbers=lh.count("n"), most=lh.max("n")).table("quiet", suppress=True))
suppressed_doubles = lh.app(by_id.agg(total=lh.sum("x")).table("quiet", suppress=True))
suppressed_having = lh.app(by_id.agg(most=lh.max("n")).having("most > 10").table("quiet", suppress=True))
suppressed_latest = lh.app(samples.select("n").latest("quiet", suppress=True))

# Tables with `order_by`.
readings = lh.stream("readings", key="id string", schema="seq bigint, at timestamp, v string")
by_sequence = lh.app(readings.latest("newest", order_by="seq"))
by_time = lh.app(readings.select("at", "v").latest("newest", order_by="at"))
by_time_suppressed = lh.app(readings.select("v").latest("newest", order_by="rowtime", suppress=True))
by_time_kept = lh.app(readings.select("v").latest("newest", order_by="rowtime", retention="100 milliseconds"))


def top_without_a_count() -> lh.App:
    return lh.app(by_id.agg(top=lh.top_k("n", 0)).table("never"))


def histogram_of_numbers() -> lh.App:
    return lh.app(by_id.agg(times=lh.histogram("n")).table("never"))


def largest_of_structs() -> lh.App:
    return lh.app(by_id.agg(most=lh.max("who")).table("never"))


def largest_structs() -> lh.App:
    return lh.app(by_id.agg(top=lh.top_k("who", 2)).table("never"))


def result_without_its_type() -> lh.App:
    made = lh.aggregate("n", zero=0, add=lambda a, n: a + n, accumulator="bigint", result=str)
    return lh.app(by_id.agg(n=made).table("never"))


def having_reads_what_is_gone() -> lh.App:
    return lh.app(totals.having("n > 10").table("never"))


def ordered_by_text() -> lh.App:
    return lh.app(readings.latest("never", order_by="v"))


def retention_without_an_order() -> lh.App:
    return lh.app(readings.latest("never", retention="1 day"))


def retention_of_a_sequence() -> lh.App:
    return lh.app(readings.latest("never", order_by="seq", retention="1 day"))


_LABELS = lh.stream("labels", key="id string", schema="m map<string, map<string, int>>")
maps = lh.app(
    _LABELS.group_by("id").agg(n=lh.count_distinct("m"), ms=lh.collect_set("m")).table("sets"),
    _LABELS.latest("newest", suppress=True),
)
