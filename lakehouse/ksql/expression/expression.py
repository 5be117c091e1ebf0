"""Expressions with ksqlDB's meaning, as Spark SQL.

ksqlDB differs from Spark: a whole number divided by another gives a whole number; positions in an array count from 1,
negative ones from its end; + joins texts; a text is never compared with a number; in LIKE a backslash has no meaning; a
text literal beside a moment is read as a moment when the statement is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from lakehouse.errors import SqlError
from lakehouse.ksql.expression.arithmetic import (
    compile_arithmetic,
    compile_negation,
    element_at,
    escaped_pattern,
    like_pattern,
)
from lakehouse.ksql.expression.cast import as_moment, as_times, cast
from lakehouse.ksql.expression.common_types import (
    cast_to_kind,
    coerce_list,
    common_list_kind,
    comparable_value,
    require_common_kind,
)
from lakehouse.ksql.function import call
from lakehouse.ksql.function.lambda_body import lambda_sql
from lakehouse.ksql.function.moment import WITH_UNIT
from lakehouse.ksql.function.moment_literal import moment_literal
from lakehouse.ksql.function.record import LambdaSql
from lakehouse.ksql.function.sql import Sql, column_sql, condition_sql, literal_sql, text_literal
from lakehouse.ksql.function.sql import fitted as as_kind
from lakehouse.ksql.function.table import NOT_HERE
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import tree as t
from lakehouse.plan.refused.near import suggest_near

COMPARED = {"=": "EQUAL(=)", "<>": "NOT_EQUAL(<>)", "<": "LESS_THAN(<)", "<=": "LESS_THAN_OR_EQUAL(<=)",
            ">": "GREATER_THAN(>)", ">=": "GREATER_THAN_OR_EQUAL(>=)"}  # fmt: skip
TEXT_MAX = 200_000


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    """A column that an expression may read: its name, its source's alias, and its Spark SQL."""

    name: str
    source: str
    sql: Sql


