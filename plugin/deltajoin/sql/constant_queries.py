"""Queries over no table, such as a date spine: a derived source that is the query's own text.

    WITH p AS (SELECT 0 AS n UNION ALL SELECT 1),
    days AS (SELECT date_add(DATE '2026-01-01', row_number() OVER (ORDER BY p0.n) - 1) AS day
             FROM p AS p0 CROSS JOIN p AS p1 ...)

They change with the clock at most. Only what can't be bound as other queries are is read like this,
and only where no order of rows decides the result.
"""

from __future__ import annotations

from itertools import takewhile

from sqlglot import exp

from deltajoin.graph import Derived
from deltajoin.sql import functions
from deltajoin.sql.clock import clock_calls
from deltajoin.sql.constants import is_constant, names_of, query_source
from deltajoin.sql.dialect import unwrapped
from deltajoin.sql.kinds import kind_of
from deltajoin.sql.nodes import ancestors, function_name, own_name
from deltajoin.sql.tables import find_cte

#: What a column is called, and its type, empty where it is not certain.
Outputs = list[tuple[str, str]]
#: Functions over several rows.
_OF_ROWS = functions.AGGREGATES | functions.WINDOW_ONLY
#: Joins that give no columns of their right side.
_HALF = ("SEMI", "ANTI")


def reads_no_table(query: exp.Query) -> bool:
    """True for a query over rows that no table holds, through its CTEs too."""
    return _around(query) is not None


def rows_of(name: str, query: exp.Query) -> Derived | None:
    """The rows of such a query as a source; None where columns have no name of their own, or an
    order of rows may decide the result."""
    around = _around(query) or []
    outputs = _outputs(query)
    columns = [column for column, _ in outputs or []]
    unique = len({column.lower() for column in columns}) == len(columns) > 0
    parts = (query, *around)
    if not unique or not all(_is_certain(part) and _is_closed(part) for part in parts):
        return None
    kinds = [kind for _, kind in outputs or []]
    return query_source(name, query, columns, kinds, around)


def _around(query: exp.Query) -> list[exp.CTE] | None:
    """The CTEs outside a query that it reads, in their order; None where any part reads a table."""
    found: dict[int, exp.CTE] = {}
    for table in query.find_all(exp.Table):
        if is_constant(table):
            continue
        cte = find_cte(table)
        if cte is None or cte.parent is None or cte.parent.args.get("recursive"):
            return None
        if id(cte) in found or any(node is query for node in ancestors(cte)):
            continue
        before = _around(cte.this)
        if before is None:
            return None
        found |= {id(each): each for each in (*before, cte)}
    return list(found.values())


def _is_certain(tree: exp.Expr) -> bool:
    """True where no order of rows decides the result, and the clock no column of it."""
    for node in tree.walk():
        name = function_name(node)
        if node.args.get("limit") or node.args.get("offset"):
            return False
        if name in _OF_ROWS:
            over = node.parent
            if not isinstance(over, exp.Window):
                return False
            if name not in functions.EQUAL_FOR_PEERS and not _numbers_rows(over):
                return False
    return all(call.find_ancestor(exp.Where) for call in clock_calls(tree))


def _is_closed(tree: exp.Expr) -> bool:
    """True where every column is one of the tree's own rows, none of rows around it."""
    for column in tree.find_all(exp.Column):
        around = list(takewhile(lambda node: node is not tree.parent, ancestors(column)))
        selects = [node for node in around if isinstance(node, exp.Select)]
        if not any(_knows(select, column, around) for select in selects):
            return False
    return True


def _knows(select: exp.Select, column: exp.Column, around: list[exp.Expr]) -> bool:
    """True where the first part of a name is an item of FROM, a column of one, or an alias."""
    items = (*_items(select), *(select.args.get("laterals") or []))
    names = [name for item in items for name in (item.alias_or_name, *item.alias_column_names)]
    names += [name for name, _ in _listed(select) or []]
    others = (e for e in select.expressions if not any(e is node for node in around))
    names += [entry.alias for entry in others]
    return column.parts[0].name.lower() in map(str.lower, names)


def _numbers_rows(over: exp.Window) -> bool:
    """True for row_number() over all rows of a SELECT that gives out nothing else of them: which of
    equal rows comes first is not seen."""
    select = over.find_ancestor(exp.Select)
    if function_name(over.this) != "row_number" or over.args.get("partition_by") or not select:
        return False
    listed = any(over is node for entry in select.expressions for node in entry.walk())
    columns = (c for entry in select.expressions for c in entry.find_all(exp.Column, exp.Star))
    return listed and all(c.find_ancestor(exp.Window) for c in columns)


def _outputs(query: exp.Expr) -> Outputs | None:
    """What a query gives out; None where a name is not certain."""
    query = unwrapped(query) if isinstance(query, exp.Query) else query
    if isinstance(query, exp.SetOperation):
        left, right = _outputs(query.this), _outputs(query.expression)
        if left is None or right is None or len(left) != len(right):
            return None
        pairs = zip(left, right, strict=True)
        return [(name, kind if kind == other else "") for (name, kind), (_, other) in pairs]
    if not isinstance(query, exp.Select):
        return None
    found: Outputs = []
    for entry in query.expressions:
        if isinstance(entry, exp.Star) and not any(entry.args.values()):
            below = _listed(query)
            if below is None:
                return None
            found += below
        elif name := own_name(entry):
            found.append((name, kind_of(entry.unalias(), lambda _: "")))
        else:
            return None
    return found


def _items(select: exp.Select) -> list[exp.Expr]:
    """The items of FROM."""
    source = select.args.get("from_")
    joined = (join.this for join in select.args.get("joins") or [])
    return [*([source.this] if source else []), *joined]


def _listed(select: exp.Select) -> Outputs | None:
    """The columns of all items of FROM."""
    joins = select.args.get("joins") or []
    found: Outputs = []
    for item in _items(select):
        cte = find_cte(item) if isinstance(item, exp.Table) else None
        if is_constant(item):
            below: Outputs | None = [(name, "") for name in names_of(item)]
        else:
            below = _outputs(cte.this if cte is not None else item.this)
        names = item.alias_column_names or (cte.alias_column_names if cte is not None else [])
        if not below or (names and len(names) != len(below)):
            return None
        found += zip(names, (kind for _, kind in below), strict=True) if names else below
    merged = any(join.args.get("using") or join.args.get("method") for join in joins)
    halved = any(join.args.get("kind") in _HALF for join in joins)
    return None if merged or halved else found
