"""Declarations that name themselves shortly, and say what to do instead where they have no such step.

People come from Kafka Streams, ksqlDB, Spark and pandas: the names of these are known here, and so is a step that
belongs to the declaration before or after this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from lakehouse.errors import NoSuchStep
from lakehouse.markup.text import InNotebook
from lakehouse.plan.refused.near import near

REPR_MAX = 80
# Methods that are no steps.
INTERNAL = ("beginning", "below", "find", "fingerprint", "lines", "numbered", "rule")
# A declaration in messages, by its class.
WHAT = {
    "Stream": "stream {0.source.name!r}",
    "Grouped": "{0.stream.what}, grouped",
    "Aggregated": "aggregates of {0.grouped.stream.what}",
    "Table": "table {0.name!r}",
    "View": "rows of {0.rows.what}",
    "Changes": "changelog of {0.table.what}",
    "Sink": "sink of topic {0.topic!r}",
    "FunctionSink": "function {0.name!r}",
    "App": "an application",
}
# What a value that is no part of an application needs to become one.
NEEDED = {
    "Stream": "A stream alone keeps nothing: give it .latest(...), .group_by(...).agg(...).table(...) or "
    ".to_topic(...).",
    "Grouped": 'Groups keep nothing yet: add .agg(n=lh.count()).table("name").',
    "Aggregated": 'The aggregates need a table: add .table("name").',
    "View": 'Rows without a name are not kept: add .table("name").',
    "Changes": 'Name the table itself, or publish its changelog: .to_topic("topic").',
    "App": "It is an application already.",
    "list": "Give them one by one: lh.app(one, another), or lh.app(*tables).",
    "tuple": "Give them one by one: lh.app(one, another), or lh.app(*tables).",
}
# Other systems' names -> ours.
ALIASES = {
    "where": "filter", "filterNot": "filter", "filter_not": "filter", "mapValues": "select", "map_values": "select",
    "selectKey": "rekey", "select_key": "rekey", "partition_by": "rekey", "partitionBy": "rekey", "keyBy": "rekey",
    "key_by": "rekey", "flatMap": "explode", "flat_map": "explode", "flatMapValues": "explode", "withColumn":
    "with_columns", "with_column": "with_columns", "withColumns": "with_columns", "withColumnRenamed": "rename",
    "assign": "with_columns", "groupBy": "group_by", "groupby": "group_by", "groupByKey": "group_by", "union": "merge",
    "unionAll": "merge", "to": "to_topic", "toTable": "latest", "to_table": "latest", "upsert": "latest", "split":
    "branch", "leftJoin": "join", "left_join": "join", "windowedBy": "window", "windowed_by": "window", "aggregate":
    "agg", "toStream": "to_stream",
}  # fmt: skip
STREAM_STEPS = (
    "filter", "select", "with_columns", "rename", "cast", "drop", "rekey", "retime", "explode", "map", "branch",
    "merge", "join", "group_by",
)  # fmt: skip
AGGREGATES = ("count", "sum", "avg", "min", "max", "reduce", "count_distinct", "collect_list", "collect_set", "top_k")
_AGGREGATED = 'group_by("city").agg(n=lh.count())'
_OF_CHANGES = dict.fromkeys(
    (*STREAM_STEPS, "latest"),
    "A step over its changes: table.to_stream().{step}(...); over the records it is made of: before the table.",
)
# What to do instead, by the class of the declaration and the step.
INSTEAD: dict[str, dict[str, str]] = {
    "Stream": {
        **dict.fromkeys((*AGGREGATES, "agg"), f'Group it first: stream.{_AGGREGATED}.table("name").'),
        "window": 'A group has windows: stream.group_by("city").window(lh.tumbling("1 hour")).agg(...).',
        "table": 'The latest value of each key: stream.latest("name"); an aggregate: '
        f'stream.{_AGGREGATED}.table("name").',
        **dict.fromkeys(
            ("changes", "to_stream"), 'A stream has no changelog, a table has: stream.latest("name").changes().'
        ),
        "having": f"It follows the aggregates: stream.{_AGGREGATED}.having(...).",
    },
    "Table": {
        **_OF_CHANGES,
        **dict.fromkeys((*AGGREGATES, "agg"), f'Group its rows first: table.{_AGGREGATED}.table("name").'),
        "window": "Windows are over records: before the table, or over its changes: "
        "table.to_stream().group_by(...).window(...).",
        "to_topic": 'Its changelog is published: table.changes().to_topic("topic").',
        "to_function": 'Its changes are told as records: table.to_stream().to_function(...), or table.alert(...).',
        "having": "It comes before the table: .agg(...).having(...).table(...).",
        "table": "It is a table already; give it to lh.app(...).",
    },
    "View": {
        **dict.fromkeys((*AGGREGATES, "agg"), f'Group the rows first: .{_AGGREGATED}.table("name").'),
        **dict.fromkeys(
            ("changes", "to_stream", "to_topic", "rekey", "explode", "branch", "merge"),
            'Name the table first: .table("name"); its changes are records then: .to_stream().',
        ),
        "latest": 'It keeps the latest row of each key: .table("name").',
        "having": "Rows are filtered: .filter(...).",
        "window": "Windows are over records, not over rows.",
    },
    "Grouped": {
        **dict.fromkeys(AGGREGATES, "Give the aggregate a name: .agg(n=lh.{step}(...))."),
        **dict.fromkeys(
            ("table", "changes", "to_topic", "to_stream", "having"), "The aggregates come first: .agg(n=lh.count())."
        ),
        **dict.fromkeys(STREAM_STEPS, "It comes before group_by: stream.{step}(...).group_by(...)."),
        "latest": 'Without groups: stream.latest("name"); of each group: .agg(last=lh.latest("city")).',
    },
    "Aggregated": {
        **dict.fromkeys(("changes", "to_stream"), 'Name the table first: .table("name").{step}().'),
        "to_topic": 'Name the table first: .table("name").changes().to_topic("topic").',
        **dict.fromkeys(("window", "agg"), "It comes before the aggregates: .group_by(...).window(...).agg(...)."),
        **dict.fromkeys(STREAM_STEPS, "It comes before group_by: stream.{step}(...).group_by(...)."),
        "filter": "Of groups: .having(...); of records, before group_by: stream.filter(...).group_by(...).",
    },
    "Changes": {
        **_OF_CHANGES,
        "to_stream": "The table gives it: table.to_stream().",
        "table": "A table of its changes: table.to_stream().latest(...), or .group_by(...).agg(...).table(...).",
    },
    "App": dict.fromkeys(
        ("run", "start", "read", "query"),
        'A lake runs and reads: lake = lh.Lake("./lake"); lake.run(app); lake.read(table).',
    ),
}  # fmt: skip


class Declaration(InNotebook):
    """The base of declarations: a short text of themselves, and advice where they have no such step."""

    __slots__ = ()

    @property
    def what(self) -> str:
        """The declaration in messages: stream 'orders'."""
        return WHAT[type(self).__name__].format(self)

    def __repr__(self) -> str:
        return f"<{self.what}>"

    if not TYPE_CHECKING:  # a type checker knows which steps there are

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):  # what Python, copy, pickle and notebooks look for
                raise AttributeError(name)
            raise NoSuchStep(f"{self.what} has no {name}(). {instead(type(self), name)}".rstrip())


def instead(kind: type, name: str) -> str:
    """Return what to write instead of a step that a declaration does not have; "" if nothing is near."""
    step = ALIASES.get(name, name)
    if hasattr(kind, step):
        return f"Did you mean {step}?"
    if step in INSTEAD.get(kind.__name__, {}):
        return INSTEAD[kind.__name__][step].format(step=step)
    steps = [known for known in dir(kind) if known not in INTERNAL and callable(getattr(kind, known))]
    steps = [known for known in steps if not known.startswith("_")]
    return near(name, steps).lstrip() or (f"There are: {', '.join(steps)}." if steps else "")


def needed(value: object) -> str:
    """Return what a value that lh.app(...) can't take needs to be one that it can."""
    return NEEDED.get(type(value).__name__, NEEDED["Stream"])


def shown(value: object) -> str:
    """Return a value as a message shows it: a declaration by its kind and name, anything else by its text, cut."""
    text = value.what if isinstance(value, Declaration) else repr(value)
    return text if len(text) <= REPR_MAX else f"{text[:REPR_MAX]}..."
