"""Shows the results of a fix for quarantined records: those that fit now, before and after, and those that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.cli.look.read import print_first_rows
from lakehouse.cli.repair.stages import say_stages
from lakehouse.cli.terminal import show
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.semantics.epoch_time import to_datetime

if TYPE_CHECKING:
    from lakehouse.formats.codec.registered import FindSchemas
    from lakehouse.lake.record.quarantine import QuarantineChoice
    from lakehouse.plan.origin import Source
    from lakehouse.run.repair.fixes import Fixed, Fixes, FixFunction, StillBad
    from lakehouse.run.repair.replay import FixOutcome
    from lakehouse.run.repair.stages import RepairPlan
    from lakehouse.run.start.application import LoadedApp
    from lakehouse.semantics.position import Identity
    from lakehouse.settings.config import Settings


@dataclass(frozen=True, slots=True)
class NewBytes:
    """A new key or value from the command line: a text, a file, or null."""

    text: str | None = None
    file: Path | None = None
    null: bool = False

    @property
    def way_count(self) -> int:
        """The number of ways in which the command line gives it."""
        return (self.text is not None) + (self.file is not None) + self.null


@dataclass(frozen=True, slots=True)
class Attempt:
    """A fix of chosen records of a stream of an application. fix: a function; edits: by "key", "value"."""

    app: str
    stream: str
    choice: QuarantineChoice
    fix: str | None
    edits: Mapping[str, NewBytes]


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A request that the records that fit now count from now on: why, and by whose decision.

    again: leave out records that were fixed before; instead: give them new bytes. expected_digest: of what was
    approved, see `Fixes.digest`; None for anything.
    """

    reason: str
    by: str | None = None
    again: bool = False
    instead: bool = False
    expected_digest: str | None = None


def attempt_fix(
    settings: Settings,
    fix_attempt: Attempt,
    replay_request: ReplayRequest,
    limit: int | None,
    *,
    only_plan: bool,
    json: bool,
) -> None:
    """Show the results of a fix, and replay the records that fit; only_plan: only show what a replay would do.

    A plan that the replay would refuse is refused after the results were shown, with the error of the replay.
    """
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.record.writer_schemas import LakeSchemas
    from lakehouse.run.lake import Lake
    from lakehouse.run.repair.fixes import approved_fixes, fixed_records
    from lakehouse.run.schemas.typed import typed_schemas
    from lakehouse.run.start.application import find_app

    found_app = find_app(fix_attempt.app)
    source = found_app.app.source(fix_attempt.stream)
    layout = Layout(settings.lake.path)
    find_schemas = typed_schemas(settings, source, LakeSchemas(layout).find)
    fix_function = _fix_function(found_app, source, fix_attempt.fix, fix_attempt.edits, find_schemas)
    fix_result = fixed_records(layout, found_app.app, fix_attempt.stream, fix_attempt.choice, fix_function)
    if replay_request.expected_digest is not None:
        fix_result = approved_fixes(fix_result, replay_request.expected_digest)
    lake_api, repair_plan, refusal, replay_tick = Lake(settings=settings), None, None, None
    if fix_result.fixed:
        try:
            repair_plan = lake_api.plan_replay(
                found_app.app,
                fix_attempt.stream,
                fix_result.fixed,
                again=replay_request.again,
                instead=replay_request.instead,
            )
        except LakehouseError as error:
            if not only_plan:
                raise
            refusal = error
    if repair_plan is not None and not only_plan:
        replay_tick = lake_api.carry_out(
            found_app.app, repair_plan, reason=replay_request.reason, by=replay_request.by
        ).tick
        if replay_tick is None:  # all were fixed before; an earlier try may have been killed before the tables had it
            replay_tick = lake_api.finish_fixes(found_app.app, fix_attempt.stream)
    if json:
        digest, new_identities = fix_result.digest, _identities_of(repair_plan)
        all_records: list[Fixed | StillBad] = [*fix_result.fixed, *fix_result.bad]
        for tried_record in sorted(all_records, key=lambda tried_record: tried_record.was.record.position)[:limit]:
            fits = tried_record in fix_result.fixed
            is_fixed_before = fits and repair_plan is not None and _identity(tried_record) not in new_identities
            refusal_fields = {"replay_refused": str(refusal)} if fits and refusal is not None else {}
            outcome = {"replayed_at": replay_tick if fits else None, "digest": digest}
            outcome |= {"fixed_before": True} if is_fixed_before else {}
            show.print_json({**_fix_facts(tried_record), **outcome, **refusal_fields})
    else:
        _say_results(fix_result, limit)
        if only_plan and repair_plan is not None:
            say_stages(repair_plan)
        tick_text = (
            "Nothing was changed." if replay_tick is None else f"Those that fit count from tick {replay_tick} on."
        )
        show.say(
            f"Records that fit now: {len(fix_result.fixed):,}; that still do not: {len(fix_result.bad):,}. {tick_text}"
        )
    if refusal is not None:
        raise refusal


