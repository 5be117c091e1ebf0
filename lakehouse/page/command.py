"""Runs the `lakehouse` command for the page: work that needs the application's code, or Kafka, in its own process.

The command runs in the project's Python, from an argument list, with a time limit; its process group ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lakehouse.errors import ConfigError, LakehouseError, NotFound, TimedOut
from lakehouse.formats.values.json_text import JsonNumber, parse_object, write_parsed
from lakehouse.page.applications import Application
from lakehouse.page.cells import cells_of_row, check_key, cut_text, json_cell
from lakehouse.passed_on import variables_passed_on

EXPLAIN_SECONDS = 60.0
STATUS_SECONDS = 10.0
OUTPUT_MAX = 8 * 1024 * 1024
STEPS_MAX = 200
RECORDS_SECONDS = 20.0
RECORDS_SHOWN = 20
RECORDS_READ_MAX = 5_000  # of all partitions: the last RECORDS_SHOWN offsets of each
BAD_INPUT = 2
NO_VARIABLES: Mapping[str, str] = {}


async def explain(
    python: Path, app: Application, table: str, key: str, version: int | None, seconds: float = EXPLAIN_SECONDS
) -> list[dict[str, Any]]:
    """Return the rows of a key, each with the records behind it, step by step: `lakehouse past explain --json`.

    version: None is now. Raises NotFound, ConfigError, TimedOut, and LakehouseError for a command that failed.
    """
    if check_key(key) is None:
        raise ConfigError("key: found none; expected a key's text.")
    arguments = [app.table(table).name, f"--key={key}", "--app", app.app, "--limit", str(STEPS_MAX)]
    if version is not None:
        arguments += ["--version", str(version)]
    return [_explained_row_cells(row) for row in await run_command(python, app, "past explain", arguments, seconds)]


async def ask_lag(python: Path, app: Application, seconds: float = STATUS_SECONDS) -> dict[str, Any]:
    """Return how many records wait in Kafka, by topic that the application reads, also those that bronze lacks yet.

    None for a topic of which Kafka can't say it, or that was made anew. Raises as `explain` does.
    """
    read_ids = {start_id for start_id, _ in app.edges}
    topic_names = [node.name for node in app.nodes if node.kind == "topic" and node.id in read_ids]
    asked_topics = {"LAKEHOUSE_KAFKA_TOPICS": ",".join(topic_names)} if topic_names else {}
    (lake_status,) = await run_command(python, app, "status", [], seconds, asked_topics)
    lag_by_topic = {topic["name"]: topic["lag"] for topic in lake_status["topics"]}
    return {
        "topics": {name: lag_by_topic.get(name) for name in topic_names},
        "running": lake_status["kafka"]["running"],
    }


async def newest_records(
    python: Path, app: Application, topic: str, seconds: float = RECORDS_SECONDS
) -> list[dict[str, Any]]:
    """Return the newest records of one of its topics in Kafka, the newest first: `lakehouse kafka consume --json`.

    Keys and values are text, with the digits that their numbers have; reason: why bytes have no text in the format.
    Raises as `explain` does.
    """
    topic_name = app.topic(topic)
    options = ["--app", app.app, f"--from=-{RECORDS_SHOWN}", f"--limit={RECORDS_READ_MAX}"]
    json_lines = await _run_for_lines(python, app, "kafka consume", options, seconds, (topic_name,))
    records = [dict(parse_object(line) or ()) for line in json_lines]
    records.sort(key=lambda record: (record["timestamp"], int(record["offset"])), reverse=True)
    return [_published_record_cells(record) for record in records[:RECORDS_SHOWN]]


async def run_command(
    python: Path,
    app: Application,
    command: str,
    arguments: Sequence[str],
    seconds: float,
    variables: Mapping[str, str] = NO_VARIABLES,
) -> list[dict[str, Any]]:
    """Run a command, such as "past explain", with --json and the application's settings; return its output.

    variables: of its environment, before those that the settings have.
    """
    output_lines = await _run_for_lines(python, app, command, arguments, seconds, variables=variables)
    try:
        json_lines = [json.loads(line) for line in output_lines]
    except ValueError as error:
        raise LakehouseError(f"`lakehouse {command}` printed no JSON: {cut_text(output_lines[0])!r}") from error
    if not json_lines:
        raise LakehouseError(f"`lakehouse {command}` printed nothing; expected JSON.")
    return json_lines


async def _run_for_lines(
    python: Path,
    app: Application,
    command: str,
    options: Sequence[str],
    seconds: float,
    names: Sequence[str] = (),
    variables: Mapping[str, str] = NO_VARIABLES,
) -> list[str]:
    """Run a command with --json and the application's settings; return its lines. names: they may begin with "-"."""
    if not python.is_file():
        raise ConfigError(
            f"no Python at {python}: run `make setup` in the project, or set LAKEHOUSE_PYTHON to the Python that has "
            "the project's packages."
        )
    # -P: a file in the application's folder never replaces a module of Python's own, or of the project.
    argv = [str(python), "-P", "-m", "lakehouse.cli.main", *command.split(), *options, "--lake", app.lake, "--json"]
    work_folder = Path(app.app).parent
    if app.config is not None:
        argv += ["--config", app.config]
        work_folder = Path(app.config).parent
    argv += ["--", *names] if names else []
    exit_code, stdout_text, stderr_text = await _run_once(
        command, argv, work_folder, {**command_environment(python), **variables}, seconds
    )
    if exit_code != 0:
        raise _command_error(exit_code, stderr_text, command)
    return [line for line in stdout_text.split("\n") if line]  # at \n alone: a JSON text may have U+2028


