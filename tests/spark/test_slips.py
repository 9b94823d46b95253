"""Slips of meaning, each made on purpose: a query of the corpus finds every one of them.

A slip alters what the parser gives us, or one of our own functions. It is caught when the query
that was right is wrong: other rows, other columns, an error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from sqlglot import exp

from deltajoin.sql import bind, columns, from_clause, spans, subqueries, using
from deltajoin.sql.dialect import parse
from deltajoin.sql.grammar import UnsignedShift
from deltajoin.sql.scope import Scope, Shown
from tests.spark.corpus import Database, Result, compare, corpus, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Alter = Callable[[exp.Expr], None]
Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Slip:
    """A mistake, and words of the one query that shows it."""

    name: str
    shown_by: str
    patch: Patch


def parsed(alter: Alter) -> Patch:
    """The parser gives another tree, and nobody finds that words of the text are missing in it."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        def altered(sql: str) -> exp.Query:
            query = parse(sql)
            alter(query)
            return query

        monkeypatch.setattr(bind, "parse", altered)
        monkeypatch.setattr(bind, "check_known", lambda query, sql: None)

    return patch


def replaced(module: Any, name: str, value: Any) -> Patch:
    """One of our functions is another."""
    return lambda monkeypatch: monkeypatch.setattr(module, name, value)


def lost(kind: type[exp.Expr], argument: str) -> Patch:
    """A clause of every such node is lost."""

    def alter(tree: exp.Expr) -> None:
        for node in list(tree.find_all(kind)):
            node.set(argument, None)

    return parsed(alter)


def unwrapped(kind: type[exp.Expr]) -> Patch:
    """Every such node gives way to what it is about."""

    def alter(tree: exp.Expr) -> None:
        for node in list(tree.find_all(kind)):
            node.replace(node.this)

    return parsed(alter)


def exchanged(kind: type[exp.Expr], make: Callable[[Any], Any]) -> Patch:
    """Every such node is made another."""

    def alter(tree: exp.Expr) -> None:
        for node in list(tree.find_all(kind)):
            node.replace(make(node))

    return parsed(alter)


def changed(kind: type[exp.Expr], change: Callable[[Any], Any]) -> Patch:
    """Every such node is changed in place."""

    def alter(tree: exp.Expr) -> None:
        for node in list(tree.find_all(kind)):
            change(node)

    return parsed(alter)


def swap(node: exp.Expr, one: str, other: str) -> None:
    first, second = node.args[one], node.args[other]
    node.set(one, second.copy())
    node.set(other, first.copy())


def _without_distinct(call: exp.Anonymous) -> None:
    for part in list(call.expressions):
        if isinstance(part, exp.Distinct):
            call.set("expressions", part.expressions)


def _last_two_swapped(call: exp.Anonymous) -> None:
    if len(call.expressions) == 3:
        *first, second, third = call.expressions
        call.set("expressions", [*first, third.copy(), second.copy()])


def _plain_number(cast: exp.Cast) -> exp.Expr:
    number: exp.Expr = cast.this
    return number if isinstance(number, exp.Literal) else cast


def _first_twice(node: exp.Expr, write: Callable[[exp.Expr], str]) -> str | None:
    span = spans.span_of(node)
    if span is None or len(span.slots) != 2:
        return WRITTEN(node, write)
    first = spans._at(node, span.slots[0][0])
    return WRITTEN(node, lambda _: write(first))


def _cut(node: exp.Expr, write: Callable[[exp.Expr], str]) -> str | None:
    found = WRITTEN(node, write)
    return found[: -len(found.split()[-1])] if found and " " in found else found


def _merged_last(scope: Scope) -> list[Shown]:
    found = SHOWN(scope)
    return found[len(scope.merged) :] + found[: len(scope.merged)]


def _unmarked(*_: Any) -> None:
    """Nothing is marked as missing, no field gets its name."""


def _other_side(kind: str, one: Shown, other: Shown) -> Shown:
    return other if kind == "left" else one


