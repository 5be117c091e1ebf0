"""Extra Kafka client properties: written once, given to two kinds of clients that spell some of them differently.

librdkafka (confluent-kafka) takes user and password as two properties, Java's clients (Spark) as one JAAS line;
certificates are files in PEM form for the first, and may be for the second. User and password may be given in either
spelling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException

from lakehouse.errors import ConfigError

LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
JAAS = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def for_librdkafka(options: Mapping[str, str]) -> dict[str, str]:
    """The properties for confluent-kafka's clients. Raises ConfigError for those that these can't take."""
    found = dict(options)
    if jaas := found.pop("sasl.jaas.config", None):
        for name, text in JAAS.findall(jaas):
            found.setdefault(f"sasl.{name}", re.sub(r"\\(.)", r"\1", text))
    kind = found.pop("ssl.truststore.type", None)
    if trusted := found.pop("ssl.truststore.location", None):
        if kind != "PEM":
            raise ConfigError(
                f"kafka.options: found ssl.truststore.location with ssl.truststore.type {kind or 'JKS'}; "
                "only PEM files can be "
                "read by every client. Convert it and use ssl.ca.location = the PEM file."
            )
        found.setdefault("ssl.ca.location", trusted)
    if "ssl.endpoint.identification.algorithm" in found:
        found["ssl.endpoint.identification.algorithm"] = found["ssl.endpoint.identification.algorithm"] or "none"
    return found


def for_java(options: Mapping[str, str]) -> dict[str, str]:
    """The properties for Java's clients, without Spark's ``kafka.`` prefix. Raises ConfigError."""
    found = dict(options)
    if mechanism := found.pop("sasl.mechanisms", None):
        found.setdefault("sasl.mechanism", mechanism)
    user, password = found.pop("sasl.username", None), found.pop("sasl.password", None)
    if user is not None and "sasl.jaas.config" not in found:
        mechanism = found.get("sasl.mechanism", "(none)")
        if mechanism not in LOGIN_MODULES:
            raise ConfigError(
                f"kafka.options: found sasl.username with sasl.mechanism {mechanism}; expected one of "
                f"{', '.join(LOGIN_MODULES)}. Set sasl.mechanism, or write sasl.jaas.config yourself."
            )
        found["sasl.jaas.config"] = (
            f"{LOGIN_MODULES[mechanism]} required username={_quoted(user)} password={_quoted(password or '')};"
        )
    if authority := found.pop("ssl.ca.location", None):
        found.setdefault("ssl.truststore.type", "PEM")
        found.setdefault("ssl.truststore.location", authority)
    if found.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    return found


def refused(error: KafkaException) -> ConfigError:
    """The error for properties that confluent-kafka refused."""
    reason = error.args[0].str() if isinstance(error.args[0], KafkaError) else str(error)
    return ConfigError(
        f"kafka.options: {reason}. Expected properties that librdkafka knows. Correct the name or the value."
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
