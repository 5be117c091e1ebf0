"""The `lakehouse` command for the page: work that needs the application's code, or Kafka, runs in its own process.

In the project's Python, from an argument list, with a time limit; its whole process group ends with it.
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
from lakehouse.page.applications import Application
from lakehouse.page.cells import cell, checked_key, cut

EXPLAIN_SECONDS = 60.0
STATUS_SECONDS = 10.0
OUTPUT_MAX = 8 * 1024 * 1024
STEPS_MAX = 200
BAD_INPUT = 2
# The variables of the command, a JVM and a Hadoop file system: it must not see Airflow's own.
PASSED_ON = (
    "HADOOP_CONF_DIR", "HOME", "JAVA_HOME", "LANG", "LC_ALL", "PATH", "SPARK_CONF_DIR", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "TMPDIR",
)  # fmt: skip


async def explain(
    python: Path, app: Application, table: str, key: str, version: int | None, seconds: float = EXPLAIN_SECONDS
) -> list[dict[str, Any]]:
    """Return the rows of a key, each with the records behind it, step by step: `lakehouse past explain --json`.

    version: None is now. Raises NotFound, ConfigError, TimedOut, and LakehouseError for a command that failed.
    """
    if checked_key(key) is None:
        raise ConfigError("key: found none; expected a key's text.")
    arguments = [app.table(table).name, f"--key={key}", "--app", app.app, "--limit", str(STEPS_MAX)]
    if version is not None:
        arguments += ["--version", str(version)]
    return [_shown(row) for row in await run(python, app, "past explain", arguments, seconds)]


async def lag(python: Path, app: Application, seconds: float = STATUS_SECONDS) -> dict[str, Any]:
    """Return how many records wait in Kafka, by topic; None if Kafka can't say. Raises as `explain` does."""
    (said,) = await run(python, app, "status", [], seconds)
    names = {node.name for node in app.nodes if node.kind == "topic"}
    return {
        "topics": {topic["name"]: topic["lag"] for topic in said["topics"] if topic["name"] in names},
        "running": said["kafka"]["running"],
    }


async def run(
    python: Path, app: Application, command: str, arguments: Sequence[str], seconds: float
) -> list[dict[str, Any]]:
    """Run a command, such as "past explain", with --json and the application's settings; return its output."""
    if not python.is_file():
        raise ConfigError(
            f"no Python at {python}: run `make setup` in the project, or set LAKEHOUSE_PYTHON to the Python that has "
            "the project's packages."
        )
    # -P: a file in the application's folder never replaces a module of Python's own, or of the project.
    argv = [str(python), "-P", "-m", "lakehouse.cli.main", *command.split(), *arguments, "--lake", app.lake, "--json"]
    folder = Path(app.app).parent
    if app.config is not None:
        argv += ["--config", app.config]
        folder = Path(app.config).parent
    code, out, err = await _once(command, argv, folder, environment(python), seconds)
    if code != 0:
        raise _failure(code, err, command)
    try:
        found = [json.loads(line) for line in out.splitlines()]
    except ValueError as error:
        raise LakehouseError(f"`lakehouse {command}` printed no JSON: {cut(out)!r}") from error
    if not found:
        raise LakehouseError(f"`lakehouse {command}` printed nothing; expected JSON. It said: {cut(err)!r}")
    return found


async def _once(
    command: str, argv: list[str], folder: Path, environ: dict[str, str], seconds: float
) -> tuple[int, str, str]:
    """Start the command, and return its exit code and its output; it has ended afterwards, however this call ends."""
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
            out, err = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            return await process.wait(), out, err
    except TimeoutError as error:
        raise TimedOut(
            f"`lakehouse {command}` did not finish within {seconds:.0f} s and was ended. Run it in a terminal, "
            "where it has no time limit."
        ) from error
    finally:
        await _end(process)


def environment(python: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the part of our environment that the command may see, with the project's Python first on the PATH."""
    passed = {
        name: value
        for name, value in environ.items()
        if name in PASSED_ON or (name.startswith("LAKEHOUSE_") and name not in ("LAKEHOUSE_PYTHON", "LAKEHOUSE_ROOT"))
    }
    return {**passed, "PATH": os.pathsep.join([str(python.parent), passed.get("PATH", os.defpath)])}


async def _read(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    parts, size = [], 0
    while part := await stream.read(65_536):
        size += len(part)
        if size <= OUTPUT_MAX:  # the rest is read and dropped: the command must not wait for a reader
            parts.append(part)
    if size > OUTPUT_MAX:
        raise LakehouseError(f"the command printed {size:,} bytes; expected at most {OUTPUT_MAX:,}.")
    return b"".join(parts).decode("utf-8", "replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the command's process group: nothing of it runs on when nobody waits for it any more."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 3)
            if number == signal.SIGTERM:
                continue
    await process.wait()


def _failure(code: int, err: str, command: str) -> LakehouseError:
    lines = [line for line in err.splitlines() if line.strip()]
    said = cut("\n".join(lines[-20:]).removeprefix("error: ")) or f"exit code {code}"
    if code == BAD_INPUT:
        return NotFound(said) if "no record in bronze reaches it" in said else ConfigError(said)
    return LakehouseError(f"`lakehouse {command}` ended with exit code {code}: {said}")


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the command printed it, its values as the page shows them."""
    steps = [{n: step.get(n) for n in ("topic", "partition", "offset", "event_time_ms", "tick", "did", "reason")}
             | {"key": cell(step["key"]), "value": _record(step["value"]), "row": _values(step["row"])}
             for step in row["steps"]]  # fmt: skip
    return {**row, "key": _values(row["key"]), "found": _values(row["found"]), "steps": steps}


def _record(value: Any) -> Any:
    """The value of a record: by its columns if it has any. As text, a decimal would stand in quotes."""
    return _values(value) if isinstance(value, dict) else cell(value)


def _values(row: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {name: cell(value) for name, value in row.items()}
