"""Translates errors of Confluent's client to those of lakehouse; no message has a secret in it.

An error that may pass becomes RegistryUnavailable. A login that is refused, or a certificate that does not fit, needs a
setting: ConfigError. The rest, such as an unknown id, is for the caller.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator

from lakehouse.errors import ConfigError, LakehouseError, RegistryUnavailable
from lakehouse.settings.sections import MASK, RegistrySection

TEXT_LENGTH = 500
# OpenSSL's number for a certificate that has expired; its owner can renew it while a run waits.
CERTIFICATE_HAS_EXPIRED = 10
# Alerts that a server sends in the handshake if it wants a certificate of the client, or another certificate.
CLIENT_CERTIFICATE_ALERTS = (
    "certificate required", "bad certificate", "unknown ca", "certificate unknown", "handshake failure",
    "unsupported certificate", "certificate expired", "certificate revoked", "access denied",
)  # fmt: skip


class Refusal(Exception):
    """An answer with an error of the registry's own. ``code``: such as 40403, which stands for an unknown id."""

    def __init__(self, status: int, code: int, text: str) -> None:
        self.status, self.code, self.text = status, code, text
        super().__init__(f"{text} (HTTP {status}, code {code})")


class Failures:
    """Translates the errors of one registry's client."""

    def __init__(self, settings: RegistrySection, url: str) -> None:
        self._settings = settings
        self._url = url
        # As the login stands in a request, which a server may repeat.
        login = base64.b64encode(f"{settings.user}:{settings.password}".encode()).decode()
        self._secrets = (*settings.secrets, login)

    def translate(self, error: Exception) -> Refusal | LakehouseError:
        """Return the error to raise instead; a Refusal if the registry has answered about the request itself."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        if isinstance(error, SchemaRegistryError):
            return self._translate_answer(error.http_status_code, error.error_code, error.error_message)
        for cause in _causes(error):
            if isinstance(cause, ssl.SSLError) and (tls_error := self._translate_tls(cause)):
                return tls_error
        return self.unavailable(f"{type(error).__name__}: {error}")

    def unavailable(self, reason: str) -> RegistryUnavailable:
        """Return the error for an answer that can't be used, or none."""
        return RegistryUnavailable(
            f"The schema registry at {self._url} gives no answer that can be used: {self.without_secrets(reason)}. "
            "Expected a registry with Confluent's interface. Check that it runs, and the setting registry.url."
        )

    def without_secrets(self, text: str) -> str:
        """Return a text of the registry or of its client in one line, without the secrets of the settings."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        text = " ".join(text.split())
        return text if len(text) <= TEXT_LENGTH else f"{text[:TEXT_LENGTH]}..."

    def _translate_answer(self, status: int, code: object, text: object) -> Refusal | LakehouseError:
        if status in (401, 403):
            return ConfigError(
                f"The schema registry at {self._url} refuses this client (HTTP {status}): "
                f"{self.without_secrets(str(text))}. Expected a login with the rights for this request; found "
                f"{self._describe_login()}. Check registry.user and registry.password, or registry.token, and "
                "what the registry allows them."
            )
        is_own_answer = isinstance(code, int) and code > 0 and 400 <= status < 500
        if not is_own_answer or status in (408, 429):
            return self.unavailable(f"HTTP {status}: {text}")
        return Refusal(status, int(str(code)), self.without_secrets(str(text)))

    def _translate_tls(self, error: ssl.SSLError) -> LakehouseError | None:
        reason = self.without_secrets(getattr(error, "verify_message", "") or error.reason or str(error))
        if isinstance(error, ssl.SSLCertVerificationError):
            if error.verify_code == CERTIFICATE_HAS_EXPIRED:
                return self.unavailable(f"its certificate has expired ({reason})")
            return ConfigError(
                f"The certificate of the schema registry at {self._url} is not trusted: {reason}. Expected one of an "
                "authority in registry.ca_file (default: those of this Python), for this host name. Set the file."
            )
        if any(alert in reason.lower().replace("_", " ") for alert in CLIENT_CERTIFICATE_ALERTS):
            return ConfigError(
                f"The schema registry at {self._url} refuses the TLS handshake: {reason}. It may want a certificate of "
                "the client that it trusts. Check registry.certificate_file and registry.key_file."
            )
        return None

    def _describe_login(self) -> str:
        if self._settings.token is not None:
            return "a token (registry.token)"
        return f"the user {self._settings.user}" if self._settings.user is not None else "no login"


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
