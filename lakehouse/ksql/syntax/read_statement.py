"""Statements out of lark's tree."""

from __future__ import annotations

from typing import Any

from lark import Token, Tree

from lakehouse.duration import LONGEST_MS
from lakehouse.errors import SqlError
from lakehouse.ksql.syntax import statement as s
from lakehouse.ksql.syntax.read_expression import ExpressionReader, Part, at_of, name_of, text_of
from lakehouse.ksql.syntax.tree import Expr, Name, Value

UNITS_MS = {"MILLISECOND": 1, "SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
HOW: dict[str, s.HowJoined] = {"LEFT": "left", "RIGHT": "right", "FULL": "outer", "OUTER": "outer"}
NUMBER_MAX = 2**31 - 1


class StatementReader(ExpressionReader):
    """Reads statements."""

    def statement(self, part: Part) -> s.Statement:
        """Return a statement."""
        read: Any = getattr(self, f"_read_{part.data}")
        statement: s.Statement = read(part, at_of(part))
        return statement

    def _read_create_source(self, part: Part, at: int) -> s.Statement:
        elements = _child(part, "elements")
        return s.CreateSource(
            _word(part, "kind"), self._name(part), tuple(map(self._element_of, elements.children if elements else ())),
            self._properties(part), _has(part, "or_replace"), _has(part, "if_not_exists"), _has_token(part, "SOURCE"),
            at=at,
        )  # fmt: skip

    def _element_of(self, part: Part) -> s.SchemaElement:
        name, kind, *role = part.children
        tokens = role[0].children if role else []
        words = " ".join(str(one).upper() for one in tokens if one.type != "STRING" and str(one) not in ("(", ")"))
        header = next((text_of(token) for token in tokens if token.type == "STRING"), "")
        return s.SchemaElement(name_of(name), self.kind(kind), words, header, at_of(part))

    def _read_alter(self, part: Part, at: int) -> s.Statement:
        added = (self._element_of(child) for child in part.children if child.data == "added")
        return s.Alter(_word(part, "kind"), self._name(part), tuple(added), at=at)

    def _read_create_as(self, part: Part, at: int) -> s.Statement:
        return s.CreateAs(
            _word(part, "kind"), self._name(part), self._query(_child(part, "query")), self._properties(part),
            _has(part, "or_replace"), _has(part, "if_not_exists"), at=at,
        )  # fmt: skip

    def _read_insert_select(self, part: Part, at: int) -> s.Statement:
        return s.InsertSelect(self._name(part), self._query(_child(part, "query")), self._properties(part), at=at)

    def _read_insert_values(self, part: Part, at: int) -> s.Statement:
        names = _child(part, "name_list")
        values = [self.expression(c) for c in part.children if c.data not in ("name", "name_list")]
        listed = tuple(map(name_of, names.children)) if names else ()
        return s.InsertValues(self._name(part), listed, tuple(values), at=at)

    def _read_select_statement(self, part: Part, at: int) -> s.Statement:
        return self._query(part.children[0])

    def _read_drop(self, part: Part, at: int) -> s.Statement:
        kind = _word(part, "kind")
        return s.Drop(kind, self._name(part), _has(part, "if_exists"), _has(part, "delete_topic"), at=at)

    def _read_drop_type(self, part: Part, at: int) -> s.Statement:
        return s.Drop("TYPE", self._name(part), _has(part, "if_exists"), at=at)

    def _read_create_type(self, part: Part, at: int) -> s.Statement:
        kind = next(c for c in part.children if c.data.endswith("_type"))
        return s.CreateType(self._name(part), self.kind(kind), _has(part, "if_not_exists"), at=at)

    def _read_describe(self, part: Part, at: int) -> s.Statement:
        function = _child(part, "describe_function")
        name = name_of(function.children[0]) if function else self._name(part)
        return s.Describe(name, function is not None, _has(part, "extended"), at=at)

    def _read_describe_extended(self, part: Part, at: int) -> s.Statement:
        return s.Describe(self._name(part), extended=True, at=at)

    def _read_show(self, part: Part, at: int) -> s.Statement:
        return s.Show(_word(part, "shown"), _has(part, "extended"), at=at)

    def _read_explain(self, part: Part, at: int) -> s.Statement:
        of = part.children[0]
        return s.Explain(str(of).upper() if isinstance(of, Token) else self.statement(of), at=at)

    def _read_print_topic(self, part: Part, at: int) -> s.Statement:
        interval = _child(part, "interval")
        every = _number(interval.children[0]) if interval else 1
        return s.Print(self._topic(part), _has(part, "print_from"), every, self._limit(part), at=at)

    def _read_query_control(self, part: Part, at: int) -> s.Statement:
        word, name = part.children
        return s.Control(str(word).upper(), name_of(name), at=at)

    def _read_set_property(self, part: Part, at: int) -> s.Statement:
        name, value = map(text_of, part.children)
        return s.SetProperty(name, value, at=at)

    def _read_unset_property(self, part: Part, at: int) -> s.Statement:
        return s.SetProperty(text_of(part.children[0]), None, at=at)

    def _read_define(self, part: Part, at: int) -> s.Statement:
        return s.Define(self._name(part), text_of(part.children[1]), at=at)

    def _read_undefine(self, part: Part, at: int) -> s.Statement:
        return s.Define(self._name(part), None, at=at)

    def _read_assert_topic(self, part: Part, at: int) -> s.Statement:
        return s.AssertTopic(self._topic(part), self._properties(part), not _has(part, "not_exists"), at=at)

    def _read_assert_rows(self, part: Part, at: int) -> s.Statement:
        if _child(part, "kind"):
            elements = tuple(map(self._element_of, _child(part, "elements").children)) if _has(part, "elements") else ()
            return s.AssertSource(_word(part, "kind"), self._name(part), elements, self._properties(part), at=at)
        values = [c for c in part.children if c.data not in ("name", "name_list", "null_values")]
        names = tuple(map(name_of, _child(part, "name_list").children))
        shown = tuple(self.expression(c) for c in values)
        return s.AssertValues(self._name(part), names, shown, _has(part, "null_values"), at=at)

    # ---- parts of statements

    def _name(self, part: Part) -> str:
        return name_of(_child(part, "name"))

    def _topic(self, part: Part) -> str:
        named = _child(part, "name")
        return name_of(named) if named else text_of(next(c for c in part.children if isinstance(c, Token)))

    def _properties(self, part: Part) -> s.Properties:
        found: s.Properties = {}
        given = _child(part, "with")
        for item in given.children if given else ():
            named, value = item.children
            inner = named.children[0]
            is_text = isinstance(inner, Token)
            name = text_of(inner).upper() if is_text else name_of(inner)
            of = self.expression(value)
            if not isinstance(of, Value | Name):
                raise SqlError(f"{name} takes a value, not an expression", of.at)
            if name in found:
                raise SqlError(f"the property {name} is given twice", at_of(item))
            found[name] = of
        return found

    def _limit(self, part: Part) -> int | None:
        given = _child(part, "limit")
        return _number(given.children[0]) if given else None

    def _query(self, part: Part) -> s.Query:
        emit, window = _child(part, "emit"), _child(part, "window")
        having = self._clause(part, "having")
        return s.Query(
            tuple(map(self._item, _child(part, "items").children)),
            _relation(_child(part, "relation")),
            tuple(self._join(c) for c in part.children if c.data == "join"),
            self._window(window.children[-1]) if window else None,
            next(iter(self._clause(part, "where")), None),
            self._clause(_child(part, "group_by"), "group_items") if _has(part, "group_by") else (),
            self._clause(part, "partition_by"),
            having[0] if having else None,
            str(emit.children[1]).upper() if emit else None,
            _moment(_child(part, "moment")),
            self._limit(part),
            at=at_of(part),
        )

    def _clause(self, part: Part, name: str) -> tuple[Expr, ...]:
        clause = _child(part, name)
        if clause is None:
            return ()
        parts = clause.children
        inner = parts[0]
        while len(parts) == 1 and isinstance(inner, Tree) and inner.data in ("any_of", "all_of", "group"):
            if inner.data == "group":  # GROUP BY (a, b)
                parts = inner.children
            inner = inner.children[0] if len(inner.children) == 1 else None
        return tuple(map(self.expression, parts))

    def _item(self, part: Part) -> s.Item:
        at = at_of(part)
        match part.data:
            case "all_items":
                return s.Item(None, at=at)
            case "all_items_of":
                return s.Item(None, of=name_of(part.children[0]), at=at)
            case "named_item":
                return s.Item(self.expression(part.children[0]), name_of(part.children[1]), at=at)
        return s.Item(self.expression(part.children[0]), at=at)

    def _join(self, part: Part) -> s.JoinClause:
        words = [str(token).upper() for token in part.children[0].children]
        how = HOW.get(words[0], "inner")
        within, grace = _child(part, "within"), None
        spans: list[int] = []
        if within:
            spans = [_duration(c) for c in within.children if c.data == "duration"]
            grace = _length(within, "grace")
        bounds = (spans[0], spans[-1]) if spans else None
        on = self.expression(part.children[-1])
        return s.JoinClause(how, _relation(_child(part, "relation")), on, bounds, grace, at_of(part))

    def _window(self, part: Part) -> s.WindowClause:
        lengths = [_duration(c) for c in part.children if c.data == "duration"]
        return s.WindowClause(
            str(part.data).upper(), lengths[0], lengths[1] if part.data == "hopping" else None,
            _length(part, "retention"), _length(part, "grace"), at_of(part),
        )  # fmt: skip


def _child(part: Part, name: str) -> Part:
    return next((c for c in part.children if isinstance(c, Tree) and c.data == name), None)


def _has(part: Part, name: str) -> bool:
    return _child(part, name) is not None


def _has_token(part: Part, name: str) -> bool:
    return any(isinstance(c, Token) and c.type == name for c in part.children)


def _word(part: Part, name: str) -> str:
    return " ".join(str(token).upper() for token in _child(part, name).children)


def _relation(part: Part) -> s.Relation:
    name, *alias = part.children
    return s.Relation(name_of(name), name_of(alias[0] if alias else name), at_of(part))


def _number(token: Part) -> int:
    if len(token) > 10 or int(token) > NUMBER_MAX:
        raise SqlError(f"expected a whole number up to {NUMBER_MAX}", at_of(token), found=str(token)[:40])
    return int(token)


def _duration(part: Part) -> int:
    number, unit = part.children
    word = str(unit).upper()
    length = UNITS_MS.get(word.removesuffix("S"))
    if length is None:
        right = "a unit of time: DAYS, HOURS, MINUTES, SECONDS or MILLISECONDS"
        raise SqlError("unknown unit of time", at_of(unit), found=word, expected=right)
    total = _number(number) * length
    if total > LONGEST_MS:
        raise SqlError(f"a time of at most {LONGEST_MS // UNITS_MS['DAY']} DAYS is possible", at_of(number),
                       found=f"{number} {word}")  # fmt: skip
    return total


def _length(part: Part, name: str) -> int | None:
    given = _child(part, name)
    return _duration(given.children[0]) if given else None


def _moment(part: Part) -> s.MomentClause | None:
    if part is None:
        return None
    (given,) = part.children
    if isinstance(given, Token):
        return s.MomentClause("AT", text_of(given), at_of(part))
    if given.data == "at_offsets":
        return s.MomentClause("OFFSETS", text_of(given.children[0]), at_of(part))
    word, value = given.children
    return s.MomentClause(str(word).upper(), text_of(value) if value.type == "STRING" else str(value), at_of(part))
