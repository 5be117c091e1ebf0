"""The client and servers that are no registry, refuse, or do not answer; and what its messages never show."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path

import pytest

from lakehouse.errors import ConfigError, LakehouseError, RegistryUnavailable, SchemaRefused
from lakehouse.registry.client import Registry
from lakehouse.registry.opening import open_registry
from lakehouse.settings.sections import RegistrySection
from tests.registry.answering import Answer, Answerer, Answering, answering
from tests.registry.certificates import ELSEWHERE, PemAuthority

Sections = Callable[..., RegistrySection]
SECRETS = {"password": "hush-of-the-password", "token": "hush-of-the-token", "key_password": "hush-of-the-key"}


def error(code: int, message: str = "a reason") -> bytes:
    return json.dumps({"error_code": code, "message": message}).encode()


def always(status: int, body: bytes) -> Answerer:
    return lambda path, headers: (status, body)


REQUESTS: dict[str, Callable[[Registry], object]] = {
    "check_reachable": lambda one: one.check_reachable(),
    "schema_by_id": lambda one: one.schema_by_id(7),
    "latest": lambda one: one.latest("s"),
    "lookup": lambda one: one.lookup("s", "{}", "AVRO"),
    "register": lambda one: one.register("s", "{}", "AVRO"),
    "check_compatible": lambda one: one.check_compatible("s", "{}", "AVRO"),
}


@pytest.mark.rotated
@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>welcome</html>"), (200, b""), (200, b"7"), (200, b"{}"), (200, b"null"), (200, b'"text"'),
        (200, b'[[]]'), (200, b'{"schema": 1, "id": "x", "version": null, "is_compatible": "no"}'),
        (200, b'{"schema": "{}", "schemaType": "XML", "references": [{}]}'), (200, b"\xff\xfe"),
        (302, b""), (404, b""), (404, b"<html>not here</html>"), (404, b'["x"]'), (404, error(0)), (418, error(41801)),
        (429, error(42901)), (500, error(50001)), (503, b"busy"),
    ],
)  # fmt: skip
def test_an_answer_of_no_registry_may_pass(section: Sections, name: str, status: int, body: bytes) -> None:
    with answering(always(status, body)) as server:
        opened = open_registry(section(url=server.url))
        opened._client._rest_client.retries_wait_ms = 1
        if name == "check_reachable" and body == b"[[]]":
            return
        with pytest.raises(RegistryUnavailable, match=f"{server.url} gives no answer that can be used.*registry.url"):
            REQUESTS[name](opened)


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("status", [401, 403])
def test_a_login_that_is_refused_needs_a_setting(section: Sections, name: str, status: int) -> None:
    def answer(path: str, headers: Message) -> Answer:
        return status, error(status * 100 + 1, f"not with {headers['Authorization']} {SECRETS['password']}")

    with answering(answer) as server:
        opened = open_registry(section(url=server.url, user="me", password=SECRETS["password"]))
        with pytest.raises(ConfigError, match=rf"HTTP {status}.*the user me.*registry\.password") as caught:
            REQUESTS[name](opened)
    assert_hushed(caught.value)
    assert str(caught.value).count("********") == 2, "in the header that the server repeats, and as it is"
    assert len(server.requests) == 1, "it is not tried again: accounts are locked after some tries"


def assert_hushed(failure: BaseException) -> None:
    """Nor in what a trace shows with it."""
    assert "hush" not in repr(failure)
    assert failure.__cause__ is None
    assert failure.__suppress_context__ or failure.__context__ is None


def test_a_login_is_sent(section: Sections) -> None:
    kinds = always(200, b'["AVRO"]')
    with answering(kinds) as server:
        open_registry(section(url=server.url, user="me ü", password=" p:w ü")).check_reachable()
        open_registry(section(url=server.url, token=SECRETS["token"])).check_reachable()
        open_registry(section(url=server.url)).check_reachable()
    sent = [headers["Authorization"] for _, headers in server.requests]
    assert sent == [
        f"Basic {base64.b64encode('me ü: p:w ü'.encode()).decode()}", f"Bearer {SECRETS['token']}", None,
    ]  # fmt: skip


@pytest.mark.parametrize(("code", "status"), [(409, 409), (42201, 422)])
def test_a_refused_schema_is_told_from_a_registry_that_is_away(section: Sections, code: int, status: int) -> None:
    with answering(always(status, error(code, "field b"))) as server:
        opened = open_registry(section(url=server.url))
        for name in ("register", "check_compatible", "lookup"):
            with pytest.raises(SchemaRefused, match=rf"s: field b \(code {code}\)"):
                REQUESTS[name](opened)


def test_the_reasons_of_an_incompatible_schema_are_given(section: Sections) -> None:
    body = json.dumps({"is_compatible": False, "messages": ["field b\n has no default", "field c"]}).encode()
    with answering(always(200, body)) as server:
        reasons = open_registry(section(url=server.url)).check_compatible("s", "{}", "AVRO")
    assert reasons == ["field b has no default", "field c"]
    assert server.requests[0][0] == "/compatibility/subjects/s/versions?verbose=true"


def test_references_that_go_round_end(section: Sections) -> None:
    round_body = json.dumps(
        {"schema": "{}", "id": 1, "version": 1, "subject": "s",
         "references": [{"name": "n", "subject": "s", "version": 1}]}
    ).encode()  # fmt: skip
    with (
        answering(always(200, round_body)) as server,
        pytest.raises(RegistryUnavailable, match="version 1 of s refers to itself"),
    ):
        open_registry(section(url=server.url)).schema_by_id(1)


def test_references_without_an_end_are_given_up(section: Sections) -> None:
    def answer(path: str, headers: Message) -> Answer:
        version = 1 + int(path.partition("?")[0].rpartition("/")[2])
        reference = {"name": "n", "subject": "s", "version": version}
        return 200, json.dumps({"schema": "{}", "id": 1, "references": [reference]}).encode()

    with answering(answer) as server, pytest.raises(RegistryUnavailable, match="more than 200 others"):
        open_registry(section(url=server.url)).schema_by_id(1)


def test_a_registry_that_does_not_answer_is_given_up(section: Sections) -> None:
    def slow(path: str, headers: Message) -> Answer:
        time.sleep(3)
        return 200, b"[]"

    with answering(slow) as server:
        opened = open_registry(section(url=server.url, timeout_seconds=0.2))
        begin = time.monotonic()
        with pytest.raises(RegistryUnavailable, match="Timeout"):
            opened.check_reachable()
        assert time.monotonic() - begin < 2.5


def test_of_several_addresses_one_that_answers_is_enough(section: Sections) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with answering(always(200, b"[]")) as server:
        open_registry(section(url=f"{gone}, {server.url}/")).check_reachable()
        with answering(always(503, b"")) as busy:
            open_registry(section(url=f"{busy.url},{server.url}")).check_reachable()
    with pytest.raises(RegistryUnavailable):
        open_registry(section(url=f"{gone},{gone}")).check_reachable()


class Pems:
    """An authority, and certificates of it for servers and for a client."""

    def __init__(self, folder: Path) -> None:
        self.authority = PemAuthority(folder, "authority")
        self.stranger = PemAuthority(folder, "stranger").pem
        self.server = self.authority.issue("server")
        self.elsewhere = self.authority.issue("elsewhere", ELSEWHERE)
        self.expired = self.authority.issue("expired", expired=True)
        self.client = self.authority.issue("client", password=SECRETS["key_password"])

    def tls(self, pair: tuple[Path, Path], mutual: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair)
        if mutual:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.authority.pem)
        return context


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Pems:
    return Pems(tmp_path_factory.mktemp("pems"))


@pytest.fixture
def secured(pems: Pems) -> Iterator[Answering]:
    """A server that wants a certificate of its client."""
    with answering(always(200, b'["AVRO"]'), pems.tls(pems.server, mutual=True)) as server:
        yield server


def own(pems: Pems) -> dict[str, object]:
    return {
        "ca_file": pems.authority.pem, "certificate_file": pems.client[0], "key_file": pems.client[1],
        "key_password": SECRETS["key_password"],
    }  # fmt: skip


def test_certificates_of_both_sides(pems: Pems, secured: Answering, section: Sections) -> None:
    open_registry(section(url=secured.url, **own(pems))).check_reachable()


def test_a_certificate_that_is_missing_is_named(pems: Pems, secured: Answering, section: Sections) -> None:
    opened = open_registry(section(url=secured.url, ca_file=pems.authority.pem))
    with pytest.raises(ConfigError, match=r"refuses the TLS handshake.*registry\.certificate_file"):
        opened.check_reachable()


@pytest.mark.parametrize("ca", ["another", "none"])
def test_an_authority_that_is_not_trusted_is_named(pems: Pems, secured: Answering, section: Sections, ca: str) -> None:
    settings = section(url=secured.url, **({"ca_file": pems.stranger} if ca == "another" else {}))
    with pytest.raises(ConfigError, match=r"is not trusted.*registry\.ca_file"):
        open_registry(settings).check_reachable()


def test_a_certificate_of_another_host_is_a_setting_and_one_that_expired_may_pass(
    pems: Pems, section: Sections
) -> None:
    for pair, expected, words in (
        (pems.elsewhere, ConfigError, "is not trusted.*127.0.0.1"), (pems.expired, RegistryUnavailable, "has expired"),
    ):  # fmt: skip
        with answering(always(200, b"[]"), pems.tls(pair)) as server, pytest.raises(expected, match=words):
            open_registry(section(url=server.url, ca_file=pems.authority.pem)).check_reachable()


@pytest.mark.parametrize("key", ["ca_file", "certificate_file", "key_file"])
def test_a_file_that_is_missing_is_named(pems: Pems, section: Sections, key: str) -> None:
    with pytest.raises(ConfigError, match=f"registry.{key}: .*absent.pem is no file"):
        open_registry(section(url="https://127.0.0.1:9", **(own(pems) | {key: pems.stranger.with_name("absent.pem")})))


@pytest.mark.parametrize(
    "wrong",
    [
        {"key_password": "hush-another"}, {"key_password": None}, {"ca_file": "key_file"},
        {"certificate_file": "ca_file"}, {"key_file": "ca_file"},
    ],
)  # fmt: skip
def test_files_that_do_not_fit_are_a_matter_of_settings(
    pems: Pems, section: Sections, wrong: dict[str, str | None]
) -> None:
    files = own(pems)
    for key, value in wrong.items():
        files[key] = files.get(str(value), value)
    with pytest.raises(ConfigError, match=r"registry\.ca_file, registry\.certificate_file") as caught:
        open_registry(section(url="https://127.0.0.1:9", **{key: value for key, value in files.items() if value}))
    assert_hushed(caught.value)


def test_http_where_tls_is_spoken_and_the_other_way_may_pass(pems: Pems, secured: Answering, section: Sections) -> None:
    with answering(always(200, b"[]")) as plain:
        for url in (secured.url.replace("https", "http"), plain.url.replace("http", "https")):
            with pytest.raises(LakehouseError, match=url):
                open_registry(section(url=url)).check_reachable()


def test_the_settings_show_no_secret(section: Sections) -> None:
    for shown in (
        section(url="https://one", token=SECRETS["token"]),
        section(url="https://one", user="me", password="hush"),
    ):
        assert "hush" not in repr(shown)
        assert "https://one" in repr(shown)
