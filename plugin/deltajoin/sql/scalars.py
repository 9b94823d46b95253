"""Scalar subqueries: where they stand in an expression, and what takes their place.

    (SELECT max(x) FROM t)                  a total is one row, joined with every row
    (SELECT max(x) FROM t HAVING ...)       one or none: a left join on TRUE
    (SELECT max(x) FROM t WHERE t.k = o.k)  a left join with the groups by t.k; a count without rows
                                            is 0
    (SELECT 1 + 2)                          the value itself
    (SELECT x FROM t WHERE ...)             a total: max(x), which stops where there are more rows;
                                            so of SELECT DISTINCT, groups and unions
    (SELECT x FROM t WHERE t.k = o.k)       the same by groups, if t.k is a declared key
    (SELECT x ... ORDER BY y LIMIT 1)       the first row of each partition (`correlated`)
    EXISTS (SELECT ... FROM t WHERE ...)    (SELECT count(1) FROM t WHERE ...) > 0
    o.k IN (SELECT t.k FROM t WHERE ...)    the same with t.k = o.k, where NULL is as good as FALSE

Above groups of the same SELECT the value is the same for all rows: it stands as `max` of itself.
Without that key groups may have several rows that no row around asks for, in this epoch or while
changes of two tables meet. Caller: `sql.subqueries`, which joins the sources.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeGuard

from sqlglot import exp

from deltajoin.sql import functions
from deltajoin.sql.columns import flattened
from deltajoin.sql.dialect import clauses_of, text, unwrapped
from deltajoin.sql.group import is_grouped
from deltajoin.sql.group_keys import has_plain_keys, is_aggregate
from deltajoin.sql.kinds import INTEGERS, TypeOf, in_place_of, kind_of, typed
from deltajoin.sql.nodes import ancestors, bare_call, call, function_name, number
from deltajoin.sql.predicates import relations_in
from deltajoin.sql.refuse import Unsupported
from deltajoin.sql.ungroupable import gives_ungroupable

#: A scalar subquery, or EXISTS or IN.
Scalar = exp.Subquery | exp.Exists | exp.In
#: Gives the value of one; told whether it stands above groups of the SELECT around it.
Value = Callable[[Scalar, bool], exp.Expr]
_ZERO = frozenset({"count", "count_if"})
#: Aggregates that give NULL where there are no rows.
NULL_OF_NO_ROWS = frozenset(
    """
    any avg bool_and bool_or every max mean median min some std stddev stddev_pop stddev_samp sum
    try_avg try_sum var_pop var_samp variance
    """.split()
)
#: What more may be said in a SELECT whose rows are counted.
_PLAIN = frozenset({"expressions", "from_", "joins", "where", "with_"})
#: What EXISTS may show, whatever it is, and IN compare.
_SHOWN = (exp.Column, exp.Star, exp.Literal, exp.Boolean, exp.Null)
_MORE = "[SCALAR_SUBQUERY_TOO_MANY_ROWS] A subquery used as an expression gives more than one row"


def make_single(query: exp.Query) -> bool:
    """Make, in place, a total of a SELECT of one value, which stops where there are more rows;
    False where it can't be one."""
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or is_grouped(query):
        return False
    (node,) = query.expressions
    if clauses_of(query) - _PLAIN or node.is_star or gives_ungroupable(node.unalias().copy()):
        return False
    several = exp.GT(this=call("count", number(1)), expression=number(1))
    stop = call("raise_error", exp.Literal.string(_MORE))
    value = exp.case().when(several, stop).else_(call("max", node.unalias()))
    query.set("expressions", [exp.alias_(value, node.alias_or_name or "value", quoted=True)])
    return True


def total_of(query: exp.Query) -> exp.Query | None:
    """A query of one value as a total of its rows, which stops where there are more; None where it
    can't be one. A SELECT of plain rows becomes one in place."""
    if make_single(query):
        return query
    if len(query.selects) != 1 or query.selects[0].is_star:
        return None
    name = query.selects[0].alias_or_name
    total = exp.select(exp.column(name, quoted=True)).from_(query.copy().subquery("several"))
    ungroupable = any(gives_ungroupable(shown.unalias().copy()) for shown in query.selects)
    return total if not ungroupable and make_single(total) else None


def by_whole_key(query: exp.Query, columns: Collection[str], key: Collection[str]) -> bool:
    """True for a SELECT from one table that equates all columns of its key with something else.

    Args:
        columns: those of the table; an unqualified one of these names is the table's.
    """
    where = query.args.get("where")
    if where is None or query.args.get("joins") or not key:
        return False
    name, own = query.args["from_"].this.alias_or_name.lower(), {c.lower() for c in columns}

    def is_own(column: exp.Column) -> bool:
        return column.table.lower() == name if column.table else column.name.lower() in own

    equated = set()
    for node in (conjunct.unnest() for conjunct in flattened(where.this)):
        if isinstance(node, exp.EQ):
            for one, other in ((node.this, node.expression), (node.expression, node.this)):
                free = not any(is_own(column) for column in other.find_all(exp.Column))
                if free and isinstance(one, exp.Column) and is_own(one):
                    equated.add(one.name.lower())
    return {column.lower() for column in key} <= equated


