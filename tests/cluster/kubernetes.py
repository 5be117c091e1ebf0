"""A stand-in for Kubernetes' API server: it keeps objects, and starts an executor's process for each pod of Spark's.

It knows what Spark's driver asks for and no more; no node, no image, no network of pods. It listens on 127.0.0.1.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

PLACE = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?")
KINDS = {
    "pods": "Pod", "configmaps": "ConfigMap", "services": "Service", "persistentvolumeclaims": "PersistentVolumeClaim"
}  # fmt: skip
IP = "127.0.0.1"


class StandIn:
    """The objects, the processes of pods, and what was asked: pairs of a verb and a resource, as a Role has them."""

    def __init__(self, folder: Path, entrypoint: list[str], environ: Mapping[str, str]) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.asked: set[tuple[str, str]] = set()
        self.token = uuid.uuid4().hex
        self.bodies: list[str] = []
        self.pods: list[dict[str, Any]] = []
        self._folder, self._entrypoint, self._environ = folder, entrypoint, environ
        self._lock = threading.RLock()
        self._server = ThreadingHTTPServer((IP, 0), type("OfThis", (_Handler,), {"api": self}))
        self.url = f"http://{IP}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for process in self.processes.values():
            process.kill()
            process.wait(60)

    def create(self, resource: str, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            metadata = body["metadata"]
            server_metadata = {
                "uid": str(uuid.uuid4()),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "resourceVersion": "1",
            }
            body = {"apiVersion": "v1", "kind": KINDS[resource], **body, "metadata": {**metadata, **server_metadata}}
            self.objects[resource, metadata["name"]] = body
            if resource == "pods":
                body["status"] = {"phase": "Running", "podIP": IP, "conditions": [{"type": "Ready", "status": "True"}]}
                if body["metadata"].get("labels", {}).get("spark-role") == "executor":
                    self.pods.append(body)
                    self._start(body)
            return body

    def find(self, resource: str, selector: str) -> list[dict[str, Any]]:
        with self._lock:
            items = [item for (kind, _), item in self.objects.items() if kind == resource]
            for item in items:
                if (process := self.processes.get(item["metadata"]["name"])) is not None and process.poll() is not None:
                    code = process.returncode
                    state = {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}
                    item["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
                    item["status"]["containerStatuses"] = [
                        {"name": item["spec"]["containers"][0]["name"], "state": state}
                    ]
            return [item for item in items if _fits(item["metadata"].get("labels", {}), selector)]

    def delete(self, resource: str, name: str) -> dict[str, Any]:
        with self._lock:
            if (process := self.processes.get(name)) is not None:
                process.terminate()
            return self.objects.pop((resource, name))

    def _start(self, pod: dict[str, Any]) -> None:
        """Start the one container of a pod: the image's entrypoint with its arguments and variables."""
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]
        folder = self._folder / name
        folder.mkdir()
        environ = dict(self._environ)
        for variable in container["env"]:
            source = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            value = {"status.podIP": IP, "metadata.name": name}[source] if source else variable.get("value", "")
            if variable["name"] == "SPARK_LOCAL_DIRS":  # an empty folder of the pod's
                value = str(folder / "scratch")
            environ[variable["name"]] = value
        with (folder / "log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [*self._entrypoint, *container["args"]], cwd=folder, env=environ, stdout=log, stderr=log
            )

    def log(self) -> str:
        return "\n".join(file.read_text("utf-8", "replace") for file in sorted(self._folder.glob("*/log")))


def _fits(labels: Mapping[str, str], selector: str) -> bool:
    """Say whether labels fit a selector of the forms a=b, a!=b, a, !a, a in (b,c) and a notin (b,c)."""
    for term in re.findall(r"[^,(]+(?:\([^)]*\))?", selector):
        if match := re.fullmatch(r"(\S+) (in|notin) \((.*)\)", term.strip()):
            fits = (labels.get(match[1]) in match[3].split(",")) == (match[2] == "in")
        elif match := re.fullmatch(r"([^!=]+)(!?)==?(.*)", term.strip()):
            fits = (labels.get(match[1]) == match[3]) != bool(match[2])
        else:
            fits = (term.strip().lstrip("!") in labels) != term.strip().startswith("!")
        if not fits:
            return False
    return True


class _Handler(BaseHTTPRequestHandler):
    api: StandIn
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if self.headers.get("Authorization") != f"Bearer {self.api.token}":
            self._send(401, {"kind": "Status", "status": "Failure", "code": 401, "reason": "Unauthorized"})
            return
        match = PLACE.fullmatch(url.path)
        if match is None or match["resource"] not in KINDS:
            self._send(404, {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"})
            return
        resource, name = match["resource"], match["name"]
        verb = {
            "GET": "get" if name else "watch" if query.get("watch") == "true" else "list",
            "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete" if name else "deletecollection",
        }[self.command]  # fmt: skip
        field = re.fullmatch(r"metadata\.name=(.*)", query.get("fieldSelector", ""))
        self.api.asked.add((verb, resource))
        self.api.bodies.append(body)
        if verb == "create":
            self._send(201, self.api.create(resource, json.loads(body)))
        elif verb in ("list", "deletecollection"):
            items = self.api.find(resource, query.get("labelSelector", ""))
            items = [item for item in items if field is None or item["metadata"]["name"] == field[1]]
            if verb == "deletecollection":
                for item in items:
                    self.api.delete(resource, item["metadata"]["name"])
            metadata = {"resourceVersion": "1"}
            self._send(
                200, {"apiVersion": "v1", "kind": f"{KINDS[resource]}List", "metadata": metadata, "items": items}
            )
        elif verb in ("get", "delete") and (resource, name) in self.api.objects:
            act = self.api.delete if verb == "delete" else (lambda kind, name: self.api.objects[kind, name])
            self._send(200, act(resource, name))
        else:
            self._send(404, {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"})

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

    def _send(self, code: int, content: dict[str, Any]) -> None:
        payload = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write nothing: pytest shows what tests print."""
