"""Expressions with ksqlDB's meaning, as Spark SQL.

What ksqlDB does otherwise than Spark: a whole number divided by one is a whole number; a position in an array counts
from 1, a negative one from its end; + joins texts; a text and a number are never compared; LIKE knows no backslash; a
text beside a moment is read as one when the statement is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from lakehouse.errors import SqlError
from lakehouse.ksql.arithmetic import computed, element_at, escaped_pattern, like_pattern
from lakehouse.ksql.cast import as_moment, as_times, cast
from lakehouse.ksql.coerced import coerced, common, comparable, fitted, has_map_inside, together
from lakehouse.ksql.function import call
from lakehouse.ksql.function.lambda_body import lambda_sql
from lakehouse.ksql.function.moment import WITH_UNIT
from lakehouse.ksql.function.moment_literal import moment_literal
from lakehouse.ksql.function.record import LambdaSql
from lakehouse.ksql.function.sql import Sql, column, condition, literal, text
from lakehouse.ksql.function.sql import fitted as as_kind
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import tree as t
from lakehouse.plan.refused.near import near

COMPARED = {"=": "EQUAL(=)", "<>": "NOT_EQUAL(<>)", "<": "LESS_THAN(<)", "<=": "LESS_THAN_OR_EQUAL(<=)",
            ">": "GREATER_THAN(>)", ">=": "GREATER_THAN_OR_EQUAL(>=)"}  # fmt: skip
TEXT_MAX = 200_000


@dataclass(frozen=True, slots=True)
class Seen:
    """A column that an expression may read: its name, its source's alias, and what it is in Spark SQL."""

    name: str
    of: str
    sql: Sql