def any_row(query: exp.Query) -> exp.Query:
    """The query of an EXISTS, or of one row at most, without a LIMIT that leaves it a row."""
    limit = query.args.get("limit")
    count = limit.expression if isinstance(limit, exp.Limit) else None
    if isinstance(count, exp.Literal) and count.is_int and int(count.this) > 0:
        query = query.copy()
        query.set("limit", None)
    return query


def takes_first(query: exp.Query) -> bool:
    """True for the first of plain rows by an order of their columns."""
    if not isinstance(query, exp.Select) or is_grouped(query) or query.find(exp.Window):
        return False
    said = clauses_of(query)
    if said - _PLAIN != {"order", "limit"} or text(query.args["limit"].expression) != "1":
        return False
    names = {node.alias.lower() for node in query.expressions if isinstance(node, exp.Alias)}
    order = query.args["order"].expressions
    columns = (column for part in order for column in part.find_all(exp.Column))
    given_out = any(not column.table and column.name.lower() in names for column in columns)
    return not given_out and not any(isinstance(part.this, exp.Literal) for part in order)


def is_membership(node: exp.Expr) -> TypeGuard[exp.Exists | exp.In]:
    """True for EXISTS, and for IN with a query."""
    return isinstance(node, exp.Exists) or (
        isinstance(node, exp.In) and bool(node.args.get("query"))
    )


def members_of(node: exp.Exists | exp.In) -> list[exp.Expr]:
    """What stands before IN; nothing of EXISTS."""
    if isinstance(node, exp.Exists):
        return []
    return node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]


def query_of(node: exp.Exists | exp.In) -> exp.Query:
    """The query of EXISTS or IN."""
    query = unwrapped(node.this if isinstance(node, exp.Exists) else node.args["query"])
    return any_row(query) if isinstance(node, exp.Exists) else query


def _is_counted(node: exp.Exists | exp.In) -> bool:
    """True for the rows of joins and WHERE, of which a count answers."""
    query = query_of(node)
    if not isinstance(query, exp.Select) or clauses_of(query) - _PLAIN - {"distinct", "order"}:
        return False
    shown = [output.unalias() for output in query.expressions]
    if isinstance(node, exp.In) and (
        len(shown) != len(members_of(node)) or any(output.is_star for output in shown)
    ):
        return False
    return all(isinstance(output, _SHOWN) for output in shown)


def count_of(node: exp.Exists | exp.In, members: Sequence[exp.Expr] = ()) -> exp.Query:
    """A query that tells whether EXISTS or IN has rows, or such as equal `members`, or are NULL as
    one is."""
    counted = query_of(node).copy()
    for output, member in zip(counted.selects, members, strict=False):
        same = exp.Is if isinstance(member, exp.Null) else exp.EQ
        counted.where(same(this=output.unalias().copy(), expression=member), copy=False)
    found = exp.GT(this=call("count", number(1)), expression=number(0))
    counted.set("expressions", [exp.alias_(found, "found", quoted=True)])
    counted.set("distinct", None)
    counted.set("order", None)
    return counted


def scalars_in(node: exp.Expr) -> Iterator[Scalar]:
    """The outermost scalar subqueries of an expression, and each EXISTS and IN that counts of rows
    answer; not those of ANY and ALL."""
    if is_membership(node):
        if _is_counted(node) and (isinstance(node, exp.Exists) or _is_told(node)):
            yield node
    elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
        yield node
    elif not isinstance(node, (exp.Query, exp.Any, exp.All)):
        for part in node.iter_expressions():
            yield from scalars_in(part)


def is_negated(node: exp.Exists | exp.In) -> bool:
    """True below NOT, as in `x NOT IN (...)` and `NOT (x IN (...))`."""
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    return isinstance(around, exp.Not)


def _is_told(node: exp.In) -> bool:
    """True for IN, and NOT IN of one column, where NULL is as good as FALSE.

    Elsewhere Spark, which joins by the existence of matches, gives FALSE for it; and by where its
    optimizer moves NOT, the one or the other of TRUE and FALSE.
    """
    if is_negated(node) and len(members_of(node)) > 1:
        return False
    condition: exp.Expr = node
    while isinstance(condition.parent, (exp.And, exp.Or, exp.Paren)) or (
        isinstance(condition.parent, exp.Not) and condition.unnest() is node
    ):
        condition = condition.parent
    around = condition.parent
    if isinstance(around, exp.If):
        case = around.parent
        return around.this is condition and not (isinstance(case, exp.Case) and case.this)
    return around is None or isinstance(around, (exp.Where, exp.Having, exp.Qualify, exp.Join))


