"""Finds out why a broker can't be reached with the client's settings, by a connection of its own.

librdkafka says the same about a wrong authority, an expired certificate and a certificate for another host; and nothing
about a port that speaks TLS to a client that does not.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress

from lakehouse.kafka.options import librdkafka_options

PATIENCE_SECONDS = 3.0
ADDRESS = re.compile(r"\[?(?P<host>[^\]]+?)\]?:(?P<port>\d+)")
# By what librdkafka says.
ADVICE = (
    (
        "OAUTHBEARER token|OIDC",
        'There was no token for this client: look at "sasl.oauthbearer.token.endpoint.url", '
        '"sasl.oauthbearer.client.id" and "sasl.oauthbearer.client.secret".',
    ),
    (
        "SASL authentication error",
        "The broker refuses the login of user {user!r}: look at sasl.username and sasl.password.",
    ),
    (
        "mechanism handshake failed",
        "The broker takes no login by sasl.mechanism = {mechanism} at this port: set the mechanism that it has, or "
        "security.protocol = SSL or PLAINTEXT for a port without logins.",
    ),
    (
        "alert (bad certificate|certificate required|unknown ca|certificate unknown|handshake failure)",
        "The broker asks for a client's certificate, or refuses this one: set ssl.keystore.location and "
        "ssl.keystore.password to a PKCS#12 file with a certificate that it trusts.",
    ),
    (
        "Disconnected|brokers are down",
        "The broker ends each connection: its port may ask for a login (security.protocol = SASL_SSL or "
        "SASL_PLAINTEXT), or for none.",
    ),
)


def describe_refusal(bootstrap_servers: str, options: Mapping[str, str], reason: str) -> str | None:
    """Return a sentence about what stands in the way, and what to set; None if nothing is known.

    reason: what librdkafka says. The first server that takes a connection is asked.
    """
    properties = librdkafka_options(options)
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    is_tls_wanted = protocol.endswith("SSL")
    for server in bootstrap_servers.split(","):
        address = ADDRESS.fullmatch(server.strip().rpartition("/")[2])
        if address is None or not _takes_connections(address["host"], int(address["port"])):
            continue
        sentence = _check_tls(address["host"], int(address["port"]), properties, is_tls_wanted=is_tls_wanted)
        if sentence is not None:
            return f"{server.strip()} {sentence}"
        user, mechanism = properties.get("sasl.username", ""), properties.get("sasl.mechanism", "GSSAPI")
        advice = next((text for pattern, text in ADVICE if re.search(pattern, reason)), None)
        return advice.format(user=user, mechanism=mechanism) if advice is not None else None
    return None


def _takes_connections(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), PATIENCE_SECONDS):
        return True
    return False


def _check_tls(host: str, port: int, properties: Mapping[str, str], *, is_tls_wanted: bool) -> str | None:
    """Return what is wrong with TLS at a port, as the end of a sentence; None if nothing is."""
    if not is_tls_wanted:
        if _shake_hands(host, port, _trust_anything()) is None:
            return 'speaks TLS: set security.protocol = SSL, or SASL_SSL with a login, beside "ssl.ca.location".'
        return None
    if _shake_hands(host, port, _trust_anything()) is not None:
        return "does not speak TLS: set security.protocol = PLAINTEXT, or SASL_PLAINTEXT with a login."
    try:
        context = _trust_as(properties)
    except (OSError, ssl.SSLError):
        return None
    error = _shake_hands(host, port, context)
    if not isinstance(error, ssl.SSLCertVerificationError):
        return None
    return (
        f"has a certificate that this client does not trust: {error.verify_message.rstrip('.')}. Look at "
        '"ssl.ca.location", the PEM file of the authority that signed it; at its dates; and at the name by which the '
        "broker is called."
    )


def _trust_anything() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _trust_as(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Return the trust that the client's settings name. Raises OSError for a file that can't be read."""
    authority = properties.get("ssl.ca.location")
    context = ssl.create_default_context(cafile=authority) if authority else ssl.create_default_context()
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") == "https"
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        return _trust_anything()
    return context


def _shake_hands(host: str, port: int, context: ssl.SSLContext) -> Exception | None:
    """Return why there is no TLS with a port; None if there is."""
    try:
        with (
            socket.create_connection((host, port), PATIENCE_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return None
    except (OSError, ssl.SSLError) as error:
        return error
