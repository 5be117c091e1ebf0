"""`lakehouse infer`: a declaration for a topic, proposed from its records."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, settings_of
from lakehouse.errors import NotFound

if TYPE_CHECKING:
    from lakehouse.run.infer.proposal import Proposal

SAMPLE = 10_000


def infer(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    sample: Annotated[
        int, typer.Option("--sample", min=1, max=1_000_000, metavar="N", help="How many of the newest records to read.")
    ] = SAMPLE,
    config: ConfigOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Propose a declaration for a topic, from its records.

    It is in Python and SQL, with what speaks for each column in the topic's newest records. Nothing is changed: no
    consumer group is left behind, and no lake is needed. The records of the sample that the declaration would send to
    the quarantine are counted, by reason.

    Example: lakehouse infer orders
    """
    from lakehouse.kafka.topics import Cluster
    from lakehouse.plan.expression.schema import check_topic
    from lakehouse.run.infer.proposal import propose
    from lakehouse.run.infer.sample import read_sample
    from lakehouse.run.start.kafka import open_kafka

    check_topic(topic)
    settings = settings_of(config, lake)
    with open_kafka(settings) as servers:
        records = read_sample(Cluster(servers, settings.kafka.options), settings.kafka.options, topic, sample)
    if not records:
        raise NotFound(f"topic {topic!r} has no records, so nothing says what its columns are. Produce some first.")
    proposal = propose(topic, records)
    if as_json:
        show.print_json(_proposal_facts(proposal))
    else:
        _show_proposal(proposal)


def _proposal_facts(proposal: Proposal) -> dict[str, object]:
    facts = asdict(proposal)
    facts["columns"] = [
        {"field": column.field, "type": column.type.text, "key": column.is_key, "evidence": column.evidence,
         "example": column.example}
        for column in proposal.columns
    ]  # fmt: skip
    return facts


def _show_proposal(proposal: Proposal) -> None:
    column_rows = [
        (f"{column.field} (key)" if column.is_key else column.field, column.type.text, column.evidence, column.example)
        for column in proposal.columns
    ]
    show.print_table(
        f"Topic {proposal.topic}, {proposal.records:,} records", ("field", "type", "evidence", "example"), column_rows
    )
    for note in proposal.notes:
        show.say(note)
    unread_count = sum(item.records for item in proposal.unread)
    if not unread_count:
        show.say("No record of the sample would go to the quarantine.")
    else:
        share = unread_count / proposal.records
        show.print_table(
            f"Would go to the quarantine: {unread_count:,} of {proposal.records:,} ({share:.2%})",
            ("reason", "records", "for example"),
            [(item.reason, item.records, item.first) for item in proposal.unread],
        )
    for language, text in (("Python", proposal.python), *([("SQL", proposal.sql)] if proposal.sql else [])):
        show.say("")
        show.say(f"In {language}:")
        show.say("")
        for line in text.splitlines():
            show.say(line)
