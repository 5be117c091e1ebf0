"""`lakehouse repair erase`: a person's records leave the lake, with what was made from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.repair.backfill import build_listener
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import (
    AppOption,
    ConfigOption,
    DecidedByOption,
    JsonOption,
    LakeOption,
    app_of,
    lake_of,
)
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from lakehouse.run.erase.erasure import Erased, ErasurePlan


def erase(
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="STREAM=KEY", help="The key, of this stream; may be given more than once."),
    ] = None,
    named_by: Annotated[
        list[str] | None,
        typer.Option(
            "--named-by",
            metavar="STREAM.COLUMN[=TEXT]",
            help="Records whose column has the key, or this text, too; may be repeated. Several keys need the text.",
        ),
    ] = None,
    records: Annotated[
        str | None,
        typer.Option("--records", metavar="OFFSETS", help="Further records, as TOPIC[@ID]/PARTITION=FIRST..LAST,..."),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option("--value", metavar="TEXT", help="A text that must not be found either; may be repeated."),
    ] = None,
    source: Annotated[
        bool, typer.Option("--source", help="Write tombstones of the keys to the topics of their streams first.")
    ] = False,
    rebuild_reverted: Annotated[
        bool,
        typer.Option(
            "--rebuild-reverted", help="Also build tables that were reverted: what that took away comes back."
        ),
    ] = False,
    app: AppOption = None,
    why: Annotated[
        str, typer.Option("--why", metavar="TEXT", help="Why, such as a ticket; it stays, so it names nobody.")
    ] = "",
    decided_by: DecidedByOption = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would be erased; change nothing.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Only search every file of the lake again.")] = False,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Erase a person's records: from bronze, the tables, their history, and the published topics; prove it by a search.

    Stop the job before. APP has all tables of the lake. After a kill, give the same command again: it goes on. Older
    versions of the tables, and their anchors, are gone afterwards. Exit code 1 if the search finds something.

    Example: lakehouse repair erase --key customers=4711 --named-by orders.customer_id --why "ticket 12" --plan
    """
    from lakehouse.run.lake import Lake

    if plan and verify:
        raise ConfigError("erase: found --plan and --verify; expected one of them.")
    settings, keys = lake_of(config, lake), _keys_of(key or [])
    lake_api = Lake(settings=settings)
    if verify:
        _refuse_beside_verify({"--source": source, "--rebuild-reverted": rebuild_reverted, "--why": why})
        outcome = lake_api.verify_erasure(keys, named_by=named_by or (), records=records, values=value or ())
    else:
        from lakehouse.run.start.application import load_app

        application = load_app(app_of(app, settings))
        if plan:
            erasure_plan = lake_api.plan_erasure(
                application,
                keys,
                named_by=named_by or (),
                records=records,
                values=value or (),
                source=source,
                reason=why,
            )
            _show_plan(erasure_plan, json=json)
            if not rebuild_reverted:
                from lakehouse.run.erase.erasure import refuse_reverted

                refuse_reverted(erasure_plan.reverted)
            return
        outcome = lake_api.erase(
            application,
            keys,
            named_by=named_by or (),
            records=records,
            values=value or (),
            source=source,
            rebuild_reverted=rebuild_reverted,
            reason=why,
            by=decided_by,
            listen=build_listener(as_json=json),
        )
    _show_outcome(outcome, json=json)
    if outcome.occurrences or not outcome.erasure.is_finished:
        raise typer.Exit(FAILED)


def _refuse_beside_verify(options: Mapping[str, object]) -> None:
    """Raise ConfigError for options that a search alone would ignore."""
    if given := [name for name, value in options.items() if value]:
        raise ConfigError(f"erase --verify: found {', '.join(given)}; expected none of them: it only searches.")


def _keys_of(items: list[str]) -> dict[str, str]:
    """Return the keys of a command line by their streams. Raises ConfigError."""
    keys_by_stream: dict[str, str] = {}
    for item in items:
        stream, equals, text = item.partition("=")
        if not equals or not stream or not text:
            raise ConfigError(f"--key {item!r}: expected STREAM=KEY, such as customers=4711.")
        if stream in keys_by_stream:
            raise ConfigError(f"--key: stream {stream!r} is named twice; expected one key of a stream at a time.")
        keys_by_stream[stream] = text
    return keys_by_stream


def _show_plan(erasure_plan: ErasurePlan, *, json: bool) -> None:
    if json:
        show.print_json(
            {
                "records": erasure_plan.records,
                "tables": erasure_plan.tables,
                "reverted": erasure_plan.reverted,
                "published": erasure_plan.published,
                "not_erased": erasure_plan.streams,
                "sources": erasure_plan.sources,
                "stages": erasure_plan.stages,
                "plan": True,
            }
        )
        return
    show.print_table("Records", ("topic", "records"), [(name, f"{n:,}") for name, n in erasure_plan.records.items()])
    show.say("The erasure would, in this order:")
    for number, text in enumerate(erasure_plan.stages, 1):
        show.say(f"  {number}. {text}")
    for topic in erasure_plan.streams:
        show.say(f"Topic {topic} has records of a stream; what it holds already stays until its retention removes it.")
    untouched = "Other topics" if erasure_plan.sources else "The topics"
    show.say(
        f"{untouched} that the lake reads, backups, and copies that others have are not touched. Nothing was changed."
    )


def _show_outcome(outcome: Erased, *, json: bool) -> None:
    erasure = outcome.erasure
    if json:
        places = [{"file": item.path, "in": item.place} for item in outcome.occurrences]
        differing = {name: difference.counts() for name, difference in outcome.differing.items()}
        show.print_json({**erasure.facts(), "differing": differing, "found": places})
        return
    search = erasure.searches[-1]
    record_text = ", ".join(f"{count:,} of topic {topic}" for topic, count in erasure.records.items())
    show.say(
        f"Erased: {record_text}." + (f" The tables lack them from tick {erasure.tick:,} on." if erasure.tick else "")
    )
    searched = f"{search.files:,} files with {search.bytes:,} bytes were searched"
    if not outcome.occurrences and not erasure.is_finished:
        show.say(
            f"{searched}: nothing was found. But an earlier search was for further texts, so this one does not finish "
            "the erasure: give each --value of the commands before, too."
        )
        return
    if not outcome.occurrences:
        show.say(f"{searched}: nothing was found. Certificate {erasure.id}, {search.searched_at}.")
        return
    show.print_table("Still found", ("file", "in"), [(item.path, item.place) for item in outcome.occurrences])
    show.say(
        f"{searched}. What names it still is in other records, or was written by others: erase these records too, by "
        "--named-by or --records. A table of a checkout or a drill's file may be removed; a file of bronze, of "
        "interventions or of a table's log must not be. Then give the command again."
    )
