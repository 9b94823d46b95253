"""WHERE, and subqueries in expressions -> conjuncts, semi and anti joins, joins with one row.

EXISTS and IN become semi joins, under NOT anti joins; one over groups or generated rows is a source
that the conditions join which correlate it (`correlated`). Elsewhere than alone in WHERE, EXISTS is
a count of rows (`scalars`). A scalar subquery's value is a column of
a joined source: of one row, of the groups of a correlated total, of a table by its key. Caller:
`sql.binder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.names import RESERVED_PREFIX
from deltajoin.sql.below import spelling
from deltajoin.sql.columns import bound, conjuncts_of, flattened
from deltajoin.sql.dialect import closed, exchanged, unwrapped
from deltajoin.sql.group import Groups, counted, make_grouping, name_outputs
from deltajoin.sql.imply import factored
from deltajoin.sql.keys import not_in_match
from deltajoin.sql.kinds import kind_of
from deltajoin.sql.nearest import nearest, present
from deltajoin.sql.nodes import is_null
from deltajoin.sql.nulls import is_never_null, is_null_without
from deltajoin.sql.predicates import relations_in
from deltajoin.sql.refuse import Unsupported, check_expression, check_shape
from deltajoin.sql.scalars import (
    Scalar,
    Value,
    aggregates_in,
    any_row,
    by_whole_key,
    correlation,
    count_of,
    is_membership,
    is_negated,
    is_total,
    make_single,
    members_of,
    query_of,
    select_without_scalars,
    takes_first,
    total_of,
    without_rows,
    without_scalars,
)
from deltajoin.sql.scope import Block, Layered, Outer, Scope
from deltajoin.sql.tables import is_real, table_key
from deltajoin.sql.time_windows import with_time_windows

if TYPE_CHECKING:
    from deltajoin.sql.binder import Binder


def add_where(binder: Binder, condition: exp.Expr, block: Block, scope: Scope) -> None:
    """Put a condition into a block: its conjuncts, and joins for EXISTS and IN."""
    value = _value(binder, block, scope)
    for conjunct in [_without_scalars(conjunct, value) for conjunct in flattened(condition)]:
        kind, node = _membership(conjunct)
        if is_membership(node):
            _subquery(binder, kind, node, block, scope, condition)
        else:
            block.conjuncts += conjuncts_of(conjunct, scope)


def conjuncts_with_scalars(
    binder: Binder, condition: exp.Expr, block: Block, scope: Scope
) -> list[exp.Expr]:
    """The conjuncts of an inner join, bound, with scalar subqueries joined to the block."""
    return conjuncts_of(_without_scalars(condition, _value(binder, block, scope)), scope)


def _subquery(
    binder: Binder,
    kind: str,
    node: exp.Exists | exp.In,
    block: Block,
    scope: Scope,
    where: exp.Expr,
) -> None:
    """EXISTS or IN: a semi or anti join with the subquery's block.

    NOT IN takes an unknown comparison for a match, unless both sides are known to be there; of
    several columns, each does, as in Spark.
    """
    query = query_of(node)
    name_outputs(query)
    inner = binder.block(query, outer=scope, distinct=True)  # a match is a match
    on = taken_out(inner, query)
    members = members_of(node)
    if isinstance(node, exp.In) and len(inner.outputs) != len(members):
        what = f"IN of {len(members)} and {len(inner.outputs)} columns"
        raise Unsupported("SUBQUERY", what, query, "Name as many on both sides.")
    facts = [*block.conjuncts, *_plain_conjuncts(where, scope), *on]
    inner_facts = [*inner.conjuncts, *on]
    for member, (_, output, _) in zip(members, inner.outputs, strict=False):
        one, other = closed(_member(member, scope)), closed(output)
        kinds = {kind_of(one, binder.type_of), kind_of(other, binder.type_of)} - {"null"}
        if "string" in kinds and len(kinds) > 1:  # `=` and IN may compare them by other types
            raise Unsupported("SUBQUERY", "IN of text and another type", query, "CAST one of them.")
        known = is_never_null(one, facts) and is_never_null(other, inner_facts)
        unknown_matches = kind == "anti" and not known
        on.append(
            not_in_match(one, other) if unknown_matches else exp.EQ(this=one, expression=other)
        )
    _attach(block, kind, inner, on)


def _member(node: exp.Expr, scope: Scope) -> exp.Expr:
    """What stands before IN, bound."""
    check_expression(node)
    return bound(node, scope)


def _attach(block: Block, kind: str, inner: Block, on: list[exp.Expr]) -> None:
    """Join another block to all that a block has so far."""
    inner.outputs = []
    block.items = [Outer(kind, Block(block.items, block.conjuncts), inner, on)]
    block.conjuncts = []


def taken_out(inner: Block, query: exp.Query) -> list[exp.Expr]:
    """The conjuncts of a subquery's block that speak of relations around it; they leave it.

    Raises:
        Unsupported: SUBQUERY where its joins speak of them too.
    """
    on = _split(inner)
    if not _is_closed(inner, inner.relations):
        raise Unsupported("SUBQUERY", "a correlated join", query, "Correlate in WHERE.")
    return on


def _split(inner: Block) -> list[exp.Expr]:
    below = inner.relations
    conjuncts = [part for conjunct in inner.conjuncts for part in factored(conjunct)]
    inner.conjuncts = [c for c in conjuncts if relations_in(c) <= below]
    return [c for c in conjuncts if not relations_in(c) <= below]


def _is_closed(inner: Block, below: frozenset[str]) -> bool:
    """True for a block without conditions on other relations."""
    return all(relations_in(c) <= below for c in inner.all_conjuncts())


def _plain_conjuncts(where: exp.Expr, scope: Scope) -> list[exp.Expr]:
    """The conjuncts of a WHERE that hold no subquery, bound."""
    return [bound(c, scope) for c in flattened(where) if c.find(exp.Query) is None]


def select_of(binder: Binder, select: exp.Select, block: Block, scope: Scope) -> exp.Select:
    """The select with columns of joined sources in the place of its scalar subqueries."""
    return select_without_scalars(select, _value(binder, block, scope))


def _value(binder: Binder, block: Block, scope: Scope) -> Value:
    """Gives the name of a scalar subquery's value, once it is joined to the block."""

    def value(subquery: Scalar, above_groups: bool) -> exp.Expr:
        def named(node: exp.Expr) -> exp.Column:
            name = binder.names.take(f"{RESERVED_PREFIX}scalar")
            scope.aliases[name] = closed(node)
            return exp.column(name, quoted=True)

        def given(query: exp.Query) -> exp.Column:
            return named(_scalar(binder, query, block, None if above_groups else scope))

        if isinstance(subquery, exp.Subquery):
            return given(subquery.this)
        members = [named(_member(one, scope)) for one in members_of(subquery)]
        found = given(count_of(subquery, members))
        if isinstance(subquery, exp.Exists) or not is_negated(subquery):
            return found
        unknown = exp.and_(is_null(members[0]), given(count_of(subquery)))
        found_or_unknown = exp.or_(found, given(count_of(subquery, [exp.null()])), unknown)
        return exp.Paren(this=found_or_unknown)

    return value


