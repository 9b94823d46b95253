"""Views among a query's sources -> derived tables with the views' own SQL, down to tables.

    SELECT v.id FROM dw.v WHERE ...   ->   SELECT v.id FROM (\\n<SQL of dw.v>\\n) AS `v` WHERE ...

Nothing else of the text changes; each name is bound at its own place. In a text that Spark alone
can read, dotted names are found by its tokens. Caller: gives the SQL of every view
(`gather_views`), with tables that have their schema (`qualify_tables`), for a bare name could be
bound by a CTE of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import starmap
from typing import NamedTuple

from sqlglot import exp

from deltajoin.errors import DeltaJoinError, Refusal, reworded
from deltajoin.names import MAX_SQL_BYTES, quote_dotted, split_dotted
from deltajoin.sql import opaque
from deltajoin.sql.dialect import Unreadable, clauses_of, edited, parse
from deltajoin.sql.functions import GENERATORS
from deltajoin.sql.nodes import function_name
from deltajoin.sql.opaque import named_in
from deltajoin.sql.origins import VIEW, Lines, numbered
from deltajoin.sql.tables import (
    Parts,
    find_cte,
    is_pinned,
    lowered,
    parts_of,
    real_tables,
    redirected,
    unqualified,
    unversioned,
)


class WrittenOut(NamedTuple):
    """A query without views, and where each of its lines was written; no lines where Spark alone
    can read it."""

    sql: str
    lines: Lines


class _Edit(NamedTuple):
    """A part of the text to be replaced; `lines` are those of a view that takes its place."""

    start: int
    end: int
    text: str
    lines: Lines = ()


def inline_views(sql: str, views: Mapping[str, str]) -> str:
    """The query with every reference to a view replaced by the view's SQL, recursively.

    Example:
        >>> inline_views("SELECT * FROM dw.v AS x JOIN t USING (id)", {"dw.v": "SELECT id FROM r"})
        'SELECT * FROM (\\nSELECT id FROM r\\n) AS x JOIN t USING (id)'
        >>> inline_views("WITH v AS (SELECT 1 AS a) SELECT * FROM v", {"v": "SELECT 2 AS a"})
        'WITH v AS (SELECT 1 AS a) SELECT * FROM v'
    """
    return write_out(sql, views).sql


def write_out(sql: str, views: Mapping[str, str]) -> WrittenOut:
    """`inline_views`, with the place where each line was written.

    Args:
        views: name as in the SQL (case and backticks don't matter) -> the view's query.

    Raises:
        DeltaJoinError: VIEW_TOO_LARGE; TIME_TRAVEL.

    Example:
        >>> write_out("SELECT *\\nFROM v JOIN t USING (id)", {"v": "SELECT id\\nFROM r"}).lines
        ('line 1', 'line 2', 'view v, line 1', 'view v, line 2', 'line 2')
    """
    by_parts = {lowered(split_dotted(name)): text for name, text in sorted(views.items())}
    return _inline(sql, by_parts, {}, ())


def _inline(
    sql: str, views: Mapping[Parts, str], done: dict[Parts, WrittenOut], above: Parts
) -> WrittenOut:
    try:
        query = parse(sql)
    except Unreadable:
        return _inline_by_tokens(sql, views, done, above)
    edits: list[_Edit] = []
    readable = True
    for table in real_tables(query):
        name = lowered(parts_of(table))
        if name not in views:
            continue
        if is_pinned(table):
            raise unversioned(f"the view '{table.name}'", table)
        view = _inline_view(name, views, done, above)
        readable = readable and bool(view.lines)
        here, *alias = redirected(table, f"(\n{view.sql}\n)")
        edits += [_Edit(*here, view.lines), *starmap(_Edit, (*alias, *unqualified(query, table)))]
    _check_size((edit.text for edit in edits), above)
    own = numbered(sql.count("\n") + 1, above[-1] if above else "")
    lines = _edited_lines(sql, own, edits) if readable else ()
    return WrittenOut(edited(sql, (edit[:3] for edit in edits)), lines)


def _inline_by_tokens(
    sql: str, views: Mapping[Parts, str], done: dict[Parts, WrittenOut], above: Parts
) -> WrittenOut:
    named = named_in(sql, map(quote_dotted, views))
    queries = [_inline_view(lowered(split_dotted(n)), views, done, above).sql for n in named]
    _check_size(queries, above)
    places = {n: f"(\n{query}\n)" for n, query in zip(named, queries, strict=True)}
    return WrittenOut(opaque.redirected(sql, places), ())


def _inline_view(
    name: Parts, views: Mapping[Parts, str], done: dict[Parts, WrittenOut], above: Parts
) -> WrittenOut:
    dotted = ".".join(name)
    if name not in done:
        if dotted in above:
            raise _too_large(f"the view '{dotted}' refers to itself", dotted)
        with _in_view(dotted):
            view = _inline(views[name], views, done, (*above, dotted))
        sql = view.sql.rstrip().rstrip(";")
        done[name] = WrittenOut(sql, view.lines[: sql.count("\n") + 1])
    return done[name]


def _check_size(parts: Iterable[str], above: Parts) -> None:
    if sum(map(len, parts)) > MAX_SQL_BYTES:
        raise _too_large("the SQL with its views written out has over 1 MB", ".".join(above))


def _in_view(name: str) -> AbstractContextManager[None]:
    """Raise errors about a view's text with its name; those of a view below have that one's."""

    def named(refusal: Refusal) -> Refusal:
        where = refusal.where or ""
        if where.startswith(VIEW) or refusal.code == "VIEW_TOO_LARGE":
            return refusal
        return replace(refusal, where=f"{VIEW}{name}, {where}" if where else f"{VIEW}{name}")

    return reworded(named)


def gather_views(
    sql: str, read: Callable[[Parts], str | None], known: Collection[str] = ()
) -> dict[str, str]:
    """The views that a query reads, directly or through others, by their names in backticks.

    Args:
        read: parts of a table's name -> the query of the view of that name; None for no view.
        known: dotted names among which those of a text that Spark alone can read are found.
    """
    views: dict[str, str] = {}
    asked: set[Parts] = set()
    waiting = tables_named(sql, known)
    while waiting:
        parts = split_dotted(waiting.pop())
        if lowered(parts) in asked:
            continue
        asked.add(lowered(parts))
        with _in_view(".".join(parts)):
            if (text := read(parts)) is not None:
                views[quote_dotted(parts)] = text
                waiting += tables_named(text, known)
    return {name: views[name] for name in sorted(views)}


def tables_named(sql: str, known: Collection[str]) -> list[str]:
    """The tables that a query reads, dotted, in backticks; of a text that Spark alone can read,
    those of the known ones that it names."""
    try:
        return [quote_dotted(parts_of(table)) for table in real_tables(parse(sql))]
    except Unreadable:
        return named_in(sql, known)


def qualify_tables(sql: str, schema: Parts) -> str:
    """The query with its bare table names put into a schema; CTEs stay as they are.

    Example:
        >>> qualify_tables("WITH c AS (SELECT * FROM t) SELECT * FROM c, x.u", ("dw",))
        'WITH c AS (SELECT * FROM `dw`.`t` AS `t`) SELECT * FROM c, x.u'
    """
    return edited(
        sql,
        (
            edit
            for table in real_tables(parse(sql))
            if len(table.parts) == 1
            for edit in redirected(table, quote_dotted((*schema, table.name)))
        ),
    )


def column_origin(sql: str, columns: Sequence[str]) -> tuple[str, Parts] | None:
    """The table and its columns that columns of a query are, if its rows are the table's rows.

    None for anything but renaming: a filter, a join, a computed column.

    Example:
        >>> view = "WITH s AS (SELECT * FROM raw.o), r AS (SELECT id AS k, x + 1 AS y FROM s)"
        >>> column_origin(view + " SELECT * FROM r", ["k"])
        ('raw.o', ('id',))
        >>> column_origin(view + " SELECT * FROM r", ["k", "y"]) is None
        True
    """
    try:
        query = parse(sql)
    except Unreadable:
        return None
    found = [origin for column in columns if (origin := _origin(query, column))]
    tables = {table for table, _ in found}
    if len(found) < len(columns) or len(tables) != 1:
        return None
    return tables.pop(), tuple(column for _, column in found)


def _origin(query: exp.Expr, column: str) -> tuple[str, str] | None:
    if isinstance(query, exp.Table):
        cte = find_cte(query)
        if cte is None:
            return ".".join(parts_of(query)), column
        query = query if cte.alias_column_names else cte.this
    if isinstance(query, exp.Subquery):
        query = query.this
    source = query.args.get("from_") if isinstance(query, exp.Select) else None
    if source is None or not _only_projects(query):
        return None
    name = _projected(query, source.this, column)
    return None if name is None else _origin(source.this, name)


def _only_projects(select: exp.Expr) -> bool:
    item = select.args["from_"].this
    calls = {function_name(node) for p in select.expressions for node in p.walk()}
    return (
        clauses_of(select) <= {"with_", "from_", "expressions"}
        and clauses_of(item) <= {"alias", "this", "db", "catalog"}
        and not item.alias_column_names
        and not calls & GENERATORS
    )


def _projected(select: exp.Expr, item: exp.Expr, column: str) -> str | None:
    """The column of the one FROM item that a SELECT gives out under a name."""
    named = [p for p in select.expressions if p.alias_or_name.lower() == column.lower()]
    stars = [p for p in select.expressions if p.is_star]
    if not named and len(stars) == 1 and isinstance(stars[0], exp.Star):
        return None if any(stars[0].args.values()) else column
    if len(named) != 1 or stars:
        return None
    value = named[0].unalias()
    shown = item.alias_or_name.lower()
    if not isinstance(value, exp.Column) or value.table.lower() not in ("", shown):
        return None
    return None if value.args.get("db") else value.name


def _edited_lines(sql: str, own: Lines, edits: list[_Edit]) -> Lines:
    """Where each line of the edited text was written; `own` are the places of the text's lines."""
    lines, line = [own[0]], 0
    for edit in sorted(set(edits)):
        lines += own[line + 1 : sql.count("\n", 0, edit.start) + 1]
        line = sql.count("\n", 0, edit.end)
        if edit.lines:  # the text goes on after the closing bracket on a line of its own
            lines += [*edit.lines, own[line]]
    return (*lines, *own[line + 1 :])


def _too_large(message: str, where: str) -> DeltaJoinError:
    remedy = "Make one of the views a table."
    return DeltaJoinError("VIEW_TOO_LARGE", message, where=where or "the SQL", remedy=remedy)
