"""Variables that are almost settings are refused; those of somebody else are not looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.errors import ConfigError
from lakehouse.settings.config import load


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LAKEHOUSE_kafka_bootstrap_servers", "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS"),
        ("lakehouse_lake_path", "LAKEHOUSE_LAKE_PATH"),
        ("Lakehouse_Spark_Memory", "LAKEHOUSE_SPARK_MEMORY"),
        ("lakehouse_cache", "LAKEHOUSE_CACHE"),
    ],
)
def test_a_setting_with_small_letters_is_refused(tmp_path: Path, name: str, meant: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(environ={name: "hush"}, start=tmp_path)
    assert str(refused.value) == (
        f"found the environment variable {name}, with small letters, which is not a setting; expected {meant}. "
        "Rename it."
    )


@pytest.mark.parametrize("name", ["LAKEHOUSE_kafka_prot", "lakehouse_kafka_prot", "LAKEHOUSE_KAFKA_PROT"])
def test_a_mistyped_setting_is_refused_with_the_likely_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=rf"variable {name}, which is not .* Did you mean LAKEHOUSE_KAFKA_PORT\?"):
        load(environ={name: "1"}, start=tmp_path)


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    environ = {"LAKEHOUSE_CACHE": "a", "lakehouse_run_id": "7", "LAKEHOUSE_OWNER": "b", "kafka_port": "many", "": ""}
    assert load(environ=environ, start=tmp_path) == load(environ={}, start=tmp_path)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("kafka.port", "[" * 100_000),
        ("kafka.port", "9" * 5_000),
        ("kafka.port", "0x" + "f" * 20_000),
        ("spark.options", "[" * 100_000),
        ("spark.options", '{"a" = ' * 500 + "1" + "}" * 500),
        ("spark.options", '{"a" = 0x' + "f" * 20_000 + "}"),
        ("spark.options", '{"a" = ' + "9" * 5_000 + "}"),
        ("spark.options", '{"a" = "\\u0000"}'),
        ("spark.options", '{"a" = "\\ud800"}'),
        ("spark.options", '{"\\udfff" = "a"}'),
        ("spark.options", '{"\\u0000" = "a"}'),
    ],
)
def test_what_cannot_be_read_or_written_is_no_trace(tmp_path: Path, setting: str, text: str) -> None:
    section, _, key = setting.partition(".")
    name = f"LAKEHOUSE_{section}_{key}".upper()
    with pytest.raises(ConfigError, match=f"environment variable {name}: "):
        load(environ={name: text.replace(" = ", ": ")}, start=tmp_path)
    (tmp_path / "lakehouse.toml").write_text(f"[{section}]\n{key} = {text}\n")
    with pytest.raises(ConfigError, match=r"lakehouse\.toml"):
        load(environ={}, start=tmp_path)
