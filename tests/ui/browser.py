"""A real browser: Debian's chromium, driven through chromedriver by the W3C's WebDriver protocol.

The protocol is JSON over HTTP, and these tests need a dozen of its commands: the standard library is enough, and there
is no further package to lock.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's own name of an element's id
KEYS = {"Enter": "\ue007", "ArrowLeft": "\ue012", "ArrowRight": "\ue014", "Home": "\ue011", "End": "\ue010"}
PATIENCE_S = 60.0
PICTURES = Path(__file__).parents[2] / "docs"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def needed() -> str | None:
    """Return what is missing on this machine; None if nothing is."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if not missing:
        return None
    return f"found no {' and no '.join(missing)}; expected Debian's chromium. `make test-ui` as root installs it."


MOVING = """
    return document.getAnimations().some(
        one => one.playState === "running" && isFinite(one.effect.getTiming().iterations))
"""


class Browser:
    """One browser with one window. It waits for what is asked for, as a person would."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900, flags: tuple[str, ...] = ()) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._server = f"http://127.0.0.1:{free.getsockname()[1]}"
        self._process = subprocess.Popen(
            ["chromedriver", f"--port={self._server.rpartition(':')[2]}"],
            stdout=(folder / "chromedriver.log").open("w"),
            stderr=subprocess.STDOUT,
        )
        options = {"args": [*FLAGS, *flags, f"--window-size={width},{height}", f"--user-data-dir={folder / 'profile'}"]}
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            self.until(lambda: self._send("GET", "/status")["ready"], "chromedriver is ready")
            asked = {"capabilities": {"alwaysMatch": {"browserName": "chrome", **capabilities}}}
            self._session = f"/session/{self._send('POST', '/session', asked)['sessionId']}"
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._send("DELETE", self._session)
        finally:
            self._end()

    def open(self, url: str) -> None:
        self._post("/url", {"url": url})

    @property
    def url(self) -> str:
        return str(self._send("GET", f"{self._session}/url"))

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript in the page and return what it returns."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, css: str, text: str = "") -> str:
        """Return the first element that fits and whose text contains `text`, as soon as there is one."""
        result: list[str] = []

        def look() -> bool:
            elements = self._post("/elements", {"using": "css selector", "value": css})
            result[:] = [item[ELEMENT] for item in elements if text in self.text(item[ELEMENT])]
            return bool(result)

        self.until(look, f"{css!r} with {text!r}")
        return result[0]

    def has(self, css: str) -> bool:
        return bool(self._post("/elements", {"using": "css selector", "value": css}))

    def text(self, element: str) -> str:
        script = "return arguments[0].isConnected ? arguments[0].innerText ?? arguments[0].textContent : ''"
        return str(self.run(script, {ELEMENT: element}))

    def click(self, css: str, text: str = "") -> None:
        self._post(f"/element/{self.find(css, text)}/click", {})

    def type(self, css: str, text: str) -> None:
        """Replace the text of a field."""
        element = self.find(css)
        self._post(f"/element/{element}/clear", {})
        self._post(f"/element/{element}/value", {"text": text})

    def press(self, css: str, key: str) -> None:
        self._post(f"/element/{self.find(css)}/value", {"text": KEYS[key]})

    def frame(self, css: str | None) -> None:
        """Go into a frame, or back out of all of them."""
        self._post("/frame", {"id": None if css is None else {ELEMENT: self.find(css)}})

    def picture(self, name: str) -> None:
        """Save what the window shows as docs/NAME.png when UPDATE_PICTURES is set, else nowhere."""
        if os.environ.get("UPDATE_PICTURES"):
            self.until(lambda: not self.run(MOVING), "what opens is open")
            shot = base64.b64decode(self._send("GET", f"{self._session}/screenshot"))
            (PICTURES / f"{name}.png").write_bytes(shot)

    def size(self, width: int, height: int) -> None:
        self._post("/window/rect", {"width": width, "height": height})

    def complaints(self) -> list[str]:
        """The page's entries in the browser's log since the last call: errors and refused scripts."""
        return [item["message"] for item in self._post("/se/log", {"type": "browser"}) if item["level"] == "SEVERE"]

    def until(self, condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
        """Wait until a condition holds; AssertionError, with what the page shows, if it never does."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                if condition():
                    return
            except (OSError, WentAway):
                pass  # it does not listen yet, or the page has just replaced the element
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {patience_s:.0f} s for {what}; the page: {self._shown()}")
            time.sleep(0.1)

    def _shown(self) -> str:
        try:
            return str(self.run("return document.body.innerText"))[:2000]
        except (AttributeError, OSError, WentAway):
            return "not there"

    def _post(self, path: str, said: dict[str, Any]) -> Any:
        return self._send("POST", self._session + path, said)

    def _send(self, method: str, path: str, said: dict[str, Any] | None = None) -> Any:
        body = None if said is None else json.dumps(said).encode()
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(self._server + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=90) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            why = json.load(error)["value"]
            raise WentAway(f"{method} {path}: {why['error']}: {why['message'].splitlines()[0]}") from error

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class WentAway(Exception):
    """The browser could not do what it was asked: the element is gone, or something covers it."""
