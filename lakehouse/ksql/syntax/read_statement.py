"""Read statements from lark's tree."""

from __future__ import annotations

from typing import Any

from lark import Token, Tree

from lakehouse.duration import LONGEST_MS
from lakehouse.errors import SqlError
from lakehouse.ksql.syntax import statement as s
from lakehouse.ksql.syntax.read_expression import ExpressionReader, Part, name_of, position_of, text_of, written_name
from lakehouse.ksql.syntax.tree import Expr, Name, Value

UNITS_MS = {"MILLISECOND": 1, "SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
HOW: dict[str, s.HowJoined] = {"LEFT": "left", "RIGHT": "right", "FULL": "outer", "OUTER": "outer"}
NUMBER_MAX = 2**31 - 1


class StatementReader(ExpressionReader):
    """A reader of statements, and of the expressions in them."""

    def statement(self, part: Part) -> s.Statement:
        """Return a statement."""
        read_part: Any = getattr(self, f"_read_{part.data}")
        statement: s.Statement = read_part(part, position_of(part))
        return statement

    def _read_create_source(self, part: Part, position: int) -> s.Statement:
        element_parts, constraint_parts = _split_elements(part)
        return s.CreateSource(
            _child_words(part, "kind"),
            self._name(part),
            tuple(map(self._schema_element, element_parts)),
            self._with_properties(part),
            _has_child(part, "or_replace"),
            _has_child(part, "if_not_exists"),
            _has_token(part, "SOURCE"),
            tuple(map(self._constraint, constraint_parts)),
            position=position,
        )

    def _constraint(self, part: Part) -> s.Constraint | s.TableConstraint:
        word_part, name_part, expectation = part.children
        if name_of(word_part) != "CONSTRAINT":
            raise SqlError(
                "EXPECT is for a constraint", position_of(part), found=name_of(word_part),
                expected="CONSTRAINT name EXPECT (condition)",
            )  # fmt: skip
        if name_part.data != "plain_type" or len(name_part.children) != 1:
            raise SqlError("a constraint has a name", position_of(name_part), expected="CONSTRAINT name EXPECT (...)")
        name = name_of(name_part.children[0].children[0])
        condition, *violation_parts = expectation.children
        if isinstance(condition, Token):
            return s.TableConstraint(name, (), text_of(condition), position_of(part))
        if condition.data == "name_list":
            return s.TableConstraint(name, tuple(map(name_of, condition.children)), "", position_of(part))
        violation = name_of(violation_parts[0]) if violation_parts else ""
        return s.Constraint(name, self.expression(condition), violation, position_of(part))

    def _schema_element(self, part: Part) -> s.SchemaElement:
        name_part, kind_part, *role_parts = part.children
        role_tokens = role_parts[0].children if role_parts else []
        role_words = " ".join(
            str(word_token).upper()
            for word_token in role_tokens
            if word_token.type != "STRING" and str(word_token) not in ("(", ")")
        )
        header_name = next((text_of(token) for token in role_tokens if token.type == "STRING"), "")
        return s.SchemaElement(name_of(name_part), self.kind(kind_part), role_words, header_name, position_of(part))

    def _read_alter(self, part: Part, position: int) -> s.Statement:
        added_elements = (self._schema_element(child) for child in part.children if child.data == "added")
        return s.Alter(_child_words(part, "kind"), self._name(part), tuple(added_elements), position=position)

    def _read_create_as(self, part: Part, position: int) -> s.Statement:
        element_parts, constraint_parts = _split_elements(part)
        if element_parts:
            raise SqlError(
                "the columns of CREATE ... AS SELECT are those of its query", position_of(element_parts[0]),
                expected="CONSTRAINT name EXPECT (condition), or AS SELECT",
            )  # fmt: skip
        return s.CreateAs(
            _child_words(part, "kind"),
            self._name(part),
            self._query(_find_child(part, "query")),
            self._with_properties(part),
            _has_child(part, "or_replace"),
            _has_child(part, "if_not_exists"),
            tuple(map(self._constraint, constraint_parts)),
            position=position,
        )

    def _read_insert_select(self, part: Part, position: int) -> s.Statement:
        return s.InsertSelect(
            self._name(part), self._query(_find_child(part, "query")), self._with_properties(part), position=position
        )

    def _read_insert_values(self, part: Part, position: int) -> s.Statement:
        name_list = _find_child(part, "name_list")
        values = [self.expression(child) for child in part.children if child.data not in ("name", "name_list")]
        column_names = tuple(map(name_of, name_list.children)) if name_list else ()
        return s.InsertValues(self._name(part), column_names, tuple(values), position=position)

    def _read_select_statement(self, part: Part, position: int) -> s.Statement:
        return self._query(part.children[0])

    def _read_drop(self, part: Part, position: int) -> s.Statement:
        kind = _child_words(part, "kind")
        return s.Drop(
            kind, self._name(part), _has_child(part, "if_exists"), _has_child(part, "delete_topic"), position=position
        )

    def _read_drop_type(self, part: Part, position: int) -> s.Statement:
        return s.Drop("TYPE", self._name(part), _has_child(part, "if_exists"), position=position)

    def _read_create_type(self, part: Part, position: int) -> s.Statement:
        kind_part = next(child for child in part.children if child.data.endswith("_type"))
        return s.CreateType(
            self._name(part), self.kind(kind_part), _has_child(part, "if_not_exists"), position=position
        )

    def _read_describe(self, part: Part, position: int) -> s.Statement:
        function_part = _find_child(part, "describe_function")
        name = name_of(function_part.children[0]) if function_part else self._name(part)
        return s.Describe(name, function_part is not None, _has_child(part, "extended"), position=position)

    def _read_describe_extended(self, part: Part, position: int) -> s.Statement:
        return s.Describe(self._name(part), is_extended=True, position=position)

    def _read_show(self, part: Part, position: int) -> s.Statement:
        return s.Show(_child_words(part, "shown"), _has_child(part, "extended"), position=position)

    def _read_explain(self, part: Part, position: int) -> s.Statement:
        target = part.children[0]
        return s.Explain(
            str(target).upper() if isinstance(target, Token) else self.statement(target), position=position
        )

    def _read_print_topic(self, part: Part, position: int) -> s.Statement:
        interval_part = _find_child(part, "interval")
        print_interval = _parse_whole(interval_part.children[0]) if interval_part else 1
        return s.Print(
            self._topic(part),
            _has_child(part, "print_from"),
            print_interval,
            self._limit_number(part),
            position=position,
        )

    def _read_query_control(self, part: Part, position: int) -> s.Statement:
        word, name = part.children
        return s.Control(str(word).upper(), name_of(name), position=position)

    def _read_set_property(self, part: Part, position: int) -> s.Statement:
        name, value = map(text_of, part.children)
        return s.SetProperty(name, value, position=position)

    def _read_unset_property(self, part: Part, position: int) -> s.Statement:
        return s.SetProperty(text_of(part.children[0]), None, position=position)

    def _read_define(self, part: Part, position: int) -> s.Statement:
        return s.Define(_variable_name(part), text_of(part.children[1]), position=position)

    def _read_undefine(self, part: Part, position: int) -> s.Statement:
        return s.Define(_variable_name(part), None, position=position)

    def _read_assert_topic(self, part: Part, position: int) -> s.Statement:
        timeout_part = _find_child(part, "timeout")
        return s.AssertTopic(
            self._topic(part),
            self._with_properties(part),
            not _has_child(part, "not_exists"),
            _parse_duration(timeout_part) if timeout_part else 0,
            position=position,
        )

    def _read_assert_rows(self, part: Part, position: int) -> s.Statement:
        if _find_child(part, "kind"):
            elements = (
                tuple(map(self._schema_element, _find_child(part, "elements").children))
                if _has_child(part, "elements")
                else ()
            )
            return s.AssertSource(
                _child_words(part, "kind"), self._name(part), elements, self._with_properties(part), position=position
            )
        value_parts = [child for child in part.children if child.data not in ("name", "name_list", "null_values")]
        column_names = tuple(map(name_of, _find_child(part, "name_list").children))
        expected_values = tuple(self.expression(child) for child in value_parts)
        return s.AssertValues(
            self._name(part), column_names, expected_values, _has_child(part, "null_values"), position=position
        )

    # ---- parts of statements

    def _name(self, part: Part) -> str:
        return name_of(_find_child(part, "name"))

    def _topic(self, part: Part) -> str:
        """Return a topic's name, as it is written in or without quotes: Kafka tells cases apart."""
        name_part = _find_child(part, "name")
        return (
            written_name(name_part)
            if name_part
            else text_of(next(child for child in part.children if isinstance(child, Token)))
        )

    def _with_properties(self, part: Part) -> s.Properties:
        properties: s.Properties = {}
        with_part = _find_child(part, "with")
        for item in with_part.children if with_part else ():
            name_part, value_part = item.children
            name_token = name_part.children[0]
            is_text = isinstance(name_token, Token)
            property_name = text_of(name_token).upper() if is_text else name_of(name_token)
            property_value = self.expression(value_part)
            if not isinstance(property_value, Value | Name):
                raise SqlError(f"{property_name} takes a value, not an expression", property_value.position)
            if property_name in properties:
                raise SqlError(f"the property {property_name} is given twice", position_of(item))
            properties[property_name] = property_value
        return properties

    def _limit_number(self, part: Part) -> int | None:
        limit_part = _find_child(part, "limit")
        return _parse_whole(limit_part.children[0]) if limit_part else None

    def _query(self, part: Part) -> s.Query:
        emit_part, window_part = _find_child(part, "emit"), _find_child(part, "window")
        having_items = self._clause_items(part, "having")
        return s.Query(
            tuple(map(self._item, _find_child(part, "items").children)),
            _read_relation(_find_child(part, "relation")),
            tuple(self._join(child) for child in part.children if child.data == "join"),
            self._window_clause(window_part.children[-1]) if window_part else None,
            next(iter(self._clause_items(part, "where")), None),
            self._clause_items(_find_child(part, "group_by"), "group_items") if _has_child(part, "group_by") else (),
            self._clause_items(part, "partition_by"),
            having_items[0] if having_items else None,
            str(emit_part.children[1]).upper() if emit_part else None,
            _moment_clause(_find_child(part, "moment")),
            self._limit_number(part),
            position=position_of(part),
        )

    def _clause_items(self, part: Part, name: str) -> tuple[Expr, ...]:
        clause = _find_child(part, name)
        if clause is None:
            return ()
        parts = clause.children
        inner_part = parts[0]
        while len(parts) == 1 and isinstance(inner_part, Tree) and inner_part.data in ("any_of", "all_of", "group"):
            if inner_part.data == "group":  # GROUP BY (a, b)
                parts = inner_part.children
            inner_part = inner_part.children[0] if len(inner_part.children) == 1 else None
        return tuple(map(self.expression, parts))

    def _item(self, part: Part) -> s.Item:
        position = position_of(part)
        match part.data:
            case "all_items":
                return s.Item(None, position=position)
            case "all_items_of":
                return s.Item(None, source=name_of(part.children[0]), position=position)
            case "named_item":
                return s.Item(self.expression(part.children[0]), name_of(part.children[1]), position=position)
        return s.Item(self.expression(part.children[0]), position=position)

    def _join(self, part: Part) -> s.JoinClause:
        join_words = [str(token).upper() for token in part.children[0].children]
        join_type = HOW.get(join_words[0], "inner")
        within_part, grace_ms = _find_child(part, "within"), None
        span_lengths: list[int] = []
        if within_part:
            span_lengths = [_parse_duration(child) for child in within_part.children if child.data == "duration"]
            grace_ms = _child_duration(within_part, "grace")
        join_span = (span_lengths[0], span_lengths[-1]) if span_lengths else None
        on_clause = self.expression(part.children[-1])
        return s.JoinClause(
            join_type, _read_relation(_find_child(part, "relation")), on_clause, join_span, grace_ms, position_of(part)
        )

    def _window_clause(self, part: Part) -> s.WindowClause:
        window_lengths = [_parse_duration(child) for child in part.children if child.data == "duration"]
        return s.WindowClause(
            str(part.data).upper(), window_lengths[0], window_lengths[1] if part.data == "hopping" else None,
            _child_duration(part, "retention"), _child_duration(part, "grace"), position_of(part),
        )  # fmt: skip


def _variable_name(part: Part) -> str:
    """Return a variable's name, which is found in any case and, unlike a column's, never escaped."""
    return written_name(_find_child(part, "name")).upper()


def _split_elements(part: Part) -> tuple[list[Part], list[Part]]:
    """Return the columns between a statement's parentheses, and the constraints."""
    elements = _find_child(part, "elements")
    all_parts = list(elements.children) if elements else []
    constraint_parts = [child for child in all_parts if _has_child(child, "expectation")]
    return [child for child in all_parts if child not in constraint_parts], constraint_parts


def _find_child(part: Part, name: str) -> Part:
    return next((child for child in part.children if isinstance(child, Tree) and child.data == name), None)


def _has_child(part: Part, name: str) -> bool:
    return _find_child(part, name) is not None


def _has_token(part: Part, name: str) -> bool:
    return any(isinstance(child, Token) and child.type == name for child in part.children)


def _child_words(part: Part, name: str) -> str:
    return " ".join(str(token).upper() for token in _find_child(part, name).children)


def _read_relation(part: Part) -> s.Relation:
    name_part, *alias_parts = part.children
    return s.Relation(name_of(name_part), name_of(alias_parts[0] if alias_parts else name_part), position_of(part))


def _parse_whole(token: Part) -> int:
    if len(token) > 10 or int(token) > NUMBER_MAX:
        raise SqlError(f"expected a whole number up to {NUMBER_MAX}", position_of(token), found=str(token)[:40])
    return int(token)


def _parse_duration(part: Part) -> int:
    number_token, unit_token = part.children
    unit_word = written_name(unit_token).upper()
    unit_ms = UNITS_MS.get(unit_word.removesuffix("S"))
    if unit_ms is None:
        expected_units = "a unit of time: DAYS, HOURS, MINUTES, SECONDS or MILLISECONDS"
        raise SqlError("unknown unit of time", position_of(unit_token), found=unit_word, expected=expected_units)
    total_ms = _parse_whole(number_token) * unit_ms
    if total_ms > LONGEST_MS:
        raise SqlError(f"a time of at most {LONGEST_MS // UNITS_MS['DAY']} DAYS is possible", position_of(number_token),
                       found=f"{number_token} {unit_word}")  # fmt: skip
    return total_ms


def _child_duration(part: Part, name: str) -> int | None:
    child = _find_child(part, name)
    return _parse_duration(child.children[0]) if child else None


def _moment_clause(part: Part) -> s.MomentClause | None:
    if part is None:
        return None
    (moment_part,) = part.children
    if isinstance(moment_part, Token):
        return s.MomentClause("AT", text_of(moment_part), position_of(part))
    if moment_part.data in ("at_offsets", "at_source"):
        way = moment_part.data.removeprefix("at_").upper()
        return s.MomentClause(way, text_of(moment_part.children[-1]), position_of(part))
    way_token, value_token = moment_part.children
    return s.MomentClause(
        str(way_token).upper(),
        text_of(value_token) if value_token.type == "STRING" else str(value_token),
        position_of(part),
    )
