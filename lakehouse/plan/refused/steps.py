"""The base of declarations: a short text for messages, and advice for a step that a declaration does not have.

People come from Kafka Streams, ksqlDB, Spark and pandas: this module knows the names of their steps, and also the steps
that belong to the declaration before or after this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from lakehouse.errors import NoSuchStep
from lakehouse.markup.text import InNotebook
from lakehouse.plan.refused.near import suggest_near

REPR_MAX = 80
# Public methods that are not steps.
INTERNAL = ("with_origin", "tables_below", "declare", "find", "fingerprint", "lines", "rule", "watched_by")
# The text of a declaration in messages, by its class.
LABELS = {
    "Stream": "stream {0.source.name!r}",
    "Grouped": "{0.stream.label}, grouped",
    "Aggregated": "aggregates of {0.grouped.stream.label}",
    "Table": "table {0.name!r}",
    "View": "rows of {0.rows.label}",
    "Changes": "changelog of {0.table.label}",
    "Sink": "sink of topic {0.topic!r}",
    "FunctionSink": "function {0.name!r}",
    "App": "an application",
}
# How to make a part of an application from a value that is none, by the value's class.
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
# The names of other systems -> lakehouse's.
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
# The advice, by the class of the declaration and the step.
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
    """The base of declarations: a short text, and advice for steps that they do not have."""

    __slots__ = ()

    @property
    def label(self) -> str:
        """The declaration in messages: stream 'orders'."""
        return LABELS[type(self).__name__].format(self)

    def __repr__(self) -> str:
        return f"<{self.label}>"

    if not TYPE_CHECKING:  # a type checker should not believe that any step exists

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):  # Python, copy, pickle and notebooks look for such names
                raise AttributeError(name)
            raise NoSuchStep(f"{self.label} has no {name}(). {suggest_step(type(self), name)}".rstrip())


def suggest_step(declaration_type: type, name: str) -> str:
    """Return what to write instead of a step that a declaration does not have; "" if nothing is similar."""
    own_name = ALIASES.get(name, name)
    if hasattr(declaration_type, own_name):
        return f"Did you mean {own_name}?"
    if own_name in INSTEAD.get(declaration_type.__name__, {}):
        return INSTEAD[declaration_type.__name__][own_name].format(step=own_name)
    step_names = [
        step_name
        for step_name in dir(declaration_type)
        if step_name not in INTERNAL and callable(getattr(declaration_type, step_name))
    ]
    step_names = [step_name for step_name in step_names if not step_name.startswith("_")]
    return suggest_near(name, step_names).lstrip() or (f"There are: {', '.join(step_names)}." if step_names else "")


def needed_step(value: object) -> str:
    """Return the advice for a value that lh.app(...) can't take."""
    return NEEDED.get(type(value).__name__, NEEDED["Stream"])


def value_in_message(value: object) -> str:
    """Return a value for a message: a declaration as its kind and name, anything else as its text, cut."""
    full_text = value.label if isinstance(value, Declaration) else repr(value)
    return full_text if len(full_text) <= REPR_MAX else f"{full_text[:REPR_MAX]}..."