def without_scalars(node: exp.Expr, value: Value) -> exp.Expr:
    """The expression with the value of each scalar subquery in its place; itself without any."""
    found = list(scalars_in(node))
    if not found:
        return node
    holder = exp.Paren(this=node.copy())
    for subquery, place in zip(found, list(scalars_in(holder.this)), strict=True):
        place.replace(in_place_of(place, value(subquery, False)))
    made: exp.Expr = holder.this
    return made


def select_without_scalars(select: exp.Select, value: Value) -> exp.Select:
    """The same of what a SELECT gives out, and of HAVING and QUALIFY; a copy where it has any.

    Raises:
        Unsupported: SUBQUERY above a total.
    """
    parts = _parts(select)
    found = [subquery for part in parts for subquery in scalars_in(part)]
    if not found:
        return select
    grouped = is_grouped(select) and not select.args.get("distinct")
    made = select.copy()
    places = [subquery for part in _parts(made) for subquery in scalars_in(part)]
    for subquery, place in zip(found, places, strict=True):
        above = grouped and not _is_aggregated(place)
        if above and not has_plain_keys(select):  # a group without rows has no value of it
            what, remedy = "a subquery beside a total", "Put the total into a subquery of FROM."
            raise Unsupported("SUBQUERY", what, subquery, remedy)
        column = value(subquery, above)
        if above:
            column = call("max", column)
        place.replace(exp.Paren(this=in_place_of(place, column)))
    return made


def _parts(select: exp.Select) -> list[exp.Expr]:
    clauses = (select.args.get(name) for name in ("having", "qualify"))
    return [*select.expressions, *(clause.this for clause in clauses if clause is not None)]


def _is_aggregated(node: exp.Expr) -> bool:
    for part in ancestors(node):
        if (
            isinstance(part, (exp.Filter, exp.Select))
            or function_name(part) in functions.AGGREGATES
        ):
            return not isinstance(part, exp.Select)
    return False


#: An equality that correlates: its sides inside and outside, and its kind.
Pair = tuple[exp.Expr, exp.Expr, type[exp.Expr]]


def correlation(
    conjuncts: list[exp.Expr], below: frozenset[str], kinds: tuple[TypeOf, TypeOf]
) -> tuple[list[Pair], list[exp.Expr]] | None:
    """What conjuncts over relations of both sides say: equalities, and conditions that speak of
    outside alone; None where groups can't answer them.

    Both sides of an equality must have one type: values that are equal only once they are cast may
    stand in several groups.

    Args:
        below: the relations inside.
        kinds: the types of columns inside and outside.
    """
    around = [conjunct for conjunct in conjuncts if not relations_in(conjunct) & below]
    pairs: list[Pair] = []
    for node in (c.unnest() for c in conjuncts if relations_in(c) & below):
        if not isinstance(node, (exp.EQ, exp.NullSafeEQ)):
            return None
        inside, outside = sides = sorted(
            (node.this, node.expression), key=lambda side: not relations_in(side) & below
        )
        alike = are_alike(*(kind_of(side, kind) for side, kind in zip(sides, kinds, strict=True)))
        if not relations_in(inside) <= below or relations_in(outside) & below or not alike:
            return None
        pairs.append((inside, outside, type(node)))
    return pairs, around


def are_alike(one: str, other: str) -> bool:
    """True for types of which equal values stand in one group."""
    return one == other != "" or {one, other} <= set(INTEGERS)


def aggregates_in(node: exp.Expr) -> list[exp.Expr]:
    """The aggregates of an expression, each with its FILTER.

    Raises:
        Unsupported: SUBQUERY for one of which it isn't known here what it gives without rows.
    """
    found: list[exp.Expr] = []
    for part in filter(is_aggregate, node.find_all(exp.Anonymous)):
        name = function_name(part)
        outer = part.parent if isinstance(part.parent, exp.Filter) else part
        around = isinstance(outer.parent, (exp.WithinGroup, exp.Window))
        if around or name not in _ZERO | NULL_OF_NO_ROWS:
            remedy = "Group in a subquery of FROM and join it."
            raise Unsupported("SUBQUERY", f"a correlated {name}()", part, remedy)
        found.append(outer)
    return found


def without_rows(aggregate: exp.Expr, column: exp.Expr) -> exp.Expr:
    """An aggregate that is joined as a column, where no row was found: NULL, but 0 of a count."""
    if function_name(bare_call(aggregate)) in NULL_OF_NO_ROWS:
        return column
    return call("coalesce", column, typed(number(0), "bigint"))


def is_total(select: exp.Select) -> bool:
    """True for a SELECT of values over all its rows."""
    said = any(select.args.get(name) for name in ("group", "having", "distinct"))
    return not said and is_grouped(select)
