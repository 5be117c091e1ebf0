"""What a person decides about: the text that is shown, and the part of a finding that binds what is done.

Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lakehouse_dags.requests import Request, describe_range

# Words for names in a command's JSON, for a person who has to decide.
FACT_LABELS = {
    "added": "rows added",
    "removed": "rows removed",
    "changed": "rows changed",
    "undone_by": "undone by",
}
RANGE = {"from", "to", "offsets"}  # of the records, in a backfill's request
NOT_SHOWN = ("event", "plan", "dry_run", "chunk_hours", "back_to")


def describe_decision(request: Request, task_id: str, findings: Mapping[str, Any]) -> str:
    """Return the text for a person who decides, as Markdown: the request in the run's params, and a task's findings."""
    if request.keys() >= RANGE and all(request[name] is None for name in RANGE):
        request = {**request, "range": describe_range(request)}
    parts = (("Requested, by the params of this run", request), (f"Found by the task {task_id}", findings))
    return "\n\n".join(f"#### {title}\n\n{_list_items(values)}" for title, values in parts)


def _list_items(values: Mapping[str, Any]) -> str:
    """Return the values as a list in Markdown, whole: a person who decides must see all of what is decided."""
    lines = []
    for name, value in values.items():
        if value is None or name in NOT_SHOWN:
            continue
        label = escape_markdown(FACT_LABELS.get(name, name))
        if isinstance(value, list) and len(value) > 1:
            lines += [f"* {label}:", *(f"    * **{escape_markdown(item, None)}**" for item in value)]
        else:
            lines.append(f"* {label}: **{escape_markdown(_sole_item(value), None)}**")
    return "\n".join(lines) or "nothing"


def _sole_item(value: Any) -> Any:
    """Return the item of a list of one; an empty list as nothing."""
    return next(iter(value), "none") if isinstance(value, list) else value


def escape_markdown(text: object, longest: int | None = 300) -> str:
    """Return a text escaped for Markdown: nothing in it is markup, a link or a new line. longest: None for all."""
    return re.sub(r"([^\w ])", r"\\\1", re.sub(r"\s+", " ", str(text))[:longest], flags=re.ASCII)


def approved_part(findings: object) -> dict[str, Any]:
    """Return the part of a task's result that binds what is done after its approval."""
    values = findings if isinstance(findings, dict) else {}
    return {"digest": values.get("digest"), "reverted": values.get("reverted") or []}