def _scalar(binder: Binder, query: exp.Query, block: Block, scope: Scope | None) -> exp.Expr:
    """The value of a scalar subquery, whose row is joined to the block.

    Args:
        scope: what it may speak of; None above groups.
    """
    remedy = "Join it, or make it a total: max(...)."
    if scope is not None and (taken := _value_of_a_row(binder, query, block, scope)) is not None:
        return taken
    query = _without_idle_limit(binder, query)
    name_outputs(query)
    relations = list(binder.relations)
    try:
        inner = binder.block(query, name="scalar")
    except DeltaJoinError as error:
        if error.code != "UNKNOWN_COLUMN":
            raise
        binder.relations = relations
        found = totals_of(binder, query, block, scope) if scope is not None else None
        if found is None or len(found) != 1:
            remedy = "Equate a declared key with columns around it, join it, or make it max(...)."
            raise Unsupported("SUBQUERY", "a correlated subquery", query, remedy) from error
        return found[0]
    if len(inner.outputs) != 1:
        raise Unsupported("SUBQUERY", "a subquery of several columns", query, remedy)
    value = inner.outputs[0][1]
    source = dict(binder.relations)
    sources = [binder.derived.get(source.get(str(item), "")) for item in inner.items]
    if not all(derived and derived.at_most_one_row for derived in sources):
        if (total := total_of(unwrapped(query))) is not None:
            binder.relations = relations
            return _scalar(binder, total, block, scope)
        what = "a scalar subquery that may give several rows"
        raise Unsupported("SUBQUERY", what, query, remedy)
    if not inner.conjuncts and all(d and d.exactly_one_row for d in sources):
        block.add(inner)
        return value
    if not is_null_without(value, inner.relations):
        raise Unsupported("SUBQUERY", "a computed scalar subquery", query, remedy)
    _attach(block, "left", inner, [])
    return value