async def _run_once(
    command: str, argv: list[str], folder: Path, environ: dict[str, str], seconds: float
) -> tuple[int, str, str]:
    """Run the command, and return its exit code and its output; it ends with this call, however that ends."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=folder,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            stdout_text, stderr_text = await asyncio.gather(_read_output(process.stdout), _read_output(process.stderr))
            return await process.wait(), stdout_text, stderr_text
    except TimeoutError as error:
        raise TimedOut(
            f"`lakehouse {command}` did not finish within {seconds:.0f} s and was ended. Run it in a terminal, "
            "where it has no time limit."
        ) from error
    finally:
        await _end_process_group(process)


def command_environment(python: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the part of an environment that the command may see, with the project's Python first on the PATH."""
    passed_variables = variables_passed_on(environ) | {
        name: value
        for name, value in environ.items()
        if name.startswith("LAKEHOUSE_") and name not in ("LAKEHOUSE_PYTHON", "LAKEHOUSE_ROOT")
    }
    return {**passed_variables, "PATH": os.pathsep.join([str(python.parent), passed_variables.get("PATH", os.defpath)])}


async def _read_output(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    output_parts, output_size = [], 0
    while output_part := await stream.read(65_536):
        output_size += len(output_part)
        if output_size <= OUTPUT_MAX:  # read and drop the rest: the command must not wait for a reader
            output_parts.append(output_part)
    if output_size > OUTPUT_MAX:
        raise LakehouseError(f"the command printed {output_size:,} bytes; expected at most {OUTPUT_MAX:,}.")
    return b"".join(output_parts).decode("utf-8", "replace")


async def _end_process_group(process: asyncio.subprocess.Process) -> None:
    """End the command's process group, so that no part of it runs on when nobody waits any more."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal_number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 3)
            if signal_number == signal.SIGTERM:
                continue
    await process.wait()


def _command_error(exit_code: int, stderr_text: str, command: str) -> LakehouseError:
    text_lines = [line for line in stderr_text.splitlines() if line.strip()]
    error_text = cut_text("\n".join(text_lines[-20:]).removeprefix("error: ")) or f"exit code {exit_code}"
    if exit_code == BAD_INPUT:
        return NotFound(error_text) if "no record in bronze reaches it" in error_text else ConfigError(error_text)
    return LakehouseError(f"`lakehouse {command}` ended with exit code {exit_code}: {error_text}")


def _explained_row_cells(explained_row: dict[str, Any]) -> dict[str, Any]:
    """Return a row from the command's output, with its values in the page's form."""
    step_cells = [
        {
            step_field: step.get(step_field)
            for step_field in ("topic", "partition", "offset", "event_time_ms", "tick", "did", "reason")
        }
        | {"key": json_cell(step["key"]), "value": _record_cells(step["value"]), "row": cells_of_row(step["row"])}
        for step in explained_row["steps"]
    ]
    return {
        **explained_row,
        "key": cells_of_row(explained_row["key"]),
        "found": cells_of_row(explained_row["found"]),
        "steps": step_cells,
    }


def _published_record_cells(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of a topic in the page's form."""
    cells: dict[str, Any] = {name: int(record[name]) for name in ("partition", "offset")}
    cells["timestamp"] = str(record["timestamp"])
    for name in ("key", "value"):
        part = record.get(name, record.get(f"{name}_base64"))
        is_text = isinstance(part, str) and not isinstance(part, JsonNumber)
        cells[name] = None if part is None else cut_text(part if is_text else write_parsed(part))
        cells[f"{name}_reason"] = record.get(f"{name}_reason")
    return cells


def _record_cells(value: Any) -> Any:
    """Return a record's value, by its columns if it has any: in a text of the whole a decimal would be in quotes."""
    return cells_of_row(value) if isinstance(value, dict) else json_cell(value)
