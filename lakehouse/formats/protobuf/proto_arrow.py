"""Many messages at once, as columns of Arrow: the fast form of `lakehouse.formats.protobuf.proto_reader`.

ptars reads the same copies of messages into Arrow, and what comes out is converted column by column. It refuses all
messages if one is damaged, and does not say which: Google's library tells, and the others are read again. What can't be
converted here is marked, and the rule reads that record and has the reason. A property test compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.formats.protobuf.proto_reader import fields_to_read, make_copy_reader, well_known_type
from lakehouse.formats.values.text_value import INTEGER_BITS
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column, base_type, field_types, item_type
from lakehouse.plan.protobuf.proto_schema import (
    DATE,
    INTEGER_DIGITS,
    TIMESTAMP,
    WRAPPERS,
    MessageType,
    ProtoField,
    ProtoSchema,
)

# A function that converts an array to a type of Arrow, and says which of its values only the rule can read.
Convert = Callable[[pa.Array, pa.DataType], tuple[pa.Array, np.ndarray]]
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 to 9999
_NANOS = 1_000_000_000


class NotQuick(Exception):
    """This reader can't read a type, or not as the rule does."""


class ArrowReader:
    """A reader of messages of a type into columns. Raises NotQuick, or Unfit if a type does not fit a column's."""

    def __init__(
        self, schema: ProtoSchema, message: MessageType, columns: tuple[Column, ...], *, ignores_case: bool
    ) -> None:
        try:
            from ptars import HandlerPool
        except ImportError:
            raise NotQuick from None
        self._message_class, _ = make_copy_reader(schema, message, columns, ignores_case=ignores_case)
        types_by_name = {column.name: column.type for column in columns}
        descriptor = self._message_class.DESCRIPTOR
        self._convert = _Converters(schema, ignores_case).record(message, types_by_name, descriptor)
        self._handler = _call_ptars(lambda: HandlerPool([descriptor.file]).get_for_message(descriptor))

    def read(self, messages: list[bytes], struct_type: pa.StructType) -> tuple[pa.Array, np.ndarray]:
        """Return a struct of the columns for each message, and which of them only the rule can read.

        Raises NotQuick if only the rule can read any of them.
        """
        try:
            return self._convert(self._raw(messages), struct_type)
        except NotQuick:
            is_whole = self._are_whole(messages)
        # An empty message stands in for a damaged one.
        raw = self._raw([message if whole else b"" for message, whole in zip(messages, is_whole, strict=True)])
        columns, needs_rule = self._convert(raw, struct_type)
        return columns, needs_rule | ~is_whole

    def _raw(self, messages: list[bytes]) -> pa.StructArray:
        array = pa.array(messages, pa.binary())
        return _call_ptars(lambda: self._handler.array_to_record_batch(array)).to_struct_array()

    def _are_whole(self, messages: list[bytes]) -> np.ndarray:
        """Return which messages Google's library can read: ptars says of a batch only that some message is damaged."""
        from google.protobuf.message import DecodeError

        parse_message, are_whole = self._message_class.FromString, np.ones(len(messages), dtype=bool)
        for place, message in enumerate(messages):
            try:
                parse_message(message)
            except DecodeError:
                are_whole[place] = False
        return are_whole


def _call_ptars(call: Callable[[], Any]) -> Any:
    """Return what a call of ptars does. Raises NotQuick: it may end in any error, also in those of Rust."""
    try:
        return call()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise NotQuick from error


