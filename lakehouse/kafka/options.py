"""Extra Kafka client properties: configured once, used by two kinds of clients that spell some of them differently.

librdkafka (confluent-kafka) takes user and password as two properties, Java's clients (Spark) take one JAAS line.
Certificates are PEM files for librdkafka, and may be for Java. User and password may be given in either spelling.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from confluent_kafka import KafkaError, KafkaException

from lakehouse.errors import ConfigError

# librdkafka writes fatal errors on stderr, whatever its level of logs is; they arrive as exceptions, too.
SILENT_LOGGER = logging.getLogger("lakehouse.kafka.librdkafka")
SILENT_LOGGER.addHandler(logging.NullHandler())
SILENT_LOGGER.propagate = False
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
JAAS_LOGIN = re.compile(r'\b(username|password|clientId|clientSecret|scope)\s*=\s*"((?:[^"\\]|\\.)*)"')
OAUTH = "OAUTHBEARER"
OAUTH_PREFIX = "sasl.oauthbearer."
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTH_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
# librdkafka's names without the prefix, by the names in Java's JAAS line; the last may be left out.
OAUTH_LOGIN = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
TOKEN_ENDPOINT = f"{OAUTH_PREFIX}token.endpoint.url"
# Java's client asks no other address for a token.
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
URL = re.compile(r"https?://[^\s\"',\\]+")


def librdkafka_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for confluent-kafka's clients. Raises ConfigError for properties that they can't take."""
    properties = dict(options)
    if jaas_line := properties.pop("sasl.jaas.config", None):
        for name, quoted_text in JAAS_LOGIN.findall(jaas_line):
            native_name = f"{OAUTH_PREFIX}{OAUTH_LOGIN[name]}" if name in OAUTH_LOGIN else f"sasl.{name}"
            properties.setdefault(native_name, re.sub(r"\\(.)", r"\1", quoted_text))
    properties.pop("sasl.login.callback.handler.class", None)
    if _is_oauth(properties):
        properties.setdefault(f"{OAUTH_PREFIX}method", "oidc")
    truststore_type = properties.pop("ssl.truststore.type", None)
    if truststore_path := properties.pop("ssl.truststore.location", None):
        if truststore_type != "PEM":
            raise ConfigError(
                f"kafka.options: found ssl.truststore.location with ssl.truststore.type {truststore_type or 'JKS'}; "
                "only PEM files can be "
                "read by every client. Convert it and use ssl.ca.location = the PEM file."
            )
        properties.setdefault("ssl.ca.location", truststore_path)
    if "ssl.endpoint.identification.algorithm" in properties:
        properties["ssl.endpoint.identification.algorithm"] = (
            properties["ssl.endpoint.identification.algorithm"] or "none"
        )
    return properties


def java_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for Java's clients, without Spark's ``kafka.`` prefix. Raises ConfigError."""
    properties = dict(options)
    if mechanism := properties.pop("sasl.mechanisms", None):
        properties.setdefault("sasl.mechanism", mechanism)
    user, password = properties.pop("sasl.username", None), properties.pop("sasl.password", None)
    if user is not None and "sasl.jaas.config" not in properties:
        mechanism = properties.get("sasl.mechanism", "(none)")
        if mechanism not in LOGIN_MODULES:
            raise ConfigError(
                f"kafka.options: found sasl.username with sasl.mechanism {mechanism}; expected one of "
                f"{', '.join(LOGIN_MODULES)}. Set sasl.mechanism, or write sasl.jaas.config yourself."
            )
        properties["sasl.jaas.config"] = (
            f"{LOGIN_MODULES[mechanism]} required username={_quote_jaas(user)} password={_quote_jaas(password or '')};"
        )
    if _is_oauth(properties) and "sasl.jaas.config" not in properties:
        properties = _java_oauth(properties)
    if authority_path := properties.pop("ssl.ca.location", None):
        properties.setdefault("ssl.truststore.type", "PEM")
        properties.setdefault("ssl.truststore.location", authority_path)
    if properties.get("ssl.endpoint.identification.algorithm") == "none":
        properties["ssl.endpoint.identification.algorithm"] = ""
    return properties


def token_endpoint(options: Mapping[str, str]) -> str | None:
    """Return the address that gives tokens for OAUTHBEARER; None without one.

    Raises ConfigError if it is no URL, or has a login: it stands on the command line of Spark's Java.
    """
    url = options.get(TOKEN_ENDPOINT)
    if url is not None and "@" in urlsplit(url).netloc:
        raise ConfigError(
            f"kafka.options: {TOKEN_ENDPOINT} has a login before the @; expected a URL without one, and the login in "
            f"{OAUTH_PREFIX}client.id and {OAUTH_PREFIX}client.secret."
        )
    if url is not None and not URL.fullmatch(url):
        raise ConfigError(
            f"kafka.options: {TOKEN_ENDPOINT} is {url!r}; expected a URL such as https://login.example.com/oauth/token."
        )
    return url


def _is_oauth(options: Mapping[str, str]) -> bool:
    return options.get("sasl.mechanism", options.get("sasl.mechanisms")) == OAUTH


def _java_oauth(options: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with the login of a client that gets tokens from an OIDC server, as Java has it."""
    properties = dict(options)
    method = properties.pop(f"{OAUTH_PREFIX}method", "oidc")
    login = {java: properties.pop(f"{OAUTH_PREFIX}{native}", None) for java, native in OAUTH_LOGIN.items()}
    needed = {**{f"{OAUTH_PREFIX}{OAUTH_LOGIN[name]}": login[name] for name in ("clientId", "clientSecret")}}
    needed[TOKEN_ENDPOINT] = token_endpoint(options)
    if method != "oidc" or None in needed.values():
        missing = [name for name, value in needed.items() if value is None]
        raise ConfigError(
            f"kafka.options: found sasl.mechanism {OAUTH} with {OAUTH_PREFIX}method {method}"
            f"{' and without ' + ', '.join(missing) if missing else ''}; expected method oidc (the default), "
            f"{', '.join(needed)}, and maybe {OAUTH_PREFIX}scope."
        )
    fields = " ".join(f"{name}={_quote_jaas(value)}" for name, value in login.items() if value is not None)
    return {
        **properties,
        "sasl.login.callback.handler.class": OAUTH_HANDLER,
        "sasl.jaas.config": f"{OAUTH_MODULE} required {fields};",
    }


def refused_options_error(error: KafkaException) -> ConfigError:
    """Return the error for properties that confluent-kafka refused."""
    reason = error.args[0].str() if isinstance(error.args[0], KafkaError) else str(error)
    return ConfigError(
        f"kafka.options: {reason}. Expected properties that librdkafka knows. Correct the name or the value."
    )


def _quote_jaas(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
