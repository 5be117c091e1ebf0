"""Settings: what is read, what wins, and how a wrong one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.errors import ConfigError
from lakehouse.lake.store import delta_options
from lakehouse.settings.config import Options, load
from lakehouse.settings.store import hadoop_options


def write(folder: Path, text: str) -> Path:
    path = folder / "lakehouse.toml"
    path.write_text(text)
    return path


def test_defaults_without_a_file(tmp_path: Path) -> None:
    settings = load(environ={}, start=tmp_path)
    assert settings.source is None
    assert settings.lake.path == str(tmp_path / "lake")
    assert settings.kafka.embedded
    assert settings.kafka.folder == tmp_path / ".kafka"
    assert settings.registry.embedded
    assert settings.registry.folder == tmp_path / ".registry"
    assert (settings.registry.timeout_seconds, settings.registry.auto_register) == (5.0, True)
    assert settings.registry.subject_strategy == "topic"
    assert (settings.spark.master, settings.spark.memory) == ("local[*]", "3g")
    assert (settings.run.trigger_seconds, settings.run.max_records_per_tick) == (0.0, 5_000_000)
    assert settings.run.on_data_loss == "fail"
    assert (settings.upkeep.enabled, settings.upkeep.keep_versions, settings.upkeep.keep_anchors) == (
        True, "7 days", "90 days",
    )  # fmt: skip


def test_the_file_is_found_in_the_folder_and_paths_are_relative_to_it(tmp_path: Path) -> None:
    write(tmp_path, '[lake]\npath = "data/lake"\n[kafka]\nport = 9092\n[run]\ntrigger_seconds = 2\n')
    settings = load(environ={}, start=tmp_path)
    assert settings.source == tmp_path / "lakehouse.toml"
    assert settings.lake.path == str(tmp_path / "data" / "lake")
    assert settings.kafka.folder == tmp_path / "data" / ".kafka"
    assert settings.kafka.port == 9092
    assert settings.run.trigger_seconds == 2.0


def test_a_lake_in_an_object_store_keeps_its_uri(tmp_path: Path) -> None:
    settings = load(write(tmp_path, '[lake]\npath = "s3a://bucket/lake"\n'), environ={})
    assert settings.lake.path == "s3a://bucket/lake"
    assert settings.kafka.folder == tmp_path / ".kafka"


def test_variables_win(tmp_path: Path) -> None:
    path = write(tmp_path, '[kafka]\nport = 1\n[spark]\nmemory = "1g"\n')
    settings = load(
        path,
        environ={
            "LAKEHOUSE_KAFKA_PORT": "9093",
            "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": "one:9092, two:9092",
            "LAKEHOUSE_KAFKA_OPTIONS": '{"security.protocol": "SSL"}',
            "LAKEHOUSE_SPARK_MEMORY": "512M",
            "LAKEHOUSE_RUN_TRIGGER_SECONDS": "1.5",
            "LAKEHOUSE_UPKEEP_ENABLED": "false",
            "LAKEHOUSE_UPKEEP_KEEP_ANCHORS": "forever",
            "LAKEHOUSE_JARS": "elsewhere",
            "OTHER": "x",
        },
    )
    assert settings.kafka.port == 9093
    assert settings.kafka.bootstrap_servers == "one:9092,two:9092"
    assert settings.kafka.options == Options({"security.protocol": "SSL"})
    assert settings.spark.memory == "512m"
    assert settings.run.trigger_seconds == 1.5
    assert (settings.upkeep.enabled, settings.upkeep.keep_anchors) == (False, "forever")


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        ("[lake]\n\n# why\npth = 'x'\n", 4, ["pth", "Did you mean path?"]),
        ("[kafak]\nport = 1\n", 1, ["kafak", "Did you mean [kafka]?"]),
        ("port = 1\n", 1, ["port", "belongs under [kafka]"]),
        ("lake = 'x'\n", 1, ["lake is a section"]),
        ("[kafka]\nport = 70000\n", 2, ["70000", "from 1 to 65535"]),
        ("[kafka]\nport = true\n", 2, ["True", "whole number"]),
        ("[kafka]\nbootstrap_servers = 'one:9092,two'\n", 2, ["'two'", "host:port"]),
        ("[spark]\nmaster = 'local'\nmemory = '3 gigs'\n", 3, ["3 gigs", '"3g"']),
        ("[run]\non_data_loss = 'ignore'\n", 2, ["ignore", "fail, record"]),
        ("[run]\ntrigger_seconds = -1\n", 2, ["-1", "0 or more"]),
        ("[run]\nmax_records_per_tick = 0\n", 2, ["1 or more"]),
        ("[run]\nmax_records_per_tick = 9223372036854775808\n", 2, ["9223372036854775808", "64 bits"]),
        ("[run]\ntrigger_seconds = 1e20\n", 2, ["1e+20", "at most 1000000000"]),
        ("[kafka]\nbootstrap_servers = 'one:99999'\n", 2, ["'one:99999'", "host:port"]),
        ("[kafka]\nbootstrap_servers = 'one:٩٠٩٢'\n", 2, ["host:port"]),
        ("[kafka]\nfolder = '~nobody-here/kafka'\n", 2, ["kafka.folder", "no home folder of ~nobody-here"]),
        ("[lake]\napp = '~nobody-here/app.py'\n", 2, ["lake.app", "no home folder of ~nobody-here"]),
        (
            "[kafka.options]\n'client.id' = 'x'\n'isolation.level' = 'x'\n",
            3,
            ["isolation.level", "leave it out"],
        ),
        ("[kafka.options]\nsecurity.protocol = 'SSL'\n", 2, ["security", "quotes"]),
        ("[kafka]\noptions = { 'bootstrap.servers' = 'x' }\n", 2, ["kafka.bootstrap_servers"]),
        ("[upkeep]\nkeep_versions = '5 minutes'\n", 2, ["'5 minutes'", "at least 1 hour", "in progress needs"]),
        ("[upkeep]\nkeep_versions = 'a while'\n", 2, ["'a while'", 'such as "7 days"']),
        ("[upkeep]\nkeep_versions = 'forever'\n", 2, ["'forever'", 'such as "7 days"']),
        ("[upkeep]\nkeep_anchors = 'never'\n", 2, ["'never'", 'or "forever"']),
        ("[upkeep]\nenabled = 1\n", 2, ["1", "true or false"]),
        ("[upkeep]\noptimize_files = 1\n", 2, ["2 or more"]),
        ("[lake]\npath = 's3://bucket/lake'\n", 2, ["s3://", "s3a://"]),
        ("[lake.options]\nendpoint = 'minio:9000'\n", 2, ["https://minio.example:9000"]),
        ("[lake.options]\nend_point = 'http://minio:9000'\n", 2, ["end_point", "endpoint, region"]),
        ("[lake.options]\npath_style = 'perhaps'\n", 2, ["true or false"]),
        ("[lake.options]\naccess_key = 'x'\n", 1, ["expected both"]),
        ("[lake.options]\nsession_token = 'x'\n", 2, ["access_key and secret_key"]),
        ("[registry]\nurl = 'https://me:hush@one'\n", 2, ["without user and password", "settings of their own"]),
        ("[registry]\nurl = 'https://one,two:8081'\n", 2, ["several with commas"]),
        ("[registry]\nurl = 'ftp://one'\n", 2, ['"https://one:8081']),
        ("[registry]\nurl = 'https://one'\n\nuser = 'me'\n", 4, ["registry.user", "user without password"]),
        ("[registry]\nurl = 'https://one'\nuser = 'a:b'\npassword = 'hush'\n", 3, ["colon"]),
        ("[registry]\nurl = 'https://one'\nuser = 'a'\npassword = 'hush'\ntoken = 'x'\n", 5, ["one of them"]),
        ("[registry]\nurl = 'https://one'\nkey_file = 'x'\n", 3, ["key_file without certificate_file"]),
        ("[registry]\ntoken = 'hush'\n", 2, ["token without url"]),
        ("[registry]\nurl = 'https://one'\ntoken = 'hush hush'\n", 3, ["one word"]),
        ("[registry]\nsubject_strategy = 'both'\n", 2, ["'both'", "topic, record, topic_record"]),
        ("[registry]\ntimeout_seconds = 0\n", 2, ["found 0", "more than 0"]),
        ("[registry]\nauto_register = 'perhaps'\n", 2, ["true or false"]),
        ("[registry]\npasword = 'x'\n", 2, ["Did you mean password?"]),
        ("[lake]\npath = \n", 2, ["not valid TOML"]),
        ("[lake\n", 1, ["not valid TOML"]),
        ("[lake]\n\npath = 'a'\napp = \"app\\u0000.py\"\n", 4, ["lake.app", "a character NUL"]),
        ('[lake]\npath = "la\\u0000ke"\n', 2, ["lake.path", "a character NUL"]),
        ('[kafka]\ntopics = ["a", "b\\u0000"]\n', 2, ["kafka.topics", "a character NUL"]),
        ('[kafka]\noptions = { x = "hush\\u0000" }\n', 2, ["kafka.options", "a character NUL"]),
    ],
)
def test_a_wrong_setting_is_refused_with_its_line(tmp_path: Path, text: str, line: int, parts: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(path, environ={})
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: "), message
    assert "hush" not in message
    for part in parts:
        assert part in message


def test_the_text_of_a_variable_may_look_like_a_number(tmp_path: Path) -> None:
    environ = {
        "LAKEHOUSE_LAKE_PATH": "2026", "LAKEHOUSE_KAFKA_TOPICS": "2024", "LAKEHOUSE_LINEAGE_NAMESPACE": "Infinity",
        "LAKEHOUSE_KAFKA_TOPIC_PATTERN": "1e5", "LAKEHOUSE_RUN_TRIGGER_SECONDS": "1e-5",
    }  # fmt: skip
    settings = load(environ=environ, start=tmp_path)
    assert settings.lake.path == str(tmp_path / "2026")
    assert (settings.kafka.topics, settings.kafka.topic_pattern) == (("2024",), "1e5")
    assert (settings.lineage.namespace, settings.run.trigger_seconds) == ("Infinity", 0.0)


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("LAKEHOUSE_KAFKA_PROT", "1", "Did you mean LAKEHOUSE_KAFKA_PORT?"),
        ("LAKEHOUSE_KAFAK_PORT", "1", "Did you mean LAKEHOUSE_KAFKA_PORT?"),
        ("LAKEHOUSE_KAFKA_PORT", "many", "found 'many'; expected a whole number"),
        ("LAKEHOUSE_KAFKA_OPTIONS", "x=y", "JSON object"),
        ("LAKEHOUSE_REGISTRY_PASSWORD", "hush", "password without user"),
        ("LAKEHOUSE_REGISTRY_URL", "https://me:hush@one", "without user and password"),
    ],
)
def test_a_wrong_variable_is_refused(tmp_path: Path, name: str, value: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environ={name: value}, start=tmp_path)
    assert name in str(caught.value)
    assert "hush" not in str(caught.value)
    assert part in str(caught.value)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "absent.toml", environ={})


def test_a_folder_is_no_settings_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a folder; expected a settings file, such as .*lakehouse\.toml"):
        load(tmp_path, environ={})


def test_a_byte_order_mark_is_no_part_of_the_settings(tmp_path: Path) -> None:
    """As editors of Windows write it."""
    path = write(tmp_path, "\ufeff[kafka]\nport = 9092\n")
    assert load(path, environ={}).kafka.port == 9092


def test_an_engine_that_is_not_kept_is_said_alike_in_the_file_and_in_a_variable(tmp_path: Path) -> None:
    for value in ("false", "0", '"off"'):
        assert load(write(tmp_path, f"[spark]\nkeep = {value}\n"), environ={}).spark.keep == "off"
        variables = {"LAKEHOUSE_SPARK_KEEP": value.strip('"')}
        assert load(write(tmp_path, ""), environ=variables).spark.keep == "off"


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    text = "[kafka.options]\n'sasl.password' = 'hush-1'\n'sasl.jaas.config' = 'password=\"hush-2\"'\n"
    text += "'sasl.username' = 'me'\n[spark.options]\n'spark.hadoop.fs.s3a.secret.key' = 'hush-3'\n"
    settings = load(write(tmp_path, text), environ={})
    assert settings.kafka.options["sasl.password"] == "hush-1"
    for shown in (repr(settings), str(settings)):
        assert "hush" not in shown
        assert "me" in shown
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, "[kafka.options]\n'sasl.password' = ['hush-4']\n"), environ={})
    assert "hush" not in str(caught.value)


def test_a_registry_with_its_login_and_files(tmp_path: Path) -> None:
    text = "[registry]\nurl = 'https://one:8081/ , https://two/path'\nca_file = 'ca.pem'\nfolder = 'schemas'\n"
    environ = {"LAKEHOUSE_REGISTRY_USER": "007", "LAKEHOUSE_REGISTRY_PASSWORD": "1e5"}
    settings = load(write(tmp_path, text), environ=environ).registry
    assert settings.url == "https://one:8081,https://two/path"
    assert not settings.embedded
    assert (settings.ca_file, settings.folder) == (tmp_path / "ca.pem", tmp_path / "schemas")
    assert (settings.user, settings.password) == ("007", "1e5"), "a text that looks like a number stays as it is"
    assert settings.secrets == ("1e5",)
    assert "1e5" not in repr(settings)


def test_how_a_store_is_reached_is_said_once_for_all_clients(tmp_path: Path) -> None:
    text = "[lake]\npath = 's3a://bucket/lake'\nsingle_writer = true\n[lake.options]\nendpoint = 'http://minio:9000'\n"
    text += "path_style = true\naccess_key = 'me'\nsecret_key = 'hush'\n"
    lake = load(write(tmp_path, text), environ={}).lake
    assert lake.single_writer
    assert "hush" not in repr(lake)
    assert hadoop_options(lake.options) == {
        "spark.hadoop.fs.s3a.endpoint": "http://minio:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "me",
        "spark.hadoop.fs.s3a.secret.key": "hush",
    }
    assert delta_options(lake.options) == {
        "aws_endpoint": "http://minio:9000",
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
        "aws_access_key_id": "me",
        "aws_secret_access_key": "hush",
    }
