"""A client of a schema registry: Confluent's own, with types, and with the errors of lakehouse."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from lakehouse.errors import ConfigError, SchemaRefused, reason_of_error
from lakehouse.registry.failure import Failures, Refusal
from lakehouse.registry.schemas import RegisteredReference, RegisteredSchema
from lakehouse.settings.sections import RegistrySection

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

# Few and short: a caller that can wait longer tries again.
RETRIES = 2
RETRY_WAIT_MS = 200
RETRY_LONGEST_WAIT_MS = 1000
REFERENCES_MOST = 200  # that one schema needs, also through others; more is no sound answer

UNKNOWN = (40401, 40402, 40403)  # a subject, a version, a schema
KINDS = ("AVRO", "PROTOBUF", "JSON")

Answer = TypeVar("Answer")
Referenced = tuple[str, tuple[RegisteredReference, ...]]  # the text, and what it refers to
Known = dict[tuple[str, int], Referenced | None]  # by subject and version


class Registry:
    """A schema registry at an address. Its schemas by id are asked for once; everything else is asked for anew.

    Every method may raise RegistryUnavailable (no usable answer: try again later) and ConfigError (a login or a
    certificate is refused). It can be used by several threads, not across a fork.
    """

    def __init__(self, settings: RegistrySection, url: str) -> None:
        """Open a client for ``url`` with the login and the TLS files of the settings; nothing is asked yet.

        Raises ConfigError if the extra is not installed, or a file can't be used.
        """
        self.url = url
        self._failures = Failures(settings, url)
        self._client = _open_client(settings, url)

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def check_reachable(self) -> None:
        """Ask the registry something that every one knows; return if it answers."""
        kinds = self._ask(self._client.get_schema_types)
        if not isinstance(kinds, list):
            raise self._failures.unavailable(f"it does not list the kinds of its schemas, but says {kinds!r}")

    def schema_by_id(self, schema_id: int, subject: str | None = None) -> RegisteredSchema | None:
        """Return the schema with an id, and what it refers to; None if the registry knows no such id.

        ``subject``: where the id is looked for, if the registry keeps ids apart by it.
        """
        schema = self._ask(lambda: self._client.get_schema(schema_id, subject))
        return None if schema is None else self._resolve(schema_id, schema)

    def latest(self, subject: str) -> tuple[int, RegisteredSchema] | None:
        """Return the newest version of a subject, and its schema; None if the subject has none."""
        answer = self._ask(lambda: self._client.get_version(subject, "latest"))
        if answer is None:
            return None
        return self._whole_number(answer.version), self._resolve(self._whole_number(answer.schema_id), answer.schema)

    def lookup(self, subject: str, text: str, kind: str) -> int | None:
        """Return the id under which a subject has this very schema; None if it does not have it.

        A registry may raise SchemaRefused if the text is no schema of the kind, or know no such schema.
        """
        answer = self._post(_subject_path(subject), text, kind, f"the schema that is looked for in {subject}")
        return None if answer is None else self._whole_number(answer.get("id"))

    def register(self, subject: str, text: str, kind: str) -> int:
        """Register a schema under a subject; return its id, the known one if the subject has it already.

        Raises SchemaRefused if it is incompatible with the subject's schemas, or the text is no schema of the kind.
        """
        answer = self._post(f"{_subject_path(subject)}/versions", text, kind, f"the new schema of {subject}")
        return self._whole_number((answer or {}).get("id"))

    def check_compatible(self, subject: str, text: str, kind: str) -> list[str]:
        """Return why a schema can't be the next one of a subject; empty if it can, or the subject is new.

        It is compared as the registry would at `register`: with the newest schema, or with all if the level says so.
        Raises SchemaRefused if the text is no schema of the kind; for a new subject the registry may not look at it.
        """
        path = f"compatibility/{_subject_path(subject)}/versions?verbose=true"
        answer = self._post(path, text, kind, f"the schema that is compared with those of {subject}")
        if answer is None:
            return []
        is_compatible, messages = answer.get("is_compatible"), answer.get("messages") or []
        if not isinstance(is_compatible, bool) or not isinstance(messages, list):
            raise self._failures.unavailable(f"it does not say whether schemas are compatible, but {answer!r}")
        shown_messages = [self._failures.without_secrets(str(message)) for message in messages]
        return (
            []
            if is_compatible
            else shown_messages or [f"it is not compatible with the schemas of {subject}; the registry gives no reason"]
        )

    def _post(self, path: str, text: str, kind: str, purpose: str) -> dict[str, Any] | None:
        """Send a schema and return the answer; None if the registry does not know the subject, or the schema in it.

        It goes past the client's own methods: they would take the id of an earlier answer, also if the schema was
        deleted since, and they drop the reasons why a schema is incompatible.
        """
        if kind not in KINDS:  # a registry may answer as if it were broken, and that would be waited for
            raise SchemaRefused(f"Found {kind!r} as the kind of a schema; expected one of: {', '.join(KINDS)}.")
        body = {"schema": text, "schemaType": kind}
        answer = self._ask(lambda: self._client._rest_client.post(path, body=body), purpose)
        if answer is not None and not isinstance(answer, dict):
            raise self._failures.unavailable(f"it answers {answer!r}")
        return answer

    def _ask(self, request: Callable[[], Answer], purpose: str = "a request") -> Answer | None:
        """Return the answer to a request; None if what it asks for is unknown to the registry."""
        try:
            answer = request()
            if answer is None:  # not mixed up with what is unknown
                raise ValueError("the answer is empty")
            return answer
        except Exception as error:  # an odd answer leads to whatever the client does not expect: KeyError, ValueError
            failure = self._failures.translate(error)
        if not isinstance(failure, Refusal):
            raise failure
        if failure.code in UNKNOWN:
            return None
        if failure.status in (409, 422):
            raise SchemaRefused(
                f"The schema registry at {self.url} refuses {purpose}: {failure.text} (code {failure.code}). Expected "
                "a valid schema that is compatible with those before it."
            )
        raise self._failures.unavailable(str(failure))

    def _resolve(self, schema_id: int, schema: Schema) -> RegisteredSchema:
        """Return a schema of the client with what it refers to. Raises RegistryUnavailable if there is none."""
        return RegisteredSchema(
            schema_id,
            self._known_kind(schema.schema_type),
            self._whole_text(schema.schema_str),
            self._references(schema, {}),
        )

    def _references(self, schema: Schema, referenced_by_version: Known) -> tuple[RegisteredReference, ...]:
        """Return what a schema refers to. Each schema is resolved once, however many others refer to it."""
        resolved = []
        for reference in schema.references or ():
            subject, version = self._whole_text(reference.subject), self._whole_number(reference.version)
            if (subject, version) not in referenced_by_version:
                if len(referenced_by_version) == REFERENCES_MOST:
                    raise self._failures.unavailable(f"a schema needs more than {REFERENCES_MOST} others")
                referenced_by_version[subject, version] = None  # as long as its own references are resolved
                referenced_by_version[subject, version] = self._referenced(subject, version, referenced_by_version)
            if (referenced := referenced_by_version[subject, version]) is None:
                raise self._failures.unavailable(f"version {version} of {subject} refers to itself")
            resolved.append(RegisteredReference(self._whole_text(reference.name), subject, version, *referenced))
        return tuple(resolved)

    def _referenced(self, subject: str, version: int, referenced_by_version: Known) -> Referenced:
        answer = self._ask(lambda: self._client.get_version(subject, version, deleted=True))
        if answer is None:
            raise self._failures.unavailable(f"it has no version {version} of {subject}, which a schema refers to")
        return self._whole_text(answer.schema.schema_str), self._references(answer.schema, referenced_by_version)

    def _whole_number(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._failures.unavailable(f"it gives {value!r} where a number is expected")
        return value

    def _whole_text(self, value: object) -> str:
        if not isinstance(value, str):
            raise self._failures.unavailable(f"it gives {value!r} where a text is expected")
        return value

    def _known_kind(self, kind: object) -> str:
        if kind not in KINDS:
            raise self._failures.unavailable(f"it gives a schema of the kind {kind!r}; expected {', '.join(KINDS)}")
        return str(kind)


def _subject_path(subject: str) -> str:
    return f"subjects/{quote(subject, safe='')}"


def _open_client(settings: RegistrySection, url: str) -> SchemaRegistryClient:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise ConfigError(
            f"Found no client for a schema registry in this Python ({error.name} is missing); it is an extra of "
            "lakehouse. Install it: pip install 'lakehouse[registry]'."
        ) from None
    for key in ("ca_file", "certificate_file", "key_file"):
        file = getattr(settings, key)
        if file is not None and not (file.is_file() and os.access(file, os.R_OK)):
            raise ConfigError(f"registry.{key}: {file} is no file that can be read; expected a file in PEM.")
    try:
        return SchemaRegistryClient(_client_options(settings, url))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError, and never has the password in it
        raise ConfigError(
            f"The files of registry.ca_file, registry.certificate_file and registry.key_file can't be used: "
            f"{reason_of_error(error)}. Expected PEM, a key that belongs to the certificate, and in "
            "registry.key_password the key's password if it has one."
        ) from None


def _client_options(settings: RegistrySection, url: str) -> dict[str, Any]:
    options: dict[str, Any] = {
        "url": url,
        "timeout": settings.timeout_seconds,
        "max.retries": RETRIES,
        "retries.wait.ms": RETRY_WAIT_MS,
        "retries.max.wait.ms": RETRY_LONGEST_WAIT_MS,
        "ssl.ca.location": settings.ca_file and str(settings.ca_file),
        "ssl.certificate.location": settings.certificate_file and str(settings.certificate_file),
        "ssl.key.location": settings.key_file and str(settings.key_file),
        # Without one OpenSSL would ask on the terminal.
        "ssl.key.password": (settings.key_password or "") if settings.certificate_file else None,
    }
    if settings.token is not None:
        # The client insists on a name for Confluent's cloud; others ignore the header.
        options |= {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": settings.token,
            "bearer.auth.logical.cluster": "",
        }
    elif settings.user is not None:
        options["basic.auth.user.info"] = f"{settings.user}:{settings.password or ''}"
    return {name: value for name, value in options.items() if value is not None}