class _Converters:
    """The functions that convert what ptars reads."""

    def __init__(self, schema: ProtoSchema, ignores_case: bool) -> None:
        self._schema, self._ignores_case = schema, ignores_case

    def record(self, message: MessageType, types_by_name: Mapping[str, str], descriptor: Any) -> Convert:
        """Return the function that converts structs of a message's copy. Raises NotQuick.

        descriptor: of the copy.
        """
        copies = descriptor.fields_by_name
        steps = {
            name: (place, self._field(field, types_by_name[name], copies[place].message_type))
            for name, field, place in fields_to_read(message, types_by_name, ignores_case=self._ignores_case)
        }
        # ptars gives all members that it has seen, and not only the last one.
        groups = [[field.name for field in oneof.fields] for oneof in descriptor.oneofs if len(oneof.fields) > 1]

        def convert(array: pa.Array, struct_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
            is_null, needs_rule = _nulls(array), np.zeros(len(array), dtype=bool)
            for group in groups:
                needs_rule |= sum((~_nulls(array.field(place))).astype(int) for place in group) > 1
            children = []
            for target in struct_type:
                if target.name not in steps:
                    children.append(pa.nulls(len(array), target.type))
                    continue
                place, convert_field = steps[target.name]
                child, child_needs_rule = convert_field(array.field(place), target.type)
                children.append(child)
                needs_rule |= child_needs_rule
            fields = [pa.field(target.name, target.type) for target in struct_type]
            struct = pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(is_null))
            return struct, needs_rule & ~is_null

        return convert

    def _field(self, field: ProtoField, declared_type: str, descriptor: Any) -> Convert:
        if base_type(declared_type) == "map":
            raise NotQuick  # of equal keys another one may count
        if not field.is_repeated:
            return self._single(field, declared_type, descriptor)
        convert_item = self._single(field, item_type(declared_type), descriptor)

        def convert(array: pa.Array, list_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
            items, item_needs_rule = convert_item(array.flatten(), list_type.value_type)
            lengths = _integers(pc.list_value_length(array))
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            needs_rule = np.zeros(len(array), dtype=bool)
            needs_rule[np.repeat(np.arange(len(array)), lengths)[item_needs_rule]] = True
            return pa.ListArray.from_arrays(pa.array(offsets), items, type=list_type), needs_rule

        return convert

    def _single(self, field: ProtoField, declared_type: str, descriptor: Any) -> Convert:
        base_name = base_type(declared_type)
        if field.kind == "enum":
            return _enum_column(self._schema.enums.get(field.type_name, ()))
        if field.kind != "message":
            is_checked = field.kind in INTEGER_DIGITS and base_name in (*INTEGER_BITS, "decimal")
            return _number_column if is_checked else _unchanged_column
        message = self._schema.message_of(field)
        if base_name == "struct":
            return self.record(message, field_types(declared_type), descriptor)
        if message.name in WRAPPERS:
            if (value := message.field("value")) is None:
                raise NotQuick
            return _unwrap_value(self._single(value, declared_type, None))
        if message.name == TIMESTAMP:
            return self._members_converter(message, declared_type, _timestamp_column)
        if message.name == DATE:
            return self._members_converter(message, declared_type, _date_column)
        members, make_value = well_known_type(message.name, declared_type)
        assert make_value is not None, "judged before"
        return self._members_converter(message, declared_type, _converter_by_value(list(members), make_value))

    def _members_converter(self, message: MessageType, declared_type: str, convert_members: Convert) -> Convert:
        """Return the function that converts a message by its members, which it gets under their own names."""
        members, _ = well_known_type(message.name, declared_type)
        fields = fields_to_read(message, members, ignores_case=False)

        def convert(array: pa.Array, target_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
            is_null = _nulls(array)
            arrays = [array.field(place) for _, _, place in fields]
            named = pa.StructArray.from_arrays(arrays, names=[name for name, _, _ in fields])
            values, needs_rule = convert_members(named, target_type)
            return pc.if_else(pa.array(is_null), pa.nulls(len(array), target_type), values), needs_rule & ~is_null

        return convert


def _nulls(array: pa.Array) -> np.ndarray:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=bool)


def _integers(array: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(array, 0).to_numpy(zero_copy_only=False), dtype=np.int64)


def _none_needs_rule(array: pa.Array) -> np.ndarray:
    return np.zeros(len(array), dtype=bool)


def _unchanged_column(array: pa.Array, target_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    return array.cast(target_type), _none_needs_rule(array)


def _number_column(array: pa.Array, target_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """Convert integers to an integer type, where they are in its range, or to a decimal that can hold all of them."""
    try:
        return array.cast(target_type), _none_needs_rule(array)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # One by one: some are out of the range, or Arrow has no such conversion.
        needs_rule = np.array([not _can_hold(value, target_type) for value in array.to_pylist()], dtype=bool)
        whole_values = pc.if_else(pa.array(needs_rule), pa.scalar(0, array.type), array)
        try:
            return whole_values.cast(target_type), needs_rule
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise NotQuick from error


def _can_hold(value: int | None, target_type: pa.DataType) -> bool:
    if value is None or not pa.types.is_integer(target_type):
        return True
    limit: int = 1 << (target_type.bit_width - 1)
    return -limit <= value < limit


def _enum_column(symbols: tuple[tuple[str, int], ...]) -> Convert:
    names: dict[int, str] = {}
    for name, number in symbols:
        names.setdefault(number, name)
    known_numbers, known_names = pa.array(list(names), pa.int32()), pa.array(list(names.values()), pa.string())

    def convert(array: pa.Array, target_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
        texts = known_names.take(pc.index_in(array, value_set=known_numbers))
        return texts.cast(target_type), _nulls(texts) & ~_nulls(array)

    return convert


def _unwrap_value(convert_value: Convert) -> Convert:
    def convert(array: pa.Array, target_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
        is_null = _nulls(array)
        values, needs_rule = convert_value(array.field(0), target_type)
        return pc.if_else(pa.array(is_null), pa.nulls(len(array), target_type), values), needs_rule & ~is_null

    return convert


def _timestamp_column(members: pa.StructArray, target_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    seconds, nanos = (_integers(members.field(name)) for name in ("seconds", "nanos"))
    needs_rule = (seconds < _FIRST_SECOND) | (seconds > _LAST_SECOND) | (nanos < 0) | (nanos >= _NANOS)
    micros = np.where(needs_rule, 0, seconds) * 1_000_000 + np.where(needs_rule, 0, nanos) // 1000
    return pa.array(micros, pa.int64()).cast(target_type), needs_rule


def _date_column(members: pa.StructArray, target_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    year, month, day = (_integers(members.field(name)) for name in ("year", "month", "day"))
    needs_rule = (year < 1) | (year > 9999) | (month < 1) | (month > 12) | (day < 1) | (day > 31)
    months = np.where(needs_rule, 0, (year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + np.where(needs_rule, 0, day - 1).astype("timedelta64[D]")
    needs_rule |= days.astype("datetime64[M]") != months  # the 30th of February
    return pa.array(days.astype(np.int32), pa.int32()).cast(target_type), needs_rule


def _converter_by_value(names: list[str], make_value: Callable[..., Any]) -> Convert:
    """Return the function that makes each value by the rule: what Arrow has no conversion for."""

    def convert(members: pa.StructArray, target_type: pa.DataType) -> tuple[pa.Array, np.ndarray]:
        values: list[Any] = []
        needs_rule = _none_needs_rule(members)
        columns = [members.field(name).to_pylist() for name in names]
        for place, member_values in enumerate(zip(*columns, strict=True)):
            try:
                values.append(make_value(*member_values))
            except Unfit:
                values.append(None)
                needs_rule[place] = True
        return pa.array(values, target_type), needs_rule

    return convert
