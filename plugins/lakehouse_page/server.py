"""The page's server: its files, and the JSON that it asks for. It only reads, and changes nothing.

Reading a lake is work for threads: a few of the page's own, so that it never takes all of the api-server's.
"""

import asyncio
import importlib
import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import anyio
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from lakehouse.errors import ConfigError, LakehouseError, NotFound, PlanError, TimedOut
from lakehouse.page import applications, command
from lakehouse.page.cells import KEY_MAX, ROWS_MAX
from lakehouse_page import access, kafka, settings
from lakehouse_page.access import VisibleApplication

READERS = 4
ANSWER_SECONDS = 30.0  # above the limit of lakehouse.page for a read, which normally ends by itself
COMMANDS = 2
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
FILES = {str(path.relative_to(settings.STATIC)): path for path in settings.STATIC.rglob("*") if path.is_file()}
STATUS = ((NotFound, 404), (TimedOut, 504), (ConfigError, 422), (PlanError, 422), (LakehouseError, 500))
SIGNED_OUT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Streams &amp; Tables</title>
<p>You are signed out of Airflow. <a href="{login}">Sign in</a>, then open this page again.</p></html>"""

Limit = Annotated[int, Query(ge=1, le=ROWS_MAX)]
Version = Annotated[int | None, Query(ge=0, lt=2**62)]

log = logging.getLogger(__name__)
readers = ThreadPoolExecutor(READERS, thread_name_prefix="lakehouse-page")  # who is not served waits no longer either
commands = anyio.CapacityLimiter(COMMANDS)
# No schema and no documentation: they would be the only pages that a signed-out user can read.
app = FastAPI(dependencies=access.SIGNED_IN, docs_url=None, redoc_url=None, openapi_url=None)


class RowToExplain(BaseModel):
    """The row to explain: its key's text, at a version or now."""

    key: str = Field(min_length=1, max_length=KEY_MAX)
    version: int | None = Field(default=None, ge=0, lt=2**62)


class Answer(JSONResponse):
    """JSON in ASCII: a record's text may hold half a character, which UTF-8 has no bytes for."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


async def answer_from(name: str, *arguments: Any) -> Answer:
    """Answer with the result of a function of `lakehouse.page`, called in one of the page's own threads.

    The thread imports it: the libraries that read a lake take 90 MB, in vain if nobody opens the page.
    """

    def call_function() -> Any:
        module, _, function = name.partition(".")
        return getattr(importlib.import_module(f"lakehouse.page.{module}"), function)(*arguments)

    return Answer(await _in_thread(call_function))


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Return a function's result, or answer that it takes too long: its thread then ends when it can."""
    running = asyncio.get_running_loop().run_in_executor(readers, function)
    try:
        return await asyncio.wait_for(running, ANSWER_SECONDS)
    except TimeoutError:
        raise TimedOut(
            f"there was no answer within {ANSWER_SECONDS:g} s; the command line has no such limit."
        ) from None


@app.get("/")
def index_page() -> FileResponse:
    return FileResponse(FILES["index.html"])


@app.get("/static/{name:path}")
def static_file(name: str) -> FileResponse:
    if name not in FILES:
        raise NotFound(f"there is no file {name[:100]!r}.")
    return FileResponse(FILES[name])


@app.get("/api/applications")
async def all_applications(request: Request, user: GetUserDep) -> Answer:
    def list_applications() -> dict[str, Any]:
        readable_apps, problems = applications.read_applications(settings.applications_folder())
        allowed_apps = [item for item in readable_apps if access.may_read(item.name, request, user)]
        return {
            "applications": [
                {"name": item.name, "tables": [table.name for table in item.tables]} for item in allowed_apps
            ],
            # The texts name files, lakes and parts of a manifest, so only those see them who may see the application.
            "problems": [text for name, text in problems.items() if access.may_read(name, request, user)],
        }

    return Answer(await _in_thread(list_applications))


@app.get("/api/applications/{app}")
async def one_application(app: VisibleApplication) -> Answer:
    return await answer_from("overview.read_overview", app)


@app.get("/api/applications/{app}/lag")
async def lag(app: VisibleApplication) -> Answer:
    return Answer(await kafka.recent_lag(app))


@app.get("/api/applications/{app}/drills")
async def all_drills(app: VisibleApplication) -> Answer:
    return await answer_from("drills.list_drills", app, None)


@app.get("/api/applications/{app}/tables/{table}/versions")
async def all_versions(app: VisibleApplication, table: str) -> Answer:
    return await answer_from("versions.list_versions", app, app.table(table))


@app.get("/api/applications/{app}/tables/{table}/rows")
async def rows(app: VisibleApplication, table: str, at: str = "now", prefix: str = "", limit: Limit = 50) -> Answer:
    return await answer_from("past.rows_at_moment", app, app.table(table), at, prefix, limit)


@app.get("/api/applications/{app}/tables/{table}/difference")
async def difference(
    app: VisibleApplication, table: str, a: str, b: str = "now", key: str = "", limit: Limit = 50
) -> Answer:
    return await answer_from("past.compare_moments", app, app.table(table), a, b, key, limit)


@app.get("/api/applications/{app}/tables/{table}/history")
async def history(app: VisibleApplication, table: str, key: str, before: Version = None, limit: Limit = 50) -> Answer:
    return await answer_from("row_history.row_history", app, app.table(table), key, before, limit)


@app.post("/api/applications/{app}/tables/{table}/explain")  # it starts a process: no other site's link may
async def explain(app: VisibleApplication, table: str, row: RowToExplain) -> Answer:
    return Answer(await _run_command(command.explain, settings.project_python(), app, table, row.key, row.version))


@app.post("/api/applications/{app}/topics/{topic}/records")  # it starts a process, too
async def newest_records(app: VisibleApplication, topic: str) -> Answer:
    return Answer(await _run_command(command.newest_records, settings.project_python(), app, topic))


async def _run_command(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        commands.acquire_nowait()
    except anyio.WouldBlock:
        raise HTTPException(
            429, f"{COMMANDS} commands of this page are already running; try again in a moment."
        ) from None
    try:
        return await function(*arguments)
    finally:
        commands.release()


@app.exception_handler(LakehouseError)
async def answer_error(request: Request, error: LakehouseError) -> Answer:
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    if status == 500:
        log.error("%s: %s", request.url.path, error)
    return Answer({"error": str(error)}, status)


@app.exception_handler(RequestValidationError)
async def answer_invalid_request(request: Request, error: RequestValidationError) -> Answer:
    faults = "; ".join(f"{'.'.join(map(str, fault['loc'][1:]))}: {fault['msg']}" for fault in error.errors())
    return Answer({"error": faults}, 422)


@app.exception_handler(HTTPException)
async def answer_http_error(request: Request, error: HTTPException) -> Response:
    if error.status_code == 401 and request.url.path.rstrip("/") == request.scope["root_path"].rstrip("/"):
        return HTMLResponse(SIGNED_OUT.format(login=get_auth_manager().get_url_login()), 401)
    return Answer({"error": str(error.detail)}, error.status_code)


@app.middleware("http")
async def add_headers(request: Request, call_next: Callable[..., Any]) -> Response:
    response: Response = await call_next(request)
    response.headers.update(HEADERS)
    return response
