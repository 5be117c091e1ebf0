"""The argument lists of the `lakehouse` command, and the part of its results that is kept. Standard library only.

A value of a request is one argument, joined to its option by "=", or a name after "--": whatever it is, it can't become
an option, and no shell ever sees it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakehouse_dags.manifest import END
from lakehouse_dags.requests import SURROGATE, BadRequest

Where = Mapping[str, Any]
Request = Mapping[str, Any]
EXAMPLES = 5
# What a command calls them in its JSON, for a person who has to decide.
WORDS = {
    "added": "rows added",
    "removed": "rows removed",
    "changed": "rows changed",
    "undone_by": "undone by",
}
NOT_SHOWN = ("event", "plan", "dry_run", "chunk_hours", "back_to")
DIGEST = rf"^([0-9]{{1,18}}-)?[0-9a-f]{{16}}{END}"
TABLE_FACTS = ("name", "rows", "version", "tick", "behind", "late")


def argv(python: Path, where: Where, command: str, request: Request) -> list[str]:
    """Return the argument list of a command, by its name in COMMANDS. Raises BadRequest for a value that can't be one.

    -P: the folder that it runs in, which is the application's, is not searched for Python's own modules.
    """
    name, positionals, options = COMMANDS[command](where, request)
    # The lake of the manifest, as the page shows it: LAKEHOUSE_LAKE_PATH of a worker would win over the configuration.
    place = ["--lake=" + where["lake"], *([] if where["config"] is None else ["--config=" + where["config"]])]
    options = [*options, *place, *([] if command == "check" else ["--json"])]
    for value in positionals:
        if not isinstance(value, str) or not value or value.startswith("-"):
            raise BadRequest(f"{name}: found {value!r:.200}, expected a name; it must not begin with -.")
    for value in [*positionals, *options]:
        if "\0" in value or SURROGATE.search(value):
            raise BadRequest(f"{name}: found {value!r:.200}, expected a text that can be an argument.")
    behind = ["--", *positionals] if positionals else []
    return [str(python), "-P", "-m", "lakehouse.cli.main", *name.split(), *options, *behind]


def folder(where: Where) -> Path:
    """Return the folder that a command runs in: that of the configuration, which relative paths refer to."""
    return Path(where["config"] or where["app"].partition(".py:")[0]).parent


class Summary:
    """What is kept of a command's results, which come one by one: the last one; of some commands something shorter."""

    def __init__(self) -> None:
        self.last: Mapping[str, Any] = {}

    def add(self, result: Mapping[str, Any]) -> None:
        """Take a result."""
        self.last = result

    def kept(self) -> dict[str, Any]:
        """Return what is kept, so far."""
        return dict(self.last)


def summary_of(command: str) -> Summary:
    """Return an empty summary of a command's results."""
    return SUMMARIES.get(command, Summary)()


def result(summary: Summary) -> dict[str, Any]:
    """Return what a task leaves of its command's results."""
    found: dict[str, Any] = portable({**summary.kept(), "event": "done"})
    return found


def missing(command: str, last: Mapping[str, Any]) -> str | None:
    """Return what a command that succeeded left out of its last result, so that nobody knows what it did; or None."""
    wanted = NEEDED["audit" if command == "reconcile" and "ok" in last else command]
    absent = [name for name in wanted if name not in last]
    if not absent:
        return None
    found = f"a result with {', '.join(map(str, last))}" if last else "no result"
    return (
        f"found {found:.500}, expected one with {', '.join(absent)}: its output was lost, or is not that of `lakehouse`"
    )


