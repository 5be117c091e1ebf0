"""Runs statements one after the other: each declares, does, or answers something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.durable import write_durably
from lakehouse.errors import ConfigError, SqlError
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.written_form import encode_written_key, encode_written_value
from lakehouse.ksql.describe import Answer, answer_describe, answer_explain, answer_show
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax import statement as s
from lakehouse.ksql.syntax.split_text import StatementText, locate_errors
from lakehouse.ksql.values import values_record
from lakehouse.lake.layout import Layout
from lakehouse.plan.names.field import field_name
from lakehouse.run.start.folders import check_lake
from lakehouse.run.start.kafka import open_kafka
from lakehouse.settings.config import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.semantics.moment import At, AtOffsets

KEPT = "It is kept, and published, by an application: write it into a file, and `lakehouse run --app FILE.sql`."
CONTROL = (
    "a query is a part of an application: it runs while `lakehouse run` does, and ends when its statement is taken out "
    "of the file"
)

PRINTED = ("rowtime", "partition", "offset", "key", "value")


@dataclass(slots=True)
class SqlSession:
    """A script that goes on, over a lake and a Kafka. declared: the texts of the session's own declarations."""

    settings: Settings
    script: Script = field(default_factory=lambda: Script(folder=Path.cwd()))
    declared: list[str] = field(default_factory=list)

    def run(self, text: str) -> Iterator[Answer]:
        """Yield the answers to the statements of a text, in their order. An error has its place in the text.

        None of them runs if one can't be read.
        """
        self.script.check_syntax(text)
        for statement, source_text in self.script.read(text):
            with locate_errors(statement.position, source_text):
                answer = self._answer(statement, source_text.text)
            yield replace(answer, rows=_place_rows(answer, statement, source_text))

    def save(self, file: Path) -> None:
        """Write the session's declarations into a new file. Raises ConfigError if the file exists."""
        if file.exists():
            raise ConfigError(f"save: {file} exists already; name another file. Nothing was written.")
        write_durably(file, "".join(f"{statement};\n\n" for statement in self.declared))

    def _answer(self, statement: s.Statement, text: str) -> Answer:
        if isinstance(statement, s.InsertValues):
            return self._insert(statement)
        if self.script.declare(statement, text):
            self.declared.append(text)
            return Answer(message=_declaration_message(statement))
        match statement:
            case s.Query():
                return self._select(statement)
            case s.Show():
                return self._topics() if statement.subject.endswith("TOPICS") else answer_show(statement, self.script)
            case s.Describe():
                return answer_describe(statement, self.script)
            case s.Explain():
                return answer_explain(statement, self.script)
            case s.Print():
                return Answer(PRINTED, islice(self._print(statement), statement.limit), ends=False)
            case s.AssertTopic():
                return self._assert_topic(statement)
            case s.AssertSource():
                return Answer(message=f"{field_name(statement.name)} is declared so")
            case s.Control():
                raise SqlError(f"{statement.word}: {CONTROL}", statement.position)
        raise SqlError(
            "ASSERT of rows is for tests: a scenario has outputs and tables, see docs/sql.md", statement.position
        )

    def _select(self, query: s.Query) -> Answer:
        from lakehouse.run.sql.pull import pull
        from lakehouse.run.sql.push import push

        check_lake(self.settings.lake.path, named=False)
        layout = Layout(self.settings.lake.path)
        return (
            push(query, self.script, layout)
            if query.emit == "CHANGES"
            else pull(query, self.script, layout, self._fold, self._find_source)
        )

    def _fold(self, name: str, at: At) -> pa.Table:
        from lakehouse.run.lake import Lake

        return Lake(settings=self.settings).read(self.script.app().table(name), at=at, hidden=True).toArrow()

    def _find_source(self, position: str) -> AtOffsets:
        from lakehouse.run.lake import Lake

        return Lake(settings=self.settings).source_moment(position, *self.script.app().tables)

    def _topics(self) -> Answer:
        from lakehouse.kafka.topics import Cluster

        with open_kafka(self.settings) as servers:
            cluster = Cluster(servers, self.settings.kafka.options)
            topic_facts = cluster.topics(cluster.names())
        return Answer(
            ("topic", "partitions"), [(name, topic_fact.partitions) for name, topic_fact in sorted(topic_facts.items())]
        )

    def _print(self, statement: s.Print) -> Iterator[tuple[object, ...]]:
        """Yield a topic's records as they come, or every n-th of them."""
        from lakehouse.kafka.drain import follow_topic
        from lakehouse.kafka.topics import Cluster
        from lakehouse.run.sql.registered import TopicPrinter

        shown_parts = TopicPrinter(statement.topic, self.script, self.settings)
        options = self.settings.kafka.options
        with open_kafka(self.settings) as servers:
            cluster = Cluster(servers, options)
            topic_messages = follow_topic(cluster, options, statement.topic, from_beginning=statement.from_beginning)
            for message in islice(topic_messages, 0, None, max(statement.interval, 1)):
                key_and_value = shown_parts(message.key(), message.value())
                yield message.timestamp()[1], message.partition(), message.offset(), *key_and_value

    def _assert_topic(self, statement: s.AssertTopic) -> Answer:
        from lakehouse.kafka.topics import Cluster
        from lakehouse.run.sql.asserted_topic import check_topic

        with open_kafka(self.settings) as servers:
            cluster = Cluster(servers, self.settings.kafka.options)
            check_topic(statement, lambda: cluster.existing_topics([statement.topic]).get(statement.topic))
        return Answer(message=f"Topic {statement.topic} {'exists' if statement.exists else 'does not exist'}.")

    def _insert(self, statement: s.InsertValues) -> Answer:
        from lakehouse.kafka.produce import ProducerRecord, produce
        from lakehouse.run.sql.registered import source_of, with_registered_ids, written_source

        target = self.script.find(statement.target, statement.position)
        values = values_record(statement, target)
        source = written_source(source_of(target), target, statement.position)
        try:
            parts = (encode_written_key(source, values["key"]), encode_written_value(source, values["value"]))
        except Unfit as error:
            raise SqlError(str(error), statement.position) from None
        key, value = with_registered_ids(parts, source, self.settings, statement.position)
        producer_record = ProducerRecord(key, value, values.get("timestamp"))
        with open_kafka(self.settings) as servers:
            produce(servers, self.settings.kafka.options, target.topic, [producer_record])
        return Answer(message=f"1 record was written to topic {target.topic}.")


def _declaration_message(statement: s.Statement) -> str:
    match statement:
        case s.CreateSource():
            return f"{statement.kind} {field_name(statement.name)} is declared."
        case s.CreateAs():
            return f"{statement.kind} {field_name(statement.name)} is declared. {KEPT}"
        case s.InsertSelect():
            return f"{field_name(statement.target)} takes these records in. {KEPT}"
        case s.Drop():
            return f"{field_name(statement.name)} is not declared now; the lake and Kafka keep what they have."
    return "Done."


def _place_rows(answer: Answer, statement: s.Statement, text: StatementText) -> Iterator[tuple[object, ...]]:
    """Yield the rows of an answer; an error while they are read has its place in the text, too."""
    with locate_errors(statement.position, text):
        yield from answer.rows
