"""A server that answers as a test says, on http or https, and remembers what it was sent."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, bytes]
Answerer = Callable[[str, Message], Answer]


@dataclass
class Answering:
    """A running server. requests: the path and the headers of each."""

    url: str
    requests: list[tuple[str, Message]] = field(default_factory=list)


@contextmanager
def answering(answer: Answerer, tls: ssl.SSLContext | None = None) -> Iterator[Answering]:
    """Run a server whose answers to all requests are those of a function."""
    state = Answering("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            state.requests.append((self.path, self.headers))
            status, body = answer(self.path, self.headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *arguments: object) -> None:
            """A client that ends a handshake is what some tests want."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        # Not on accept: a handshake that fails must not end the thread that accepts.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    state.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
