"""What a fix would make of quarantined records, shown: those that fit now, before and after, and those that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.cli.look.read import shown
from lakehouse.cli.terminal import show
from lakehouse.errors import ConfigError
from lakehouse.semantics.moment import moment

if TYPE_CHECKING:
    from lakehouse.lake.record.quarantine import Choice
    from lakehouse.plan.origin import Source
    from lakehouse.run.repair.fixes import Fixed, FixFunction, StillBad
    from lakehouse.run.start.application import Found
    from lakehouse.settings.config import Settings


@dataclass(frozen=True, slots=True)
class New:
    """A new key or value as the command line gives it: a text, a file, or null."""

    text: str | None = None
    file: Path | None = None
    null: bool = False

    @property
    def given(self) -> int:
        """The number of ways in which it is given."""
        return (self.text is not None) + (self.file is not None) + self.null


@dataclass(frozen=True, slots=True)
class Attempt:
    """A fix of the chosen records of a stream, as an application declares it. fix: a function; edits: by key, value."""

    app: str
    stream: str
    choice: Choice
    fix: str | None
    edits: Mapping[str, New]


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Why, and by whose decision, the records that fit now count from now on.

    again: records that were fixed before are left out; instead: they get new bytes.
    """

    reason: str
    by: str | None = None
    again: bool = False
    instead: bool = False


def attempt(settings: Settings, tried: Attempt, replay: ReplayRequest | None, limit: int | None, *, json: bool) -> None:
    """Show what a fix makes of records; replay those that fit, if `replay` is given."""
    from lakehouse.lake.layout import Layout
    from lakehouse.run.repair.fixes import fixed_records, replay_refusal, source_of
    from lakehouse.run.start.application import find_app

    found = find_app(tried.app)
    source = source_of(found.app, tried.stream)
    how = _how(found, source, tried.fix, tried.edits)
    made = fixed_records(Layout(settings.lake.path), found.app, tried.stream, tried.choice, how)
    tick, refused = None, replay_refusal(found.app, source)
    if replay is not None and made.fixed:
        from lakehouse.run.lake import Lake

        tick = Lake(settings=settings).replay(
            found.app, tried.stream, made.fixed,
            reason=replay.reason, by=replay.by, again=replay.again, instead=replay.instead,
        )  # fmt: skip
    if json:
        both: list[Fixed | StillBad] = [*made.fixed, *made.bad]
        for one in sorted(both, key=lambda one: one.was.record.position)[:limit]:
            fits = one in made.fixed
            more = {"replay_refused": refused} if fits and refused is not None else {}
            show.as_json({**_facts(one), "replayed_at": tick if fits else None, **more})
        return
    if made.fixed:
        rows = [(str(one.was.place), one.was.reason, *_before_and_after(one)) for one in made.fixed]
        columns = ("position", "reason until now", "key", "value", "new key", "new value")
        _table("They fit", columns, rows, limit)
    if made.bad:
        rows = [(str(one.was.place), one.reason, *_before_and_after(one)) for one in made.bad]
        _table("They still don't fit", ("position", "reason", "key", "value", "new key", "new value"), rows, limit)
    done = "Nothing was changed." if tick is None else f"Those that fit count from tick {tick} on."
    show.say(f"{len(made.fixed):,} records fit now, {len(made.bad):,} still do not. {done}")
    if made.fixed and refused is not None:
        show.say(f"They can't be replayed: {refused}")


def _how(found: Found, source: Source, fix: str | None, edits: Mapping[str, New]) -> FixFunction:
    from lakehouse.run.repair.fixes import KEEP, Edit, unchanged
    from lakehouse.run.start.application import load_function

    edited = [name for name, new in edits.items() if new.given]
    if fix is not None and edited:
        raise ConfigError(f"quarantine: found --fix and a new {edited[0]}; expected one of them.")
    if fix is not None:
        return load_function(fix, found)
    for name in edited:
        if edits[name].given > 1:
            raise ConfigError(f"quarantine: found {edits[name].given} new {name}s; expected one.")
    if not edited:
        return unchanged
    new = {name: _bytes(source, name, edits[name]) if name in edited else KEEP for name in ("key", "value")}
    return Edit(**new)


def _bytes(source: Source, part: str, new: New) -> bytes | None:
    from lakehouse.run.repair.fixes import bytes_of

    if new.file is not None:
        if not new.file.is_file():
            raise ConfigError(f"{new.file}: no such file; expected the bytes of a {part}.")
        return new.file.read_bytes()
    of: Literal["key", "value"] = "key" if part == "key" else "value"
    return None if new.text is None else bytes_of(source, of, new.text)


def _before_and_after(one: Fixed | StillBad) -> tuple[Any, ...]:
    """The key and the value as they were, and as the fix made them, where it changed them."""
    was = one.was.record
    pairs = ((one.key, was.key), (one.value, was.value))
    return was.key, was.value, *("same" if new == old else new for new, old in pairs)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], limit: int | None) -> None:
    # A column that says nothing but "same" is left out.
    keep = [n for n, name in enumerate(columns) if not name.startswith("new ") or any(row[n] != "same" for row in rows)]
    cut = [[row[n] for n in keep] for row in rows]
    shown(cut, limit, lambda some, caption: show.table(title, [columns[n] for n in keep], some, caption=caption))


def _facts(one: Fixed | StillBad) -> dict[str, Any]:
    was = one.was.record
    return {
        "topic": was.topic, "topic_id": was.topic_id, "partition": was.partition, "offset": was.offset,
        "tick": was.tick, "timestamp": moment(was.timestamp), "reason_before": one.was.reason,
        "key_before": was.key, "value_before": was.value, "key": one.key, "value": one.value,
        "fits": (reason := getattr(one, "reason", None)) is None, "reason": reason,
    }  # fmt: skip
