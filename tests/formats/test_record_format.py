"""A format's name and its parts say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import PlanError
from lakehouse.formats.codec.codec_choice import CODECS
from lakehouse.plan.names.format_traits import FORMAT_ALIASES, KEY_FORMATS, TRAITS, VALUE_FORMATS, traits_of
from lakehouse.plan.names.record_format import RecordFormat, parse_format
from lakehouse.plan.names.schema_options import SchemaOptions, check_full_name, parse_schema_options
from lakehouse.semantics.time.window import Hopping, Session

KINDS = ("json", "json_any_case", "json_bare", "kafka", "none")
WINDOWS = st.none() | st.just(Session(0, 0)) | st.integers(1, 2**40).map(lambda size: Hopping(size, size, 0))
FORMATS = st.builds(
    RecordFormat, st.sampled_from(KINDS), st.just(""), st.booleans(), st.booleans(), WINDOWS
) | st.builds(
    RecordFormat, st.just("delimited"), st.sampled_from(",;|\t \x01+edn:'\""), st.booleans(), st.booleans(), WINDOWS
)  # fmt: skip


@given(format=FORMATS)
def test_a_name_is_parsed_as_it_was_written(format: RecordFormat) -> None:
    assert parse_format(str(format)) == format


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("json", RecordFormat("json")),
        ("delimited", RecordFormat("delimited", ",")),
        ("delimited|+named+epoch", RecordFormat("delimited", "|", is_named=True, has_number_moments=True)),
        ("json+epoch+session", RecordFormat("json", has_number_moments=True, window=Session(0, 0))),
        ("kafka+window30000", RecordFormat("kafka", window=Hopping(30_000, 30_000, 0))),
    ],
)
def test_names_that_lie_in_lakes(name: str, format: RecordFormat) -> None:
    assert (parse_format(name), str(format)) == (format, name)


def test_which_formats_find_fields_by_name() -> None:
    assert [kind for kind in (*KINDS, "delimited") if parse_format(kind).is_by_name] == ["json", "json_any_case"]
    assert [kind for kind in (*KINDS, "delimited") if parse_format(kind).is_json] == [
        "json",
        "json_any_case",
        "json_bare",
    ]


def test_options_of_avro_stand_in_the_name_of_a_format() -> None:
    for options in (SchemaOptions(), SchemaOptions(7, "io.shop.Order", has_millis=True), SchemaOptions(name="é+%&=")):
        format = RecordFormat("avro", is_named=True, options=str(options))
        assert parse_format(str(format)) == format
        assert parse_schema_options(format.options) == options
    assert str(SchemaOptions(7, "io.shop.Order", has_millis=True)) == "id=7&name=io.shop.Order&timestamps=millis"
    assert check_full_name("io.shop.Order_2", "name") == "io.shop.Order_2"
    for name in ("", "a..b", "1a", "a b", "ä"):
        with pytest.raises(PlanError, match="expected a record's full name in Avro"):
            check_full_name(name, "name")


def test_each_kind_has_a_codec() -> None:
    assert list(CODECS) == list(TRAITS)


def test_which_formats_a_declaration_can_name() -> None:
    assert (VALUE_FORMATS, KEY_FORMATS) == (
        ("json", "delimited", "kafka", "avro", "json_sr", "connect_json", "protobuf", "protobuf_nosr"),
        ("kafka", "json", "delimited", "avro", "json_sr", "connect_json", "protobuf", "protobuf_nosr"),
    )
    assert FORMAT_ALIASES == {"csv": "delimited", "primitive": "kafka"}


@pytest.mark.parametrize(
    ("types", "kinds"),
    [
        (["int"], ["json", "delimited", "kafka", "avro", "json_sr", "connect_json", "protobuf", "protobuf_nosr"]),
        (["decimal"], ["json", "delimited", "avro", "json_sr", "connect_json", "protobuf", "protobuf_nosr"]),
        (["int", "string"], ["json", "delimited", "avro", "json_sr", "connect_json", "protobuf", "protobuf_nosr"]),
        (["struct"], ["json", "avro", "json_sr", "connect_json", "protobuf", "protobuf_nosr"]),
        (["int", "map"], ["json", "avro", "json_sr", "connect_json", "protobuf", "protobuf_nosr"]),
    ],
)
def test_which_formats_hold_columns(types: list[str], kinds: list[str]) -> None:
    assert [name for name in VALUE_FORMATS if traits_of(name).holds(types)] == kinds


def test_a_format_of_a_later_version_is_a_name_without_traits() -> None:
    assert (str(parse_format("later+epoch")), parse_format("later+epoch").is_by_name) == ("later+epoch", False)