def _value_of_a_row(
    binder: Binder, query: exp.Query, block: Block, scope: Scope
) -> exp.Expr | None:
    """The value of one row of those that correlate, which is joined to the block: the last before,
    the first after, or the first by an order among those that equalities find."""
    select = unwrapped(query)
    if len(select.expressions) != 1:
        return None
    if (found := nearest(binder, query, scope)) is not None and len(found.block.outputs) == 1:
        ((_, value, _),) = found.block.outputs
        _attach(block, "left", found.block, found.on)
        return present(value, found.at) if select.args.get("limit") else value
    if not takes_first(select):
        return None
    name_outputs(select)
    first = binder.correlated(select, "scalar", scope)
    if first is None or len(first.outputs) != 1:
        return None
    ((_, value, _),) = first.outputs
    on, first.conjuncts = first.conjuncts, []
    _attach(block, "left", first, on)
    return value


def _without_idle_limit(binder: Binder, query: exp.Query) -> exp.Query:
    """A query without a LIMIT that a declared key makes idle."""
    return any_row(query) if _is_by_key(binder, query) else query


def _is_by_key(binder: Binder, select: exp.Query) -> bool:
    """True for a SELECT from one table by its declared key."""
    source = select.args.get("from_")
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or not is_real(table) or table.args.get("pivots"):
        return False
    name = table_key(table, binder.columns)
    return by_whole_key(select, binder.columns[name], binder.sources.keys.get(name, ()))


def totals_of(
    binder: Binder, query: exp.Query, block: Block, scope: Scope
) -> list[exp.Expr] | None:
    """The values of a total that equalities correlate: its groups are joined to the block."""
    select = check_shape(unwrapped(query))
    if not is_total(select) and not (_is_by_key(binder, select) and make_single(select)):
        return None
    inner = binder.inner()
    inner.names = binder.names  # both speak of each other's relations
    rows, inside = inner.rows(select, scope)
    below = rows.relations
    found = correlation(_split(rows), below, (inner.type_of, binder.type_of))
    select = select_of(inner, select, rows, inside)
    select = with_time_windows(select, rows, inside, inner.type_of).select
    for output in select.expressions:
        aggregates_in(output)  # with the lines of errors
    if found is None or not _is_closed(rows, below):
        return None
    outputs = [bound(counted(output.unalias()), inside) for output in select.expressions]
    calls = [aggregate for output in outputs for aggregate in aggregates_in(output)]
    pairs, on = found
    made = [(f"a{i}", call.copy()) for i, call in enumerate(calls)]
    made += [(f"k{i}", key.copy()) for i, (key, _, _) in enumerate(pairs)]
    grouping = make_grouping(rows, Groups([key for key, _, _ in pairs], made, None))
    if any(not relations_in(value) <= rows.relations for _, value, _ in rows.outputs):
        return None
    made_groups = inner.source(Layered(rows, grouping, None, None), "scalar")
    groups = binder.over(made_groups, "scalar", query)
    joined = {name: value for name, value, _ in groups.outputs}
    equal = (
        kind(this=outside.copy(), expression=joined[f"k{i}"])
        for i, (_, outside, kind) in enumerate(pairs)
    )
    _attach(block, "left", groups, [*equal, *on])
    values = {
        spelling(call): closed(without_rows(call, joined[f"a{i}"])) for i, call in enumerate(calls)
    }

    def value_of(part: exp.Expr) -> exp.Expr | None:
        known = values.get(spelling(part))
        return known.copy() if known is not None else None

    shown = [exchanged(output, value_of) for output in outputs]
    return None if any(relations_in(value) & below for value in shown) else shown


def _membership(conjunct: exp.Expr) -> tuple[str, exp.Expr]:
    """The join that EXISTS or IN is under its negations, and what stands under them."""
    kind, node = "semi", conjunct
    while isinstance(node, (exp.Not, exp.Paren)):
        kind = ("anti" if kind == "semi" else "semi") if isinstance(node, exp.Not) else kind
        node = node.this
    return kind, node


def _without_scalars(conjunct: exp.Expr, value: Value) -> exp.Expr:
    """A conjunct without scalar subqueries; EXISTS and IN as they are.

    All of a condition before any is put into the block: what scalars join stands below it.
    """
    is_join = is_membership(_membership(conjunct)[1])
    return conjunct if is_join else without_scalars(conjunct, value)