@dataclass(frozen=True)
class Visible:
    """The columns that an expression may read. pseudo: those that * leaves out. ready: values that are made already.

    names: those of lambdas; depth: how many are around. limits: how many values an aggregate keeps, by its name.
    """

    columns: tuple[Seen, ...]
    pseudo: tuple[Seen, ...] = ()
    ready: dict[t.Expr, Sql] = field(default_factory=dict)
    names: dict[str, Sql] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    depth: int = 0

    def sql(self, node: t.Expr) -> Sql:
        """Return an expression as Spark SQL with its type. Raises SqlError where it has no meaning."""
        if node in self.ready:
            return self.ready[node]
        make: Callable[[t.Expr], Sql] = getattr(self, f"_{type(node).__name__.lower()}")
        made = make(node)
        if len(made.text) > TEXT_MAX and not isinstance(
            node, t.Value
        ):  # some functions need an argument's text more than once
            raise SqlError("this becomes too long as Spark SQL; compute a part of it in a stream before", node.at)
        return made

    def predicate(self, node: t.Expr, clause: str) -> str:
        """Return a condition as Spark SQL, for a place where null is as good as false."""
        made = self._condition(node, clause)
        return made.loose or made.text

    def _condition(self, node: t.Expr, clause: str) -> Sql:
        made = self.sql(node)
        if made.kind not in (k.BOOLEAN, k.NULL):
            raise SqlError(f"{clause} takes a condition", node.at, found=f"a value of type {made.kind}")
        return made

    def within(self, names: Mapping[str, Sql]) -> Visible:
        """Return the scope of a lambda's body."""
        return replace(self, names={**self.names, **names}, depth=self.depth + 1)

    # ---- values

    def _value(self, node: t.Value) -> Sql:
        return literal(node.value)

    def _name(self, node: t.Name) -> Sql:
        if node.of is None and node.name in self.names:
            return self.names[node.name]
        every = (*self.columns, *self.pseudo)
        found = [seen for seen in every if seen.name == node.name and node.of in (None, seen.of)]
        if node.of is not None and node.of not in {seen.of for seen in every}:
            raise SqlError(
                f"'{node.of}' is not a source of this statement.{near(node.of, {seen.of for seen in every})}", node.at
            )
        if not found:
            known = [*(seen.name for seen in self.columns), *self.names]
            shown, meant = f"{node.of}.{node.name}" if node.of else node.name, near(node.name, known)
            if node.of is None and not node.name.isupper():  # it was given in double quotes
                meant += f" A text stands in single quotes: '{node.name}'."
            raise SqlError(f"column '{shown}' cannot be resolved.{meant} There are: {', '.join(known)}", node.at)
        if len(found) > 1:
            raise SqlError(
                f"column '{node.name}' is ambiguous. Could be {' or '.join(f'{s.of}.{s.name}' for s in found)}", node.at
            )
        return found[0].sql

    def _sign(self, node: t.Sign) -> Sql:
        of = self.sql(node.of)
        if not of.kind.is_number:
            raise SqlError(f"a sign stands before a number, not before a {of.kind}", node.at)
        return of if node.sign == "+" else Sql(f"(- {of.text})", of.kind)

    def _binary(self, node: t.Binary) -> Sql:
        left, right = self.sql(node.left), self.sql(node.right)
        if node.sign in COMPARED:
            left, right = as_times(node.left, node.right, left, right)
            left, right = self._pair(left, right, node.sign, node.at)
            return condition(f"({left.text} {node.sign} {right.text})")
        if node.sign == "||":
            return call.made("CONCAT", [left, right], node.at)
        return computed(node.sign, left, right, node.at)

    def _pair(self, left: Sql, right: Sql, sign: str, at: int) -> tuple[Sql, Sql]:
        """Two values as they are compared: a text beside a moment is one, too. SqlError if they never can be."""
        if (left.kind.is_null or right.kind.is_null) and sign in COMPARED:
            raise SqlError(f"comparison with NULL is not supported: {sign}. Write IS NULL or IS NOT NULL", at)
        for one, other in ((left, right), (right, left)):
            if one.kind.name in k.MOMENTS and other.kind == k.STRING and other.literal is not None:
                read = moment_literal(other.literal, one.kind, at)
                return (one, read) if one is left else (read, one)
        kinds = {left.kind, right.kind}
        same = left.kind == right.kind or any(of.is_null for of in kinds) or all(of.is_number for of in kinds)
        same = same or {of.name for of in kinds} == {"DATE", "TIMESTAMP"}
        unordered = {of.name for of in kinds} & {"BOOLEAN", "ARRAY", "MAP", "STRUCT"}
        if not same or (unordered and sign in ("<", "<=", ">", ">=")) or any(map(has_map_inside, kinds)):
            raise SqlError(
                f"operator {COMPARED.get(sign, sign)} cannot be used to compare {left.kind} and {right.kind}", at
            )
        return comparable(left), comparable(right)

    # ---- conditions

    def _junction(self, node: t.Junction) -> Sql:
        items = [self._condition(of, node.word) for of in node.items]
        exact, loose = (
            f" {node.word} ".join(texts) for texts in zip(*((i.text, i.loose or i.text) for i in items), strict=True)
        )
        return Sql(f"({exact})", k.BOOLEAN, loose=f"({loose})")

    def _not(self, node: t.Not) -> Sql:
        return Sql(f"(NOT {self._condition(node.of, 'NOT').text})", k.BOOLEAN)

    def _isnull(self, node: t.IsNull) -> Sql:
        return Sql(f"({self.sql(node.of).text} IS {'NOT ' if node.negated else ''}NULL)", k.BOOLEAN)

    def _distinct(self, node: t.Distinct) -> Sql:
        left, right = self._pair(self.sql(node.left), self.sql(node.right), "IS DISTINCT FROM", node.at)
        same = f"({left.text} <=> {right.text})"
        return Sql(same if node.negated else f"(NOT {same})", k.BOOLEAN)

    def _between(self, node: t.Between) -> Sql:
        of = self.sql(node.of)
        low, high = (as_times(node.of, bound, of, self.sql(bound))[1] for bound in (node.low, node.high))
        low = self._pair(of, low, ">=", node.low.at)[1]
        high = self._pair(of, high, "<=", node.high.at)[1]
        return _negated(condition(f"({of.text} >= {low.text} AND {of.text} <= {high.text})"), node.negated)

    def _in(self, node: t.In) -> Sql:
        made_of, *made = coerced([node.of, *node.items], self.sql, node.at)
        items = [one for one in made if not one.kind.is_null]
        if made_of.kind.inner and items:
            kind = together([made_of.kind, *(one.kind for one in items)]) or made_of.kind
            made_of, *items = (fitted(one, kind, node.at) for one in (made_of, *items))
        pairs = [self._pair(made_of, item, "=", node.at) for item in items]
        if not pairs:
            return Sql("true" if node.negated else "false", k.BOOLEAN)
        found = condition(f"({pairs[0][0].text} IN ({', '.join(item.text for _, item in pairs)}))")
        return _negated(found, node.negated)

    def _like(self, node: t.Like) -> Sql:
        of, pattern = self.sql(node.of), self.sql(node.pattern)
        for one, at in ((of, node.of.at), (pattern, node.pattern.at)):
            if one.kind not in (k.STRING, k.NULL):
                raise SqlError(f"LIKE compares texts, found a {one.kind}", at)
        if pattern.literal is not None:
            shown = text(like_pattern(pattern.literal, node.escape, node.pattern.at))
        else:
            shown = escaped_pattern(pattern.text, node.escape)
        return Sql(f"({of.text} {'NOT ' if node.negated else ''}LIKE {shown})", k.BOOLEAN)

    def _caseof(self, node: t.CaseOf) -> Sql:
        branches = []
        for when, then in node.branches:
            condition = when if node.of is None else t.Binary("=", node.of, when, at=when.at)
            branches.append((self.predicate(condition, "WHEN"), then))
        values = [then for _, then in branches] + ([node.default] if node.default is not None else [])
        made = [self.sql(value) for value in values]
        kind = k.common([one.kind for one in made])
        if kind is None:
            kinds = " and ".join(dict.fromkeys(str(one.kind) for one in made))
            raise SqlError(f"all values of a CASE have one type, found {kinds}", node.at)
        if kind.is_null:
            raise SqlError("all values of this CASE are NULL, and have no type. Give one a type: CAST(NULL AS ...)",
                           node.at)  # fmt: skip
        made = [as_kind(one, kind) for one in made]
        whens = [f"WHEN {when} THEN {then.text}" for (when, _), then in zip(branches, made, strict=False)]
        default = [f"ELSE {made[-1].text}"] if node.default is not None else []
        return Sql(f"CASE {' '.join([*whens, *default])} END", kind)

    # ---- values inside others

    def _cast(self, node: t.Cast) -> Sql:
        return cast(self.sql(node.of), node.kind, node.at)

    def _fieldof(self, node: t.FieldOf) -> Sql:
        of = self.sql(node.of)
        if of.kind.name != "STRUCT":
            raise SqlError(f"-> reads a field of a STRUCT, found a {of.kind}", node.at)
        if node.name is None:
            raise SqlError("->* stands in a SELECT alone", node.at)
        if node.name not in of.kind.names:
            raise SqlError(
                f"unknown field {node.name}.{near(node.name, of.kind.names)} There are: {', '.join(of.kind.names)}",
                node.at,
            )
        inner = of.kind.inner[of.kind.names.index(node.name)]
        return Sql(f"{of.text}.{column(node.name, inner).text}", inner)

    def _elementof(self, node: t.ElementOf) -> Sql:
        of, index = self.sql(node.of), self.sql(node.index)
        if of.kind.name == "MAP":
            return Sql(f"try_element_at({of.text}, {index.text})", of.kind.inner[1])
        if of.kind.name != "ARRAY" or not index.kind.is_whole:
            raise SqlError(f"[] reads an ARRAY by a number, or a MAP by a key; found {of.kind}[{index.kind}]", node.at)
        return Sql(element_at(of.text, index), of.kind.inner[0])

    def _arrayof(self, node: t.ArrayOf) -> Sql:
        items = coerced(node.items, self.sql, node.at)
        kind = common(items, "an ARRAY", node.at)
        return Sql(f"array({', '.join(fitted(of, kind, node.at).text for of in items)})", k.array(kind))

    def _mapof(self, node: t.MapOf) -> Sql:
        keys, values = (coerced([pair[n] for pair in node.pairs], self.sql, node.at) for n in (0, 1))
        kind = k.map_of(common(keys, "the keys of a MAP", node.at), common(values, "the values of a MAP", node.at))
        if kind.inner[0] != k.STRING:
            raise SqlError(f"the keys of a MAP are texts, found {', '.join(str(key.kind) for key in keys)}", node.at)
        values = [fitted(value, kind.inner[1], node.at) for value in values]
        # Spark's maps have no null key; ksqlDB writes one as this text.
        names = [key.text if key.literal is not None else f"coalesce({key.text}, 'null')" for key in keys]
        pairs = [f"{name}, {value.text}" for name, value in zip(names, values, strict=True)]
        return Sql(f"map({', '.join(pairs)})", kind)

    def _structof(self, node: t.StructOf) -> Sql:
        if not node.members:
            raise SqlError("a STRUCT needs a field: STRUCT(name := value)", node.at)
        members = {name: self.sql(value) for name, value in node.members}
        made = [f"{text(name)}, {of.text}" for name, of in members.items()]
        return Sql(f"named_struct({', '.join(made)})", k.struct({name: of.kind for name, of in members.items()}))

    def _call(self, node: t.Call) -> Sql:
        if node.every:
            raise SqlError(f"{node.name}(*) stands in the SELECT of a GROUP BY only", node.at)
        given = list(node.arguments)
        if node.name in WITH_UNIT and given and isinstance(given[0], t.Name) and given[0].of is None:
            given[0] = t.Value(given[0].name, at=given[0].at)
        try:
            return call.made(node.name, [self._argument(item) for item in given], node.at, partial(as_moment, node.at))
        except SqlError as error:
            error.at = error.at or node.at
            raise

    def _argument(self, node: t.Expr) -> Sql | LambdaSql:
        return lambda_sql(node, self) if isinstance(node, t.Lambda) else self.sql(node)

    def _lambda(self, node: t.Lambda) -> Sql:
        raise SqlError("=> stands in TRANSFORM, FILTER and REDUCE only", node.at)


def _negated(made: Sql, negated: bool) -> Sql:
    return Sql(f"(NOT {made.text})", k.BOOLEAN) if negated else made
