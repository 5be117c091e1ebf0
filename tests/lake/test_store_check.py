"""A store of objects is asked whether it keeps conditional PUTs, and what JSON has within a line stays in it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lakehouse.errors import ConfigError
from lakehouse.lake import store
from lakehouse.lake.control.store_check import check_store
from lakehouse.lake.erasure.scrubbed_log import _scrub_commit

LAKE = "s3a://bucket/lake"


@pytest.fixture(autouse=True)
def _no_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_options_by_root", {})
    monkeypatch.setattr(store, "_single_writer_roots", set())


@contextmanager
def store_server(*, conditional: bool) -> Iterator[tuple[dict[str, str], dict[str, bytes]]]:
    """A server of single objects, which keeps the condition of a PUT or overwrites; its options and its objects."""
    objects: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            self._answer(200 if path in objects else 404, objects.get(path, b""))

        do_HEAD = do_GET

        def do_PUT(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if conditional and self.headers["If-None-Match"] == "*" and self.path in objects:
                self._answer(412, b"")
            else:
                objects[self.path] = content
                self._answer(200, b"")

        def do_POST(self) -> None:
            """Delete the named objects: the client asks so even for one."""
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            keys = re.findall("<Key>(.*?)</Key>", body)
            for key in keys:
                objects.pop(f"/bucket/{key}", None)
            deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("ETag", f'"{md5(content).hexdigest()}"')
            self.send_header("Last-Modified", "Mon, 30 Nov 2026 12:00:00 GMT")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        options = {
            "endpoint": f"http://127.0.0.1:{server.server_port}",
            "path_style": "true",
            "access_key": "a",
            "secret_key": "b",
        }
        yield options, objects
    finally:
        server.shutdown()
        server.server_close()


def test_a_store_that_overwrites_is_refused_and_another_is_asked_once() -> None:
    with store_server(conditional=False) as (options, objects):
        store.use_store(LAKE, options)
        for _ in range(2):
            with pytest.raises(ConfigError, match="overwrites a file in spite of If-None-Match"):
                check_store(LAKE, options, single_writer=False)
        assert objects == {}
        check_store(LAKE, options, single_writer=True)
    with store_server(conditional=True) as (options, objects):
        store.use_store(LAKE, options)
        check_store(LAKE, options, single_writer=False)
        marks = dict(objects)
        assert [path.startswith("/bucket/lake/control/conditional-put-") for path in marks] == [True]
        check_store(LAKE, options, single_writer=False)
        assert objects == marks
    # A copy of the lake on another server is asked again: its mark is not that server's.
    with store_server(conditional=False) as (options, objects):
        store.use_store(LAKE, options)
        objects.update(marks)
        with pytest.raises(ConfigError, match="overwrites"):
            check_store(LAKE, options, single_writer=False)


def test_no_character_of_a_value_ends_a_line_of_a_log() -> None:
    odd_name = "Ann\u2028Smith\u0085\u2029\x1c"
    stats = json.dumps({"minValues": {"name": odd_name}}, ensure_ascii=False)
    actions = [{"commitInfo": {}}, {"add": {"path": "a.parquet", "stats": stats}}]
    with store_server(conditional=True) as (options, objects):
        store.use_store(LAKE, options)
        path = f"{LAKE}/silver/people/_delta_log/00000000000000000001.json"
        key = "/bucket" + path.removeprefix("s3a://bucket")
        objects[key] = "".join(f"{json.dumps(action, ensure_ascii=False)}\n" for action in actions).encode()
        assert len(list(store.read_lines(path))) == 2
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "write_file", lambda name, text: objects.update({key: text.encode()}))
            _scrub_commit(path, [])
        assert "Ann" not in objects[key].decode()
