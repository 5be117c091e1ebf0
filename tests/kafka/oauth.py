"""A server that gives tokens to clients by their secret, as OIDC has it, and a broker that takes these tokens."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from lakehouse.kafka.embedded import server
from tests.kafka.secured import await_broker, write_users_listener

CLIENT, SECRET = "lake", "canary-of-the-client"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


class TokenServer:
    """POST /token gives a signed token to the client; GET /keys has the key to check it with."""

    def __init__(self, folder: Path) -> None:
        self.key = folder / "token.key"
        subprocess.run(["openssl", "genrsa", "-out", str(self.key), "2048"], check=True, capture_output=True)
        modulus = subprocess.run(
            ["openssl", "rsa", "-in", str(self.key), "-noout", "-modulus"], check=True, capture_output=True, text=True
        ).stdout
        self.keys = {
            "keys": [
                {
                    "kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "e": "AQAB",
                    "n": _encode(bytes.fromhex(modulus.strip().partition("=")[2])),
                }
            ]
        }  # fmt: skip
        self.granted = 0
        tokens = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(200, tokens.keys)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                login = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
                if self.headers.get("Authorization") == f"Basic {login}":
                    tokens.granted += 1
                    self.answer(200, {"access_token": tokens.sign(), "token_type": "Bearer", "expires_in": 600})
                else:
                    self.answer(401, {"error": "invalid_client"})

            def answer(self, status: int, content: object) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(content).encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def sign(self) -> str:
        now = int(time.time())
        claims = {"sub": CLIENT, "aud": "kafka", "iat": now, "exp": now + 600, "iss": self.url}
        header = {"alg": "RS256", "kid": "1", "typ": "JWT"}
        text = f"{_encode(json.dumps(header).encode())}.{_encode(json.dumps(claims).encode())}"
        command = ["openssl", "dgst", "-sha256", "-sign", str(self.key)]
        signature = subprocess.run(command, input=text.encode(), check=True, capture_output=True).stdout
        return f"{text}.{_encode(signature)}"

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class OauthBroker:
    """A broker whose users come with tokens; `inner` takes anybody."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tokens = folder, TokenServer(folder)
        start = "listener.name.users.oauthbearer"
        self.inner, self.servers = write_users_listener(
            folder,
            "listener.name.users.sasl.enabled.mechanisms=OAUTHBEARER",
            f"{start}.sasl.jaas.config={MODULE}",
            f"{start}.sasl.server.callback.handler.class={HANDLER}",
            f"sasl.oauthbearer.jwks.endpoint.url={self.tokens.url}/keys",
            "sasl.oauthbearer.expected.audience=kafka",
        )
        java, *arguments = server.broker_command(folder)
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.tokens.url}/keys"
        self.process = subprocess.Popen([java, allowed, *arguments], cwd=folder, stdin=subprocess.DEVNULL)

    def wait(self) -> None:
        await_broker(self.inner, self.process, self.folder)

    def options(self, secret: str = SECRET) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.token.endpoint.url": f"{self.tokens.url}/token",
        }

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.tokens.end()
