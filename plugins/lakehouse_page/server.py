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
from lakehouse_page.access import ApplicationOf

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


class Asked(BaseModel):
    """The row to explain: its key's text, at a version or now."""

    key: str = Field(min_length=1, max_length=KEY_MAX)
    version: int | None = Field(default=None, ge=0, lt=2**62)


class Answer(JSONResponse):
    """JSON in ASCII: a record's text may hold half a character, which UTF-8 has no bytes for."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


async def read(name: str, *arguments: Any) -> Answer:
    """Answer with what a function of `lakehouse.page` returns, run in one of the page's own threads.

    It is imported there: the libraries that read a lake take 90 MB, for nothing if nobody opens the page.
    """

    def answer() -> Any:
        module, _, function = name.partition(".")
        return getattr(importlib.import_module(f"lakehouse.page.{module}"), function)(*arguments)

    return Answer(await _in_thread(answer))


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
def page() -> FileResponse:
    return FileResponse(FILES["index.html"])


@app.get("/static/{name:path}")
def file(name: str) -> FileResponse:
    if name not in FILES:
        raise NotFound(f"there is no file {name[:100]!r}.")
    return FileResponse(FILES[name])


@app.get("/api/applications")
async def all_applications(request: Request, user: GetUserDep) -> Answer:
    def named() -> dict[str, Any]:
        found, problems = applications.read_applications(settings.applications_folder())
        seen = [one for one in found if access.allows(one.name, request, user)]
        return {
            "applications": [{"name": one.name, "tables": [table.name for table in one.tables]} for one in seen],
            # They name files, lakes, and what is in a manifest: for those who may see the application.
            "problems": [text for name, text in problems.items() if access.allows(name, request, user)],
        }

    return Answer(await _in_thread(named))


@app.get("/api/applications/{app}")
async def one_application(app: ApplicationOf) -> Answer:
    return await read("overview.overview", app)


@app.get("/api/applications/{app}/lag")
async def lag(app: ApplicationOf) -> Answer:
    return Answer(await kafka.lag(app))


@app.get("/api/applications/{app}/drills")
async def all_drills(app: ApplicationOf) -> Answer:
    return await read("drills.history", app, None)


@app.get("/api/applications/{app}/tables/{table}/versions")
async def all_versions(app: ApplicationOf, table: str) -> Answer:
    return await read("versions.versions", app, app.table(table))


@app.get("/api/applications/{app}/tables/{table}/rows")
async def rows(app: ApplicationOf, table: str, at: str = "now", prefix: str = "", limit: Limit = 50) -> Answer:
    return await read("past.rows", app, app.table(table), at, prefix, limit)


@app.get("/api/applications/{app}/tables/{table}/difference")
async def difference(
    app: ApplicationOf, table: str, a: str, b: str = "now", key: str = "", limit: Limit = 50
) -> Answer:
    return await read("past.compared", app, app.table(table), a, b, key, limit)


@app.get("/api/applications/{app}/tables/{table}/history")
async def history(app: ApplicationOf, table: str, key: str, before: Version = None, limit: Limit = 50) -> Answer:
    return await read("row_history.row_history", app, app.table(table), key, before, limit)


@app.post("/api/applications/{app}/tables/{table}/explain")  # it starts a process: no other site's link may
async def explain(app: ApplicationOf, table: str, asked: Asked) -> Answer:
    return Answer(await _command(command.explain, settings.python(), app, table, asked.key, asked.version))


@app.post("/api/applications/{app}/topics/{topic}/records")  # it starts a process, too
async def newest_records(app: ApplicationOf, topic: str) -> Answer:
    return Answer(await _command(command.newest_records, settings.python(), app, topic))


async def _command(function: Callable[..., Any], *arguments: Any) -> Any:
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
async def refused(request: Request, error: LakehouseError) -> Answer:
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    if status == 500:
        log.error("%s: %s", request.url.path, error)
    return Answer({"error": str(error)}, status)


@app.exception_handler(RequestValidationError)
async def invalid(request: Request, error: RequestValidationError) -> Answer:
    said = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors())
    return Answer({"error": said}, 422)


@app.exception_handler(HTTPException)
async def denied(request: Request, error: HTTPException) -> Response:
    if error.status_code == 401 and request.url.path.rstrip("/") == request.scope["root_path"].rstrip("/"):
        return HTMLResponse(SIGNED_OUT.format(login=get_auth_manager().get_url_login()), 401)
    return Answer({"error": str(error.detail)}, error.status_code)


@app.middleware("http")
async def headers(request: Request, call_next: Callable[..., Any]) -> Response:
    response: Response = await call_next(request)
    response.headers.update(HEADERS)
    return response
