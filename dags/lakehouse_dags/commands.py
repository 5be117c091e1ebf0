"""The argument lists of the `lakehouse` command, and the parts of its results that a task keeps. Standard library only.

A value of a request is one argument: joined to its option by "=", or a name after "--". So no value can become an
option, and no shell ever sees it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakehouse_dags.manifest import END
from lakehouse_dags.requests import SURROGATE, BadRequest, whole_word

AppFacts = Mapping[str, Any]
Request = Mapping[str, Any]
EXAMPLES = 5
CLIPPED = 80  # characters of a long text that an error of lakehouse shows
DIGEST = rf"^([0-9]{{1,18}}-)?[0-9a-f]{{16}}{END}"
TABLE_FACTS = ("name", "rows", "version", "tick", "behind", "late")


def command_argv(python: Path, app_facts: AppFacts, command: str, request: Request) -> list[str]:
    """Return the argument list of a command, by its name in COMMANDS.

    app_facts: see `Application.as_facts`. -P: Python does not search the command's folder, which is the application's,
    for its own modules. Raises BadRequest for a value that can't be an argument.
    """
    name, positionals, options = COMMANDS[command](app_facts, request)
    # The lake of the manifest, as the page shows it: LAKEHOUSE_LAKE_PATH of a worker would win over the configuration.
    place = [
        "--lake=" + app_facts["lake"],
        *([] if app_facts["config"] is None else ["--config=" + app_facts["config"]]),
    ]
    options = [*options, *place, *([] if command == "check" else ["--json"])]
    for value in positionals:
        if not isinstance(value, str) or not value or value.startswith("-"):
            raise BadRequest(f"{name}: found {value!r:.200}, expected a name; it must not begin with -.")
    for value in [*positionals, *options]:
        if "\0" in value or SURROGATE.search(value):
            raise BadRequest(f"{name}: found {value!r:.200}, expected a text that can be an argument.")
    name_arguments = ["--", *positionals] if positionals else []
    return [str(python), "-P", "-m", "lakehouse.cli.main", *name.split(), *options, *name_arguments]


def shown_argv(argv: Sequence[str]) -> list[str]:
    """Return an argument list for a log, without the texts that name a person whose records are erased."""
    personal = ("--key=", "--value=")
    return [f"{word.partition('=')[0]}=***" if word.startswith(personal) else word for word in argv]


def hide_personal(command: str, request: Request, text: str) -> str:
    """Return a line of a command, or its error, without the texts that name a person whose records are erased.

    An error shows a key as a whole, its parts, or how it begins.
    """
    if command not in ("plan_erasure", "erase"):
        return text
    key, value = request.get("key") or "", request.get("value") or ""
    personal = {word for word in (key, value, *(part.strip('"') for part in key.split(","))) if word.strip()}
    spellings = {spelling for word in personal for spelling in (word, repr(word)[1:-1], json.dumps(word)[1:-1])}
    spellings |= {spelling[:CLIPPED] for spelling in spellings}
    for spelling in sorted(spellings, key=len, reverse=True):
        text = whole_word(spelling).sub("***", text)
    return text


def command_folder(app_facts: AppFacts) -> Path:
    """Return the folder in which a command runs: that of the configuration, since its relative paths start there."""
    return Path(app_facts["config"] or app_facts["app"].partition(".py:")[0]).parent


class Summary:
    """The part that a task keeps of its command's results, which come one by one: the last; for some commands less."""

    def __init__(self) -> None:
        self.last: Mapping[str, Any] = {}

    def add(self, result: Mapping[str, Any]) -> None:
        """Take in a result."""
        self.last = result

    def summarize(self) -> dict[str, Any]:
        """Return the part to keep of the results so far."""
        return dict(self.last)


def summary_of(command: str) -> Summary:
    """Return an empty summary of a command's results."""
    return SUMMARIES.get(command, Summary)()


def task_result(summary: Summary) -> dict[str, Any]:
    """Return the result of a task: the summary of its command's results."""
    portable_result: dict[str, Any] = make_portable({**summary.summarize(), "event": "done"})
    return portable_result


def describe_missing(command: str, last: Mapping[str, Any]) -> str | None:
    """Return a message about what the last result of a successful command lacks; None if it lacks nothing."""
    needed = NEEDED["audit" if command == "reconcile" and "ok" in last else command]
    absent = [name for name in needed if name not in last]
    if not absent:
        return None
    found_text = f"a result with {', '.join(map(str, last))}" if last else "no result"
    return (
        f"found {found_text:.500}, expected one with {', '.join(absent)}: its output was lost, or is not that of "
        "`lakehouse`"
    )