@dataclass(frozen=True)
class ColumnScope:
    """The columns that an expression may read.

    pseudo_columns: those that * leaves out. precomputed: the Spark SQL of expressions that columns hold already.
    names: the parameters of lambdas; depth: how many lambdas are around. limits: how many values an aggregate keeps,
    by its name.
    """

    columns: tuple[ScopeColumn, ...]
    pseudo_columns: tuple[ScopeColumn, ...] = ()
    precomputed: dict[t.Expr, Sql] = field(default_factory=dict)
    names: dict[str, Sql] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    depth: int = 0

    def sql(self, node: t.Expr) -> Sql:
        """Return an expression as Spark SQL with its type. Raises SqlError where it has no meaning."""
        if node in self.precomputed:
            return self.precomputed[node]
        compile_node: Callable[[t.Expr], Sql] = getattr(self, f"_compile_{type(node).__name__.lower()}")
        compiled = compile_node(node)
        if len(compiled.text) > TEXT_MAX and not isinstance(
            node, t.Value
        ):  # some functions need an argument's text more than once
            raise SqlError("this becomes too long as Spark SQL; compute a part of it in a stream before", node.position)
        return compiled

    def predicate(self, node: t.Expr, clause: str) -> str:
        """Return a condition as Spark SQL, for a place where null counts as false."""
        compiled = self._compile_condition(node, clause)
        return compiled.loose or compiled.text

    def _compile_condition(self, node: t.Expr, clause: str) -> Sql:
        compiled = self.sql(node)
        if compiled.kind not in (k.BOOLEAN, k.NULL):
            raise SqlError(f"{clause} takes a condition", node.position, found=f"a value of type {compiled.kind}")
        return compiled

    def within(self, lambda_values: Mapping[str, Sql]) -> ColumnScope:
        """Return the scope of a lambda's body: its parameters hide columns of these names, and what is made of them."""
        visible = {
            node: value for node, value in self.precomputed.items() if not t.reads_names(node, lambda_values.keys())
        }
        return replace(self, names={**self.names, **lambda_values}, precomputed=visible, depth=self.depth + 1)

    # ---- values

    def _compile_value(self, node: t.Value) -> Sql:
        return literal_sql(node.value)

    def _compile_name(self, node: t.Name) -> Sql:
        if node.source is None and node.name in self.names:
            return self.names[node.name]
        scope_columns = (*self.columns, *self.pseudo_columns)
        matches = [
            column for column in scope_columns if column.name == node.name and node.source in (None, column.source)
        ]
        if node.source is not None and node.source not in (sources := {column.source for column in scope_columns}):
            structs = {column.name for column in scope_columns if column.sql.kind.name == "STRUCT"}
            suggestion = (
                f" A field of a STRUCT is read by ->: {node.source}->{node.name}."
                if node.source in structs
                else suggest_near(node.source, sources)
            )
            raise SqlError(f"'{node.source}' is not a source of this statement.{suggestion}", node.position)
        if not matches:
            known_names = [*(column.name for column in self.columns), *self.names]
            full_name, suggestion = (
                f"{node.source}.{node.name}" if node.source else node.name,
                suggest_near(node.name, known_names),
            )
            if node.source is None and node.name == "DISTINCT":
                suggestion = f" {NOT_HERE['DISTINCT']}."
            if node.source is None and not node.name.isupper():  # it was written in double quotes
                suggestion += f" A text stands in single quotes: '{node.name}'."
            raise SqlError(
                f"column '{full_name}' cannot be resolved.{suggestion} There are: {', '.join(known_names)}",
                node.position,
            )
        if len(matches) > 1:
            raise SqlError(
                f"column '{node.name}' is ambiguous. Could be {' or '.join(f'{s.source}.{s.name}' for s in matches)}",
                node.position,
            )
        return matches[0].sql

    def _compile_sign(self, node: t.Sign) -> Sql:
        operand = self.sql(node.operand)
        if not operand.kind.is_number:
            raise SqlError(f"a sign stands before a number, not before a {operand.kind}", node.position)
        return operand if node.sign == "+" else compile_negation(operand)

    def _compile_binary(self, node: t.Binary) -> Sql:
        left, right = self.sql(node.left), self.sql(node.right)
        if node.sign in COMPARED:
            left, right = as_times(node.left, node.right, left, right)
            left, right = self._compared_pair(left, right, node.sign, node.position)
            return condition_sql(f"({left.text} {node.sign} {right.text})")
        if node.sign == "||":
            return call.compile_call("CONCAT", [left, right], node.position)
        return compile_arithmetic(node.sign, left, right, node.position)

    def _compared_pair(self, left: Sql, right: Sql, sign: str, position: int) -> tuple[Sql, Sql]:
        """Return two values to compare; a text beside a moment becomes a moment. Raises SqlError."""
        if (left.kind.is_null or right.kind.is_null) and sign in COMPARED:
            raise SqlError(f"comparison with NULL is not supported: {sign}. Write IS NULL or IS NOT NULL", position)
        for moment_side, text_side in ((left, right), (right, left)):
            if moment_side.kind.name in k.MOMENTS and text_side.kind == k.STRING and text_side.literal is not None:
                moment_value = moment_literal(text_side.literal, moment_side.kind, position)
                return (moment_side, moment_value) if moment_side is left else (moment_value, moment_side)
        if {left.kind.name, right.kind.name} == {"DATE", "TIMESTAMP"}:  # the cast itself gives null beyond the range
            left, right = (cast_to_kind(side, k.TIMESTAMP, position) for side in (left, right))
        kinds = {left.kind, right.kind}
        is_comparable = (
            left.kind == right.kind
            or any(operand_kind.is_null for operand_kind in kinds)
            or all(operand_kind.is_number for operand_kind in kinds)
        )
        unordered_names = {operand_kind.name for operand_kind in kinds} & {"BOOLEAN", "ARRAY", "MAP", "STRUCT"}
        if not is_comparable or (unordered_names and sign in ("<", "<=", ">", ">=")):
            raise SqlError(
                f"operator {COMPARED.get(sign, sign)} cannot be used to compare {left.kind} and {right.kind}", position
            )
        return comparable_value(left), comparable_value(right)

    # ---- conditions

    def _compile_junction(self, node: t.Junction) -> Sql:
        conditions = [self._compile_condition(item, node.word) for item in node.items]
        exact_text, loose_text = (
            f" {node.word} ".join(side_texts)
            for side_texts in zip(*((i.text, i.loose or i.text) for i in conditions), strict=True)
        )
        return Sql(f"({exact_text})", k.BOOLEAN, loose=f"({loose_text})")

    def _compile_not(self, node: t.Not) -> Sql:
        return Sql(f"(NOT {self._compile_condition(node.operand, 'NOT').text})", k.BOOLEAN)

    def _compile_isnull(self, node: t.IsNull) -> Sql:
        return Sql(f"({self.sql(node.operand).text} IS {'NOT ' if node.is_negated else ''}NULL)", k.BOOLEAN)

    def _compile_distinct(self, node: t.Distinct) -> Sql:
        left, right = self._compared_pair(self.sql(node.left), self.sql(node.right), "IS DISTINCT FROM", node.position)
        equal_text = f"({left.text} <=> {right.text})"
        return Sql(equal_text if node.is_negated else f"(NOT {equal_text})", k.BOOLEAN)

    def _compile_between(self, node: t.Between) -> Sql:
        operand = self.sql(node.operand)
        low, high = (as_times(node.operand, bound, operand, self.sql(bound))[1] for bound in (node.low, node.high))
        above, low = self._compared_pair(operand, low, ">=", node.low.position)
        below, high = self._compared_pair(operand, high, "<=", node.high.position)
        return _negate_if(
            condition_sql(f"({above.text} >= {low.text} AND {below.text} <= {high.text})"), node.is_negated
        )

    def _compile_in(self, node: t.In) -> Sql:
        operand, *item_values = coerce_list([node.operand, *node.items], self.sql, node.position)
        present_items = [item_value for item_value in item_values if not item_value.kind.is_null]
        if operand.kind.inner and present_items:
            list_kind = (
                common_list_kind([operand.kind, *(item_value.kind for item_value in present_items)]) or operand.kind
            )
            operand, *present_items = (
                cast_to_kind(item_value, list_kind, node.position) for item_value in (operand, *present_items)
            )
        pairs = [self._compared_pair(operand, item, "=", node.position) for item in present_items]
        if not pairs:
            return Sql("true" if node.is_negated else "false", k.BOOLEAN)
        membership = condition_sql(f"({pairs[0][0].text} IN ({', '.join(item.text for _, item in pairs)}))")
        return _negate_if(membership, node.is_negated)

    def _compile_like(self, node: t.Like) -> Sql:
        operand, pattern = self.sql(node.operand), self.sql(node.pattern)
        for side, side_position in ((operand, node.operand.position), (pattern, node.pattern.position)):
            if side.kind not in (k.STRING, k.NULL):
                raise SqlError(f"LIKE compares texts, found a {side.kind}", side_position)
        if pattern.literal is not None:
            pattern_text = text_literal(like_pattern(pattern.literal, node.escape, node.pattern.position))
        else:
            pattern_text = escaped_pattern(pattern.text, node.escape)
        return Sql(f"({operand.text} {'NOT ' if node.is_negated else ''}LIKE {pattern_text})", k.BOOLEAN)

    def _compile_caseof(self, node: t.CaseOf) -> Sql:
        branches = []
        for branch_condition, branch_value in node.branches:
            condition = (
                branch_condition
                if node.operand is None
                else t.Binary("=", node.operand, branch_condition, position=branch_condition.position)
            )
            branches.append((self.predicate(condition, "WHEN"), branch_value))
        value_nodes = [branch_value for _, branch_value in branches] + (
            [node.default] if node.default is not None else []
        )
        value_sqls = [self.sql(value) for value in value_nodes]
        case_kind = k.common_kind([value_sql.kind for value_sql in value_sqls])
        if case_kind is None:
            kinds = " and ".join(dict.fromkeys(str(value_sql.kind) for value_sql in value_sqls))
            raise SqlError(f"all values of a CASE have one type, found {kinds}", node.position)
        if case_kind.is_null:
            raise SqlError("all values of this CASE are NULL, and have no type. Give one a type: CAST(NULL AS ...)",
                           node.position)  # fmt: skip
        value_sqls = [as_kind(value_sql, case_kind) for value_sql in value_sqls]
        when_texts = [
            f"WHEN {branch_condition} THEN {branch_value.text}"
            for (branch_condition, _), branch_value in zip(branches, value_sqls, strict=False)
        ]
        else_text = [f"ELSE {value_sqls[-1].text}"] if node.default is not None else []
        return Sql(f"CASE {' '.join([*when_texts, *else_text])} END", case_kind)

    # ---- values inside others

    def _compile_cast(self, node: t.Cast) -> Sql:
        return cast(self.sql(node.operand), node.kind, node.position)

    def _compile_fieldof(self, node: t.FieldOf) -> Sql:
        try:
            struct = self.sql(node.operand)
        except SqlError as error:
            if isinstance(node.operand, t.Name):  # x -> x + 1
                error.what += ". A lambda is written with =>"
            raise
        if struct.kind.name != "STRUCT":
            alternative = {"MAP": ". A MAP is read by its keys: m['a']", "ARRAY": ". An ARRAY is read by places: xs[1]"}
            raise SqlError(
                f"-> reads a field of a STRUCT, found a {struct.kind}{alternative.get(struct.kind.name, '')}. A lambda "
                "is written with =>",
                node.position,
            )
        if node.name is None:
            raise SqlError("->* stands in a SELECT alone", node.position)
        if node.name not in struct.kind.names:
            raise SqlError(
                f"unknown field {node.name}.{suggest_near(node.name, struct.kind.names)} "
                f"There are: {', '.join(struct.kind.names)}",
                node.position,
            )
        field_kind = struct.kind.inner[struct.kind.names.index(node.name)]
        return Sql(f"{struct.text}.{column_sql(node.name, field_kind).text}", field_kind)

    def _compile_elementof(self, node: t.ElementOf) -> Sql:
        container, index = self.sql(node.operand), self.sql(node.index)
        if container.kind.name == "MAP" and index.kind in (k.STRING, k.NULL):
            return Sql(f"try_element_at({container.text}, {index.text})", container.kind.inner[1])
        if container.kind.name != "ARRAY" or not index.kind.is_whole:
            alternative = ". A STRUCT is read by its fields: s->name" if container.kind.name == "STRUCT" else ""
            raise SqlError(
                "[] reads an ARRAY by a number, or a MAP by a key, which is a text; found "
                f"{container.kind}[{index.kind}]{alternative}",
                node.position,
            )
        return Sql(element_at(container.text, index), container.kind.inner[0])

    def _compile_arrayof(self, node: t.ArrayOf) -> Sql:
        items = coerce_list(node.items, self.sql, node.position)
        item_kind = require_common_kind(items, "an ARRAY", node.position)
        return Sql(
            f"array({', '.join(cast_to_kind(item, item_kind, node.position).text for item in items)})",
            k.array_of(item_kind),
        )

    def _compile_mapof(self, node: t.MapOf) -> Sql:
        keys, values = (coerce_list([pair[index] for pair in node.pairs], self.sql, node.position) for index in (0, 1))
        map_kind = k.map_of(
            require_common_kind(keys, "the keys of a MAP", node.position),
            require_common_kind(values, "the values of a MAP", node.position),
        )
        if map_kind.inner[0] != k.STRING:
            raise SqlError(
                f"the keys of a MAP are texts, found {', '.join(str(key.kind) for key in keys)}", node.position
            )
        values = [cast_to_kind(value, map_kind.inner[1], node.position) for value in values]
        # Spark's maps have no null key; ksqlDB writes one as this text.
        key_texts = [key.text if key.literal is not None else f"coalesce({key.text}, 'null')" for key in keys]
        pairs = [f"{key_text}, {value.text}" for key_text, value in zip(key_texts, values, strict=True)]
        return Sql(f"map({', '.join(pairs)})", map_kind)

    def _compile_structof(self, node: t.StructOf) -> Sql:
        if not node.members:
            raise SqlError("a STRUCT needs a field: STRUCT(name := value)", node.position)
        members = {name: self.sql(value) for name, value in node.members}
        member_texts = [f"{text_literal(name)}, {member_value.text}" for name, member_value in members.items()]
        return Sql(
            f"named_struct({', '.join(member_texts)})",
            k.struct_of({name: member_value.kind for name, member_value in members.items()}),
        )

    def _compile_call(self, node: t.Call) -> Sql:
        if node.every:
            raise SqlError(f"{node.name}(*) stands in the SELECT of a GROUP BY only", node.position)
        arguments = list(node.arguments)
        if node.name in WITH_UNIT and arguments and isinstance(arguments[0], t.Name) and arguments[0].source is None:
            arguments[0] = t.Value(arguments[0].name, position=arguments[0].position)
        try:
            return call.compile_call(
                node.name,
                [self._compile_argument(item) for item in arguments],
                node.position,
                partial(as_moment, node.position),
            )
        except SqlError as error:
            error.position = error.position or node.position
            raise

    def _compile_argument(self, node: t.Expr) -> Sql | LambdaSql:
        return lambda_sql(node, self) if isinstance(node, t.Lambda) else self.sql(node)

    def _compile_lambda(self, node: t.Lambda) -> Sql:
        raise SqlError("=> stands in TRANSFORM, FILTER and REDUCE only", node.position)


def _negate_if(predicate: Sql, negated: bool) -> Sql:
    return Sql(f"(NOT {predicate.text})", k.BOOLEAN) if negated else predicate