def portable(value: Any) -> Any:
    """Return a JSON value with the integers that Airflow can't pass on, those beyond 64 bits (hashes), as text."""
    if isinstance(value, dict):
        return {name: portable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [portable(item) for item in value]
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def complaint(command: str, last: Mapping[str, Any]) -> str | None:
    """Return why a command's own result, whatever its exit code, is not good enough; another try would be no better."""
    if command == "prove" and len(set(hashes(last))) > 1:
        return "the ways to rebuild the table do not agree"
    if command == "drill" and last.get("ok") is False:
        return "a damage was not found, or a restored table is not what it was"
    if command == "reconcile" and last.get("ok") is False:
        return f"the audit found problems: {last['problems']!r:.1000}"
    if command == "reconcile" and (left := sum(last.get(name, 0) for name in ("added", "removed", "changed"))):
        return f"after the backfill {left} rows still differ from what bronze gives"
    return None


def is_enough(command: str, last: Mapping[str, Any]) -> bool:
    """Return whether a result is good although the command ended with 1: there was only one way to prove a table."""
    return command == "prove" and len(hashes(last)) == 1


def hashes(proof: Mapping[str, Any]) -> list[str]:
    """Return the content's hash by each way that could give the moment."""
    return [way["hash"] for way in proof.get("ways", ()) if way["hash"] is not None]


Line = tuple[str, Sequence[str], Sequence[str]]  # the command with its group, its positional arguments, its options


def _run(part: str) -> Callable[[Where, Request], Line]:
    return lambda where, _: ("run", [], [_app(where), "--until=caught-up", f"--only={part}"])


def _range(request: Request) -> list[str]:
    return [f"--{name}={request[name]}" for name in ("from", "to", "offsets") if request.get(name) is not None]


def _backfill(where: Where, request: Request) -> Line:
    return (
        "repair backfill",
        [request["table"]],
        [_app(where), *_range(request), f"--why={request.get('reason', '')}"],
    )


def _plan(where: Where, request: Request) -> Line:
    return "repair backfill", [request["table"]], [_app(where), *_range(request), "--plan", "--limit=0"]


def _discard(where: Where, request: Request) -> Line:
    return "repair backfill", [request["table"]], [_app(where), "--discard"]


def _reconcile(where: Where, request: Request) -> Line:
    """For a range: what would a backfill change now? For all rows: do they equal a fold from bronze?"""
    if _range(request):
        return _plan(where, request)
    return "test audit", [request["table"]], [_app(where), "--deep"]


def _app(where: Where) -> str:
    return f"--app={where['app']}"


def _moment(request: Request) -> list[str]:
    clock, moment = request["clock"], request["moment"]
    if clock in ("event", "commit"):
        return [f"--at={moment}", f"--clock={clock}"]
    return [f"--{clock}={moment}"]


def _checkout(where: Where, request: Request) -> Line:
    return "past checkout", [request["table"], request["target"]], [_app(where), *_moment(request), "--again"]


def _prove(where: Where, request: Request) -> Line:
    return "past rebuild", [request["table"]], [_app(where), "--prove", *_moment(request)]


def _drill(where: Where, request: Request) -> Line:
    damage = [] if request["damage"] is None else [f"--damage={request['damage']}"]
    return "test drill", [request["table"]], [_app(where), *damage]


def _upkeep(where: Where, request: Request) -> Line:
    keep = f"--keep-at-least={request['keep_hours']} hours"
    plan = ["--plan"] if request["dry_run"] else []
    return "repair upkeep", request["tables"] or (), [_app(where), keep, *plan]


def _quarantine(more: Callable[[Request], list[str]]) -> Callable[[Where, Request], Line]:
    def line(where: Where, request: Request) -> Line:
        chosen = [] if request["contains"] is None else [f"--reason={request['contains']}"]
        fix = [] if request["fix"] is None else [f"--fix={request['fix']}"]
        return "repair replay", [request["stream"]], [_app(where), *chosen, *fix, *more(request)]

    return line


def _stage(where: Where, request: Request) -> Line:
    return "deploy stage", [], [_app(where), "--limit=0"]


def _promote(where: Where, request: Request) -> Line:
    return "deploy promote", [], [_app(where), _expected(request), f"--why={request['reason']}"]


def _expected(request: Request) -> str:
    """What a person approved: the application's file may have changed since."""
    digest = request.get("digest")
    if not isinstance(digest, str) or not re.match(DIGEST, digest):
        raise BadRequest(
            f"found {digest!r:.80} as the digest of what was approved, expected one such as 0123456789abcdef: the "
            "result of the task before the approval was changed, or cleared. Start a new run."
        )
    return f"--expect={digest}"


def _unstage(where: Where, request: Request) -> Line:
    return "deploy discard", [], [_app(where)]


def _erase(more: Callable[[Request], list[str]]) -> Callable[[Where, Request], Line]:
    def line(where: Where, request: Request) -> Line:
        named_by = [f"--named-by={path}" for path in request["named_by"]]
        value = [] if request["value"] is None else [f"--value={request['value']}"]
        key = f"--key={request['stream']}={request['key']}"
        return "repair erase", [], [_app(where), key, *named_by, *value, *more(request)]

    return line


COMMANDS: dict[str, Callable[[Where, Request], Line]] = {
    "ingest": _run("ingest"),
    "silver": _run("silver"),
    "check": lambda where, _: ("test check", [], [_app(where)]),
    "status": lambda where, _: ("status", [], []),
    "plan": _plan,
    "backfill": _backfill,
    "discard": _discard,
    "reconcile": _reconcile,
    "stage": _stage,
    "promote": _promote,
    "unstage": _unstage,
    "plan_erasure": _erase(lambda _: ["--plan"]),
    # The plan that was approved names the tables that were reverted.
    "erase": _erase(lambda request: ["--rebuild-reverted", f"--why={request['reason']}"]),
    "checkout": _checkout,
    "prove": _prove,
    "drill": _drill,
    "upkeep": _upkeep,
    "try": _quarantine(lambda _: ["--plan", "--again"]),
    "replay": _quarantine(lambda request: ["--again", _expected(request), f"--why={request['reason']}"]),
}


class _Upkept(Summary):
    """Of each table, what was done to its files."""

    NAMES = ("name", "files_before", "files_after", "bytes_before", "bytes_after", "anchor", "kept", "dry_run")

    def __init__(self) -> None:
        super().__init__()
        self._tables: list[dict[str, Any]] = []

    def add(self, result: Mapping[str, Any]) -> None:
        super().add(result)
        if "name" in result:
            self._tables.append({name: result.get(name) for name in self.NAMES})

    def kept(self) -> dict[str, Any]:
        return {"tables": self._tables}


class _Tried(Summary):
    """How many records fit, and the first of those that do not."""

    def __init__(self) -> None:
        super().__init__()
        self._fit = self._still_bad = 0
        self._tick: int | None = None
        self._examples: list[str] = []

    def add(self, result: Mapping[str, Any]) -> None:
        super().add(result)
        if result.get("fits") is True:
            self._fit += 1
            if (tick := result.get("replayed_at")) is not None:
                self._tick = max(tick, self._tick or tick)
        elif result.get("fits") is False:
            self._still_bad += 1
            if len(self._examples) < EXAMPLES:
                place = f"{result['topic']}/{result['partition']}/{result['offset']}"
                self._examples.append(f"{place}: {result['reason']}")

    def kept(self) -> dict[str, Any]:
        counted = {"fit": self._fit, "still_bad": self._still_bad, "tick": self._tick, "examples": self._examples}
        return {**counted, "digest": self.last.get("digest")}


class _Staged(Summary):
    """How many rows of each table differ, or would; of `promote` also the tick."""

    def kept(self) -> dict[str, Any]:
        rows = [
            f"{name}: {_rows(one['added'])} added, {one['removed']} removed, {one['changed']} changed"
            for name, one in self.last.get("tables", {}).items()
        ]
        kept = {
            name: self.last[name] for name in ("digest", "records", "stages", "tick", "before") if name in self.last
        }
        return {**kept, "tables": rows}


class _Erased(Summary):
    """How many records of which topics, the tables and the topics that change, and the outcome of the search."""

    def kept(self) -> dict[str, Any]:
        records = [f"{topic}: {count} records" for topic, count in self.last.get("records", {}).items()]
        names = ("tables", "published", "not_erased", "stages", "tick", "finished_at")
        return {"records": records, **{name: self.last[name] for name in names if name in self.last}}


class _Status(Summary):
    """Where the tables and the topics are, without what is known of a single record."""

    def kept(self) -> dict[str, Any]:
        return {
            "tick": self.last.get("tick"),
            "tables": [
                {**{name: one.get(name) for name in TABLE_FACTS}, "unmet": _counts(one.get("unmet", ()))}
                for one in self.last.get("tables", ())
            ],
            "topics": [
                {name: one.get(name) for name in ("name", "next", "lag")} for one in self.last.get("topics", ())
            ],
        }


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


def _counts(unmet: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return by expectation how many records do not meet it, without what is known of one of them."""
    return {one["expectation"]: one["records"] for one in unmet}


SUMMARIES: dict[str, type[Summary]] = {
    "upkeep": _Upkept,
    "stage": _Staged,
    "promote": _Staged,
    "plan_erasure": _Erased,
    "erase": _Erased,
    "try": _Tried,
    "replay": _Tried,
    "status": _Status,
}

_DIFFERENCES = ("added", "removed", "changed")
# What the last result of each command has. `check` has none, and `upkeep` a line for each table, if there are any.
NEEDED: dict[str, Sequence[str]] = {
    "ingest": ("event",),
    "silver": ("event",),
    "check": (),
    "status": ("tick", "tables", "topics"),
    "plan": _DIFFERENCES,
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
    for one in status["tables"]:
        if one["name"] == table:
            offsets = {topic["name"]: topic["next"] for topic in status["topics"]}
            facts = {name: one[name] for name in ("rows", "version", "tick", "unmet")}
            return {**facts, "offsets": offsets}
    return None


def shown(request: Request, task: str, found: Mapping[str, Any]) -> str:
    """Return what a person decides about, as Markdown: the request of the run's params, and what a task found."""
    parts = (("Requested, by the params of this run", request), (f"Found by the task {task}", found))
    return "\n\n".join(f"#### {title}\n\n{_items(values)}" for title, values in parts)


def _items(values: Mapping[str, Any]) -> str:
    lines = [
        f"* {plain(WORDS.get(name, name))}: **{plain(_listed(value), 1000)}**"
        for name, value in values.items()
        if value is not None and name not in NOT_SHOWN
    ]
    return "\n".join(lines) or "nothing"


def _listed(value: Any) -> Any:
    return "; ".join(map(str, value)) if isinstance(value, list) else value


def plain(text: object, longest: int = 300) -> str:
    """Return a text escaped for Markdown: nothing in it is markup, a link or a new line."""
    return re.sub(r"([^\w ])", r"\\\1", re.sub(r"\s+", " ", str(text))[:longest], flags=re.ASCII)
