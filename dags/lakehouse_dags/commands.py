"""The argument lists of the `lakehouse` command, and the part of its results that is kept. Standard library only.

A value of a request is one argument, joined to its option by "=", or a name after "--": whatever it is, it can't become
an option, and no shell ever sees it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakehouse_dags.requests import SURROGATE, BadRequest

Where = Mapping[str, Any]
Request = Mapping[str, Any]
EXAMPLES = 5
TABLE_FACTS = ("name", "rows", "version", "tick", "behind", "late")


def argv(python: Path, where: Where, command: str, request: Request) -> list[str]:
    """Return the argument list of a command, by its name in COMMANDS. Raises BadRequest for a value that can't be one.

    -P: the folder that it runs in, which is the application's, is not searched for Python's own modules.
    """
    name, positionals, options = COMMANDS[command](where, request)
    config = ["--lake=" + where["lake"]] if where["config"] is None else ["--config=" + where["config"]]
    options = [*options, *config, *([] if command == "check" else ["--json"])]
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


def result(command: str, last: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the part of a command's results that is kept: the last one, or a summary for commands with many lines."""
    kept = dict(SUMMARIES[command](results) if command in SUMMARIES else last)
    found: dict[str, Any] = portable({**kept, "event": "done"})
    return found


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
    return "deploy promote", [], [_app(where), f"--why={request['reason']}"]


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
    "replay": _quarantine(lambda request: ["--again", f"--why={request['reason']}"]),
}


def _upkept(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = ("name", "files_before", "files_after", "bytes_before", "bytes_after", "anchor", "kept", "dry_run")
    return {"tables": [{name: one.get(name) for name in names} for one in results if "name" in one]}


def _tried(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    fit = [one for one in results if one.get("fits") is True]
    bad = [one for one in results if one.get("fits") is False]
    ticks = [one["replayed_at"] for one in fit if one.get("replayed_at") is not None]
    return {
        "fit": len(fit), "still_bad": len(bad), "tick": max(ticks, default=None),
        "examples": [f"{one['topic']}/{one['partition']}/{one['offset']}: {one['reason']}" for one in bad[:EXAMPLES]],
    }  # fmt: skip


def _staged(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many rows of each table differ, or would; of `promote` also the tick."""
    last = results[-1] if results else {}
    tables = last.get("tables", {})
    rows = [
        f"{name}: {one['added']} rows added, {one['removed']} removed, {one['changed']} changed"
        for name, one in tables.items()
    ]
    kept = {name: last[name] for name in ("records", "stages", "tick", "before") if name in last}
    return {**kept, "tables": rows}


def _erased(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many records of which topics, the tables and the topics that change, and the outcome of the search."""
    last = results[-1] if results else {}
    records = [f"{topic}: {count} records" for topic, count in last.get("records", {}).items()]
    kept = ("tables", "published", "not_erased", "stages", "tick", "finished_at")
    return {"records": records, **{name: last[name] for name in kept if name in last}}


def _status(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    last = results[-1] if results else {}
    return {
        "tick": last.get("tick"),
        "tables": [
            {**{name: one.get(name) for name in TABLE_FACTS}, "unmet": _counts(one.get("unmet", ()))}
            for one in last.get("tables", ())
        ],
        "topics": [{name: one.get(name) for name in ("name", "next", "lag")} for one in last.get("topics", ())],
    }


def _counts(unmet: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return by expectation how many records do not meet it, without what is known of one of them."""
    return {one["expectation"]: one["records"] for one in unmet}


SUMMARIES: dict[str, Callable[[Sequence[Mapping[str, Any]]], dict[str, Any]]] = {
    "upkeep": _upkept,
    "stage": _staged,
    "promote": _staged,
    "plan_erasure": _erased,
    "erase": _erased,
    "try": _tried,
    "replay": _tried,
    "status": _status,
}


def table_facts(status: Mapping[str, Any], table: str) -> dict[str, Any] | None:
    """Return the facts of a table in `lakehouse status`, for an asset event; None if the table does not exist yet."""
    for one in status["tables"]:
        if one["name"] == table:
            offsets = {topic["name"]: topic["next"] for topic in status["topics"]}
            facts = {name: one[name] for name in ("rows", "version", "tick", "unmet")}
            return {**facts, "offsets": offsets}
    return None


def plain(text: object, longest: int = 300) -> str:
    """Return a text escaped for Markdown: nothing in it is markup, a link or a new line."""
    return re.sub(r"([^\w ])", r"\\\1", re.sub(r"\s+", " ", str(text))[:longest], flags=re.ASCII)