def _identity(tried_record: Fixed | StillBad) -> Identity:
    return tried_record.was.record.identity


def _identities_of(repair_plan: RepairPlan[FixOutcome] | None) -> set[Identity]:
    """Return the records that a plan fixes: those that were fixed before are left out of it."""
    from lakehouse.run.repair.stages import KeepFixes

    stages = () if repair_plan is None else repair_plan.stages
    return {fix.identity for stage in stages if isinstance(stage, KeepFixes) for fix in stage.fixes}


def _say_results(fix_result: Fixes, limit: int | None) -> None:
    if fix_result.fixed:
        record_rows = [
            (str(tried_record.was.place), tried_record.was.reason, *_values_before_and_after(tried_record))
            for tried_record in fix_result.fixed
        ]
        column_titles = ("position", "reason until now", "key", "value", "new key", "new value")
        _print_fit_table("They fit", column_titles, record_rows, limit)
    if fix_result.bad:
        record_rows = [
            (str(tried_record.was.place), tried_record.reason, *_values_before_and_after(tried_record))
            for tried_record in fix_result.bad
        ]
        _print_fit_table(
            "They still don't fit", ("position", "reason", "key", "value", "new key", "new value"), record_rows, limit
        )


def _fix_function(
    found_app: LoadedApp,
    source: Source,
    function_name: str | None,
    edits: Mapping[str, NewBytes],
    find_schemas: FindSchemas,
) -> FixFunction:
    from lakehouse.run.repair.fixes import KEEP, Edit, leave_unchanged
    from lakehouse.run.start.application import load_function

    edited_parts = [name for name, new_values in edits.items() if new_values.way_count]
    if function_name is not None and edited_parts:
        raise ConfigError(f"replay: found --fix and a new {edited_parts[0]}; expected one of them.")
    if function_name is not None:
        return load_function(function_name, found_app)
    for name in edited_parts:
        if edits[name].way_count > 1:
            raise ConfigError(f"replay: found {edits[name].way_count} new {name}s; expected one.")
    if not edited_parts:
        return leave_unchanged
    new_values = {
        name: _new_bytes(source, name, edits[name], find_schemas) if name in edited_parts else KEEP
        for name in ("key", "value")
    }
    return Edit(**new_values)


def _new_bytes(source: Source, part: str, new_value: NewBytes, find_schemas: FindSchemas) -> bytes | None:
    from lakehouse.run.repair.fixes import bytes_of_text

    if new_value.file is not None:
        if not new_value.file.is_file():
            raise ConfigError(f"{new_value.file}: no such file; expected the bytes of a {part}.")
        return new_value.file.read_bytes()
    record_part: Literal["key", "value"] = "key" if part == "key" else "value"
    return None if new_value.text is None else bytes_of_text(source, record_part, new_value.text, find_schemas)


def _values_before_and_after(tried_record: Fixed | StillBad) -> tuple[Any, ...]:
    """Return the key and the value before and after the fix, where it changed them."""
    bad_record = tried_record.was.record
    value_pairs = ((tried_record.key, bad_record.key), (tried_record.value, bad_record.value))
    return (
        bad_record.key,
        bad_record.value,
        *("same" if new_value == old_value else new_value for new_value, old_value in value_pairs),
    )


def _print_fit_table(
    title: str, column_titles: Sequence[str], rows: Sequence[Sequence[Any]], limit: int | None
) -> None:
    # Leave out a column that has nothing but "same".
    kept_columns = [
        n
        for n, name in enumerate(column_titles)
        if not name.startswith("new ") or any(row[n] != "same" for row in rows)
    ]
    kept_rows = [[row[n] for n in kept_columns] for row in rows]
    print_first_rows(
        kept_rows,
        limit,
        lambda first_rows, caption: show.print_table(
            title, [column_titles[n] for n in kept_columns], first_rows, caption=caption
        ),
    )


def _fix_facts(tried_record: Fixed | StillBad) -> dict[str, Any]:
    bad_record = tried_record.was.record
    return {
        "topic": bad_record.topic,
        "topic_id": bad_record.topic_id,
        "partition": bad_record.partition,
        "offset": bad_record.offset,
        "tick": bad_record.tick,
        "timestamp": to_datetime(bad_record.timestamp),
        "reason_before": tried_record.was.reason,
        "key_before": bad_record.key,
        "value_before": bad_record.value,
        "key": tried_record.key,
        "value": tried_record.value,
        "fits": (reason := getattr(tried_record, "reason", None)) is None,
        "reason": reason,
    }