def make_portable(value: Any) -> Any:
    """Return a JSON value with integers beyond 64 bits (hashes) as text: Airflow can't pass them on."""
    if isinstance(value, dict):
        return {name: make_portable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [make_portable(item) for item in value]
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def describe_fault(command: str, last: Mapping[str, Any]) -> str | None:
    """Return why a command's result is not good enough, whatever its exit code; another try would be no better."""
    if command == "prove" and len(set(proof_hashes(last))) > 1:
        return "the ways to rebuild the table do not agree"
    if command == "drill" and last.get("ok") is False:
        return "a damage was not found, or a restored table is not what it was"
    if command == "reconcile" and last.get("ok") is False:
        return f"the audit found problems: {last['problems']!r:.1000}"
    if command == "reconcile" and (differing := sum(last.get(name, 0) for name in ("added", "removed", "changed"))):
        return f"after the backfill {differing} rows still differ from what bronze gives"
    if command == "erase" and (places := last.get("found")):
        return (
            f"the search found what was erased in {len(places)} places, which other records or other people's files "
            "hold: name these records, too"
        )
    if command == "erase" and last.get("finished_at", "") is None:
        return "the search lacked a text that an earlier one was for, so the erasure is not finished: give it as value"
    return None


def is_enough(command: str, last: Mapping[str, Any]) -> bool:
    """Say whether a result is good although the command ended with 1: there was only one way to prove a table."""
    return command == "prove" and len(proof_hashes(last)) == 1


def proof_hashes(proof: Mapping[str, Any]) -> list[str]:
    """Return the content's hash from each way that could give the moment."""
    return [way["hash"] for way in proof.get("ways", ()) if way["hash"] is not None]


# The command with its group, its positional arguments, its options.
CommandLine = tuple[str, Sequence[str], Sequence[str]]


def _run_line_maker(part: str) -> Callable[[AppFacts, Request], CommandLine]:
    return lambda app_facts, _: ("run", [], [_app_option(app_facts), "--until=caught-up", f"--only={part}"])


def _range_options(request: Request) -> list[str]:
    return [f"--{name}={request[name]}" for name in ("from", "to", "offsets") if request.get(name) is not None]


def _backfill_line(app_facts: AppFacts, request: Request) -> CommandLine:
    return (
        "repair backfill",
        [request["table"]],
        [
            _app_option(app_facts),
            *_range_options(request),
            *([_expect_option(request)] if "digest" in request else []),
            f"--why={request.get('reason', '')}",
        ],
    )


def _plan_line(app_facts: AppFacts, request: Request) -> CommandLine:
    return (
        "repair backfill",
        [request["table"]],
        [_app_option(app_facts), *_range_options(request), "--plan", "--limit=0"],
    )


def _discard_line(app_facts: AppFacts, request: Request) -> CommandLine:
    return "repair backfill", [request["table"]], [_app_option(app_facts), "--discard"]


def _reconcile_line(app_facts: AppFacts, request: Request) -> CommandLine:
    """Return the command that checks a backfill: of a range, what it would change now; of all rows, a deep audit."""
    if _range_options(request):
        return _plan_line(app_facts, request)
    return "test audit", [request["table"]], [_app_option(app_facts), "--deep"]


def _app_option(app_facts: AppFacts) -> str:
    return f"--app={app_facts['app']}"


def _moment_options(request: Request) -> list[str]:
    clock, moment = request["clock"], request["moment"]
    if clock in ("event", "commit"):
        return [f"--at={moment}", f"--clock={clock}"]
    return [f"--{clock}={moment}"]


def _checkout_line(app_facts: AppFacts, request: Request) -> CommandLine:
    return (
        "past checkout",
        [request["table"], request["target"]],
        [_app_option(app_facts), *_moment_options(request), "--again"],
    )


def _prove_line(app_facts: AppFacts, request: Request) -> CommandLine:
    return "past rebuild", [request["table"]], [_app_option(app_facts), "--prove", *_moment_options(request)]


def _drill_line(app_facts: AppFacts, request: Request) -> CommandLine:
    damage = [] if request["damage"] is None else [f"--damage={request['damage']}"]
    return "test drill", [request["table"]], [_app_option(app_facts), *damage]


def _upkeep_line(app_facts: AppFacts, request: Request) -> CommandLine:
    keep = f"--keep-at-least={request['keep_hours']} hours"
    plan = ["--plan"] if request["dry_run"] else []
    return "repair upkeep", request["tables"] or (), [_app_option(app_facts), keep, *plan]


def _quarantine_line_maker(
    further_options: Callable[[Request], list[str]],
) -> Callable[[AppFacts, Request], CommandLine]:
    def line(app_facts: AppFacts, request: Request) -> CommandLine:
        reason_options = [] if request["contains"] is None else [f"--reason={request['contains']}"]
        fix = [] if request["fix"] is None else [f"--fix={request['fix']}"]
        return (
            "repair replay",
            [request["stream"]],
            [_app_option(app_facts), *reason_options, *fix, *further_options(request)],
        )

    return line


def _stage_line(app_facts: AppFacts, request: Request) -> CommandLine:
    return "deploy stage", [], [_app_option(app_facts), "--limit=0"]


def _promote_line(app_facts: AppFacts, request: Request) -> CommandLine:
    return "deploy promote", [], [_app_option(app_facts), _expect_option(request), f"--why={request['reason']}"]


def _expect_option(request: Request) -> str:
    """Return the option with the digest that a person approved: the application's file may have changed since."""
    digest = request.get("digest")
    if not isinstance(digest, str) or not re.match(DIGEST, digest):
        raise BadRequest(
            f"found {digest!r:.80} as the digest of what was approved, expected one such as 0123456789abcdef: the "
            "result of the task before the approval was changed, or cleared. Start a new run."
        )
    return f"--expect={digest}"


def _unstage_line(app_facts: AppFacts, request: Request) -> CommandLine:
    return "deploy discard", [], [_app_option(app_facts)]


def _erase_line_maker(further_options: Callable[[Request], list[str]]) -> Callable[[AppFacts, Request], CommandLine]:
    def line(app_facts: AppFacts, request: Request) -> CommandLine:
        named_by = [f"--named-by={path}" for path in request["named_by"]]
        value = [] if request["value"] is None else [f"--value={request['value']}"]
        key = f"--key={request['stream']}={request['key']}"
        return "repair erase", [], [_app_option(app_facts), key, *named_by, *value, *further_options(request)]

    return line


COMMANDS: dict[str, Callable[[AppFacts, Request], CommandLine]] = {
    "ingest": _run_line_maker("ingest"),
    "silver": _run_line_maker("silver"),
    "check": lambda app_facts, _: ("test check", [], [_app_option(app_facts)]),
    "status": lambda app_facts, _: ("status", [], []),
    "plan": _plan_line,
    "backfill": _backfill_line,
    "discard": _discard_line,
    "reconcile": _reconcile_line,
    "stage": _stage_line,
    "promote": _promote_line,
    "unstage": _unstage_line,
    "plan_erasure": _erase_line_maker(lambda _: ["--plan"]),
    # The plan that was approved names the tables that were reverted; without it, a revert since then is refused.
    "erase": _erase_line_maker(
        lambda request: [*(["--rebuild-reverted"] if request.get("reverted") else []), f"--why={request['reason']}"]
    ),
    "checkout": _checkout_line,
    "prove": _prove_line,
    "drill": _drill_line,
    "upkeep": _upkeep_line,
    "try": _quarantine_line_maker(lambda _: ["--plan", "--again"]),
    "replay": _quarantine_line_maker(
        lambda request: ["--again", _expect_option(request), f"--why={request['reason']}"]
    ),
}


class _UpkeepSummary(Summary):
    """The changes of each table's files."""

    NAMES = ("name", "files_before", "files_after", "bytes_before", "bytes_after", "anchor", "kept", "dry_run")

    def __init__(self) -> None:
        super().__init__()
        self._tables: list[dict[str, Any]] = []

    def add(self, result: Mapping[str, Any]) -> None:
        super().add(result)
        if "name" in result:
            self._tables.append({name: result.get(name) for name in self.NAMES})

    def summarize(self) -> dict[str, Any]:
        return {"tables": self._tables}


class _TrialSummary(Summary):
    """The number of records that fit, without those that were fixed before, and the first of those that do not."""

    def __init__(self) -> None:
        super().__init__()
        self._fit = self._fixed_before = self._still_bad = 0
        self._tick: int | None = None
        self._examples: list[str] = []

    def add(self, result: Mapping[str, Any]) -> None:
        super().add(result)
        if result.get("fits") is True:
            self._fit += not result.get("fixed_before")
            self._fixed_before += bool(result.get("fixed_before"))
            if (tick := result.get("replayed_at")) is not None:
                self._tick = max(tick, self._tick or tick)
        elif result.get("fits") is False:
            self._still_bad += 1
            if len(self._examples) < EXAMPLES:
                place = f"{result['topic']}/{result['partition']}/{result['offset']}"
                self._examples.append(f"{place}: {result['reason']}")

    def summarize(self) -> dict[str, Any]:
        counts = {
            "fit": self._fit,
            "fixed_before": self._fixed_before,
            "still_bad": self._still_bad,
            "tick": self._tick,
            "examples": self._examples,
        }
        return {**counts, "digest": self.last.get("digest")}


class _DeploymentSummary(Summary):
    """The numbers of rows of each table that differ, or would; for `promote` also the tick."""

    def summarize(self) -> dict[str, Any]:
        rows = [
            f"{name}: {_row_count_text(count['added'])} added, {count['removed']} removed, {count['changed']} changed"
            for name, count in self.last.get("tables", {}).items()
        ]
        facts = {
            name: self.last[name] for name in ("digest", "records", "stages", "tick", "before") if name in self.last
        }
        return {**facts, "tables": rows}


class _ErasureSummary(Summary):
    """The numbers of records by topic, the tables and topics that change, and the outcome of the search."""

    def summarize(self) -> dict[str, Any]:
        records = [f"{topic}: {count} records" for topic, count in self.last.get("records", {}).items()]
        names = ("tables", "reverted", "published", "not_erased", "stages", "tick", "finished_at")
        return {"records": records, **{name: self.last[name] for name in names if name in self.last}}


class _StatusSummary(Summary):
    """The progress of the tables and topics, without facts about single records."""

    def summarize(self) -> dict[str, Any]:
        return {
            "tick": self.last.get("tick"),
            "tables": [
                {
                    **{name: table.get(name) for name in TABLE_FACTS},
                    "unmet": _counts_by_expectation(table.get("unmet", ())),
                }
                for table in self.last.get("tables", ())
            ],
            "topics": [
                {name: topic.get(name) for name in ("name", "next", "lag")} for topic in self.last.get("topics", ())
            ],
        }


def _row_count_text(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


def _counts_by_expectation(unmet: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many records do not meet each expectation, without facts about single records."""
    return {expectation["expectation"]: expectation["records"] for expectation in unmet}


SUMMARIES: dict[str, type[Summary]] = {
    "upkeep": _UpkeepSummary,
    "stage": _DeploymentSummary,
    "promote": _DeploymentSummary,
    "plan_erasure": _ErasureSummary,
    "erase": _ErasureSummary,
    "try": _TrialSummary,
    "replay": _TrialSummary,
    "status": _StatusSummary,
}

_DIFFERENCES = ("added", "removed", "changed")
# The names in the last result of each command. `check` has no result, and `upkeep` a line for each table, if there are
# any.
NEEDED: dict[str, Sequence[str]] = {
    "ingest": ("event",),
    "silver": ("event",),
    "check": (),
    "status": ("tick", "tables", "topics"),
    "plan": (*_DIFFERENCES, "digest"),
    "backfill": _DIFFERENCES,
    "discard": ("discarded",),
    "reconcile": _DIFFERENCES,
    "audit": ("ok", "problems"),
    "stage": ("tables", "digest"),
    "promote": ("tables",),
    "unstage": ("discarded",),
    "plan_erasure": ("records", "tables"),
    "erase": ("records", "tables"),
    "checkout": ("rows", "hash"),
    "prove": ("ways",),
    "drill": ("ok",),
    "upkeep": (),
    "try": ("fits", "digest"),
    "replay": ("fits",),
}


def table_facts(status: Mapping[str, Any], table: str) -> dict[str, Any] | None:
    """Return the facts of a table in `lakehouse status`, for an asset event; None if the table does not exist yet."""
    for table_status in status["tables"]:
        if table_status["name"] == table:
            offsets = {topic["name"]: topic["next"] for topic in status["topics"]}
            facts = {name: table_status[name] for name in ("rows", "version", "tick", "unmet")}
            return {**facts, "offsets": offsets}
    return None
