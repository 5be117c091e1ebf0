"""Stands in for the command `airflow`: its database is there at once, its server is healthy, its other parts sleep.

HOME/hold    while this file is there, `airflow db migrate` goes on, and HOME/migrating says that it has begun
HOME/broken  the name of a part that can't start
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

HEALTHY = {
    "metadatabase": {"status": "healthy"},
    **{name: {"status": "healthy"} for name in ("scheduler", "triggerer", "dag_processor")},
}


class HealthReport(BaseHTTPRequestHandler):
    """Says that all parts are healthy, whatever is asked."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(HEALTHY).encode())


def run_part(home: Path, part_name: str) -> None:
    """Do what a part of Airflow does, as far as the service sees it."""
    broken_file = home / "broken"
    if broken_file.exists() and broken_file.read_text() == part_name:
        raise SystemExit("no room")
    if part_name == "db":
        (home / "migrating").touch()
        while (home / "hold").exists():
            time.sleep(0.05)
    elif part_name == "api-server":
        port = json.loads((home / "address.json").read_text())["port"]
        HTTPServer(("127.0.0.1", port), HealthReport).serve_forever()
    else:
        time.sleep(600)


if __name__ == "__main__":
    run_part(Path(os.environ["AIRFLOW_HOME"]), sys.argv[1])
