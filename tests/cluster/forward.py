"""Forwards connections: python forward.py LISTEN_HOST LISTEN_PORT TO_HOST TO_PORT. Says the port that it listens on."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading


def copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def serve(listen: tuple[str, int], target: tuple[str, int]) -> None:
    with socket.create_server(listen) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            near, _ = server.accept()
            far = socket.create_connection(target)
            for ends in ((near, far), (far, near)):
                threading.Thread(target=copy, args=ends, daemon=True).start()


if __name__ == "__main__":
    serve((sys.argv[1], int(sys.argv[2])), (sys.argv[3], int(sys.argv[4])))