def _plain_match(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    return exp.EQ(this=one, expression=other)


def _no_check(scope: Scope, star: exp.Expr) -> list[tuple[str, exp.Expr]]:
    return [(column.name, column.value.copy()) for column in scope.shown()]


WRITTEN, SHOWN = spans.written, Scope.shown
SLIPS = (
    Slip("WHERE is lost", "WHERE NOT b AND k = 1 OR id = 8", lost(exp.Select, "where")),
    Slip("NOT is lost", "WHERE NOT b AND k = 1 OR id = 8", unwrapped(exp.Not)),
    Slip("NOT EXISTS becomes EXISTS", "NOT EXISTS (SELECT * FROM u", unwrapped(exp.Not)),
    Slip("brackets are lost", "t.id - (1 - 2) AS", unwrapped(exp.Paren)),
    Slip("DISTINCT is lost", "SELECT DISTINCT k FROM t", lost(exp.Select, "distinct")),
    Slip("UNION becomes UNION ALL", "t UNION DISTINCT SELECT k", lost(exp.Union, "distinct")),
    Slip(
        "count(DISTINCT) counts all",
        "sum(DISTINCT id % 3)",
        changed(exp.Anonymous, _without_distinct),
    ),
    Slip("FILTER is lost", "count(*) FILTER (WHERE b) AS n", unwrapped(exp.Filter)),
    Slip(
        "HAVING is lost",
        "count(*) AS n FROM t GROUP BY k HAVING count(*) > 1",
        lost(exp.Select, "having"),
    ),
    Slip(
        "a group key is lost",
        "SELECT k, count(*) AS n FROM t GROUP BY k, b;",
        changed(exp.Group, lambda n: n.set("expressions", n.expressions[:1])),
    ),
    Slip(
        "QUALIFY is lost",
        "QUALIFY row_number() OVER (PARTITION BY k ORDER BY id DESC) = 1",
        lost(exp.Select, "qualify"),
    ),
    Slip("a frame is lost", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", lost(exp.Window, "spec")),
    Slip(
        "a frame ends elsewhere",
        "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
        changed(exp.WindowSpec, lambda n: n.set("end", "CURRENT ROW")),
    ),
    Slip(
        "NULLS LAST is lost",
        "ORDER BY g NULLS LAST, id",
        changed(exp.Ordered, lambda n: n.set("nulls_first", not n.args["nulls_first"])),
    ),
    Slip(
        "DESC is lost",
        "ORDER BY id DESC) = 1;",
        changed(exp.Ordered, lambda n: n.set("desc", None)),
    ),
    Slip(
        "LEFT JOIN becomes inner",
        "FROM t LEFT OUTER JOIN u ON t.k = u.k AND u.x > 0",
        lost(exp.Join, "side"),
    ),
    Slip("an ON is lost", "FROM t INNER JOIN u ON t.k = u.k AND t.id > u.x", lost(exp.Join, "on")),
    Slip(
        "a condition of ON is lost",
        "FROM t INNER JOIN u ON t.k = u.k AND t.id > u.x",
        unwrapped(exp.And),
    ),
    Slip(
        "ANTI becomes SEMI",
        "FROM t LEFT ANTI JOIN u ON t.k = u.k",
        changed(exp.Join, lambda n: n.set("kind", "SEMI")),
    ),
    Slip(
        "<=> becomes =",
        "FROM t JOIN u ON t.k <=> u.k",
        exchanged(exp.NullSafeEQ, lambda n: exp.EQ(this=n.this, expression=n.expression)),
    ),
    Slip(
        "arguments are exchanged",
        "replace(t.g, 'a', 'bb')",
        changed(exp.Anonymous, _last_two_swapped),
    ),
    Slip(
        "operands are exchanged",
        "t.id - (1 - 2) AS",
        changed(exp.Sub, lambda n: swap(n, "this", "expression")),
    ),
    Slip("a literal has another type", "typeof(1L) AS", exchanged(exp.Cast, _plain_number)),
    Slip("ELSE is lost", "CASE WHEN t.k = 1 THEN 'one' WHEN", lost(exp.Case, "default")),
    Slip(
        "bounds are exchanged",
        "t.k BETWEEN 1 AND 2 AS",
        changed(exp.Between, lambda n: swap(n, "low", "high")),
    ),
    Slip(
        "a list is shortened",
        "t.k IN (1, 2) AS",
        changed(exp.In, lambda n: n.set("expressions", n.expressions[:-1])),
    ),
    Slip("ESCAPE is lost", "ESCAPE '!'", unwrapped(exp.Escape)),
    Slip("EXCEPT is lost", "SELECT t.id, u.* EXCEPT (tags)", lost(exp.Star, "except_")),
    Slip("OUTER of a view is lost", "LATERAL VIEW OUTER explode(a)", lost(exp.Lateral, "outer")),
    Slip(
        ">>> becomes >>",
        "t.l >>> 2 AS",
        exchanged(
            UnsignedShift, lambda n: exp.BitwiseRightShift(this=n.this, expression=n.expression)
        ),
    ),
    Slip(
        "a part of an interval is lost",
        "t.ts - INTERVAL 1 DAY 12 HOURS AS",
        exchanged(
            exp.Interval, lambda n: exp.Interval(this=n.this.copy(), unit=exp.Var(this="HOUR"))
        ),
    ),
    Slip(
        "sqlglot writes expressions",
        "t.ts - INTERVAL 1 DAY 12 HOURS AS",
        replaced(spans, "written", lambda *_: None),
    ),
    Slip("one slot is filled twice", "t.k - t.id AS", replaced(spans, "written", _first_twice)),
    Slip("the end of a span is lost", "t.g LIKE 'a%' AS", replaced(spans, "written", _cut)),
    Slip(
        "a string is indented",
        "'line\n",
        replaced(spans.SpanGenerator, "_safe", lambda _, sql: sql),
    ),
    Slip(
        "an inlined column has no brackets",
        "10 - z.v AS d",
        replaced(columns, "closed", lambda node: node.copy()),
    ),
    Slip(
        "fields have our names",
        "to_json(max(struct(t.id, u.name)))",
        replaced(columns, "name_fields", _unmarked),
    ),
    Slip(
        "missing rows compute",
        "coalesce(z.f, 'no') AS f",
        replaced(from_clause, "mark_missing", _unmarked),
    ),
    Slip(
        "NOT IN overlooks NULL",
        "WHERE k NOT IN (SELECT k FROM u);",
        replaced(subqueries, "not_in_match", _plain_match),
    ),
    Slip(
        "USING takes the other side",
        "SELECT * FROM (SELECT id, k FROM t) a LEFT JOIN u USING (k)",
        replaced(using, "_kept", _other_side),
    ),
    Slip(
        "columns of USING come last",
        "SELECT * FROM (SELECT k, id FROM t) a JOIN (SELECT k, x AS j",
        replaced(Scope, "shown", _merged_last),
    ),
    Slip(
        "a column without a name is lost",
        "SELECT * FROM (SELECT k, id + 1 FROM t) z JOIN",
        replaced(Scope, "expand_star", _no_check),
    ),
)


@pytest.fixture(scope="module")
def database(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Database:
    return Database.create(spark, tmp_path_factory.mktemp("slips"))


@pytest.fixture
def fresh() -> Iterator[None]:
    """No text that was parsed before is at hand, nor after."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("deltajoin."):
            for value in vars(module).values():
                getattr(value, "cache_clear", int)()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.name)
def test_a_slip_is_caught(slip: Slip, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = next(f"{sql};" for sql in corpus().values() if slip.shown_by in f"{sql};").removesuffix(
        ";"
    )
    right = _judged(database, sql)
    assert not right.problem
    slip.patch(monkeypatch)
    _forget()
    assert _judged(database, sql).problem


def _judged(database: Database, sql: str) -> Result:
    result = prepare(database, "query", sql)
    compare([result])
    return result
