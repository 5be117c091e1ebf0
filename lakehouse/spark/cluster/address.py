"""The address by which executors reach the driver, by the kind of Spark's master."""

from __future__ import annotations

import re
import socket

from lakehouse.errors import ConfigError

LOCAL = re.compile(r"local(\[[^\]]*\])?")
ON_THIS_MACHINE = re.compile(r"local-cluster\[.*\]")
CONNECT = re.compile(r"sc://")
_STANDALONE = re.compile(r"spark://(?P<host>\[[0-9a-fA-F:]+\]|[^:,/]+):(?P<port>[0-9]+)")
ANY_ADDRESS = "0.0.0.0"  # noqa: S104  executors on other machines must reach the driver


def is_local(master: str) -> bool:
    """Say whether tasks run in the driver's own process."""
    return LOCAL.fullmatch(master) is not None


def address_settings(master: str, driver_host: str | None) -> dict[str, str]:
    """Return the settings by which executors reach the driver. driver_host: the user's own, None to find it out.

    Raises ConfigError if the master's name can't be resolved. For YARN and Kubernetes Spark finds the address.
    """
    if driver_host is None and (is_local(master) or ON_THIS_MACHINE.fullmatch(master)):
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if driver_host is None and (match := _STANDALONE.match(master)):
        driver_host = _address_towards(match["host"].strip("[]"), int(match["port"]), master)
    settings = {"spark.driver.bindAddress": ANY_ADDRESS}
    return settings if driver_host is None else settings | {"spark.driver.host": driver_host}


def _address_towards(host: str, port: int, master: str) -> str:
    """Return this machine's address on the way to a host. A datagram socket sends nothing when it is connected."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigError(
            f"[spark] master is {master!r}, and this machine has no way to {host}: {error.strerror}. Correct the name, "
            "or say by which address the executors reach this machine: [spark] driver_host."
        ) from None
