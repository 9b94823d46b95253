"""FROM -> the block of joins that it is, and the names in it.

A table is a relation; a subquery, a CTE and joins in brackets dissolve into the block, or are one
relation over a derived source; PIVOT, UNPIVOT and rows of literals are such sources. An inner join
adds its conditions to the block, any other becomes an `Outer` of two blocks. Caller: `sql.binder`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from deltajoin.names import SHOWN
from deltajoin.sql.columns import conjuncts_of, item_of, mark_missing, renamed
from deltajoin.sql.constant_queries import reads_no_table, rows_of
from deltajoin.sql.constants import constant_source, is_constant, one_row
from deltajoin.sql.dialect import text, unwrapped
from deltajoin.sql.generators import lateral_of, lateral_view, make_generation, not_kept
from deltajoin.sql.group import make_grouping
from deltajoin.sql.nearest import nearest
from deltajoin.sql.nodes import Named, column, is_star, number, own_name
from deltajoin.sql.pivot import apart, pivoted, unpivoted
from deltajoin.sql.refuse import Unsupported, join_kind
from deltajoin.sql.scalars import is_total, takes_first
from deltajoin.sql.scope import Block, Item, Layered, Outer, Scope
from deltajoin.sql.subqueries import conjuncts_with_scalars, taken_out, totals_of
from deltajoin.sql.tables import Parts, find_cte, lowered, parts_of, table_key
from deltajoin.sql.using import joined_names, without_right

if TYPE_CHECKING:
    from deltajoin.sql.binder import Binder

_SELECTS = (exp.Select, exp.SetOperation)
_ONE_ROW = "one_row"
#: Joins after which rows of a side may be missing.
_MISSES_LEFT, _MISSES_RIGHT = ("right", "full"), ("left", "full")


def joined(binder: Binder, select: exp.Select, outer: Scope | None = None) -> tuple[Block, Scope]:
    """Bind the FROM clause of a SELECT, without its WHERE."""
    return _joined(binder, select, select.args.get("joins") or [], outer)


def _joined(
    binder: Binder, select: exp.Select, joins: list[exp.Join], outer: Scope | None
) -> tuple[Block, Scope]:
    block, scope = Block(), Scope(outer=outer)
    source = select.args.get("from_")
    if numbers := [i for i, join in enumerate(joins) if lateral_of(join)]:
        below, joins = joins[: numbers[-1] + 1], joins[numbers[-1] + 1 :]
        scope = _generated(binder, select, below, block, outer)
    elif source is not None:
        scope = _from(binder, source.this, block, outer)
    for join in joins:
        scope = _join(binder, join, block, scope)
    return block, scope


def _generated(
    binder: Binder, select: exp.Select, joins: list[exp.Join], block: Block, outer: Scope | None
) -> Scope:
    """The names of joins that end with LATERAL of a generator, to which others are joined: a source
    of its own, of the columns that the select reads."""
    *before, join = joins
    inner = binder.inner()
    below, scope = _joined(inner, select, before, None)
    if scope.merged or outer is not None:
        raise not_kept("a join behind LATERAL of a generator, over USING or correlated,", join)
    view = lateral_view(join.this, scope, inner.names.take("view"))
    scope.items.append(Item(under(join.this.alias), view.shown))
    reads = _reads(select, len(joins))
    for item in scope.items:
        item.columns = {key: found for key, found in item.columns.items() if reads(item, key)}
    cells = _cells(scope.items)
    below.outputs = [(f"c{i}", item.columns[key][1], join) for i, (item, key) in enumerate(cells)]
    layers = Layered(below, generation=make_generation(below, [view], []))
    name = join.this.alias or "generated"
    found = binder.over(binder.sources.once(join, lambda: inner.source(layers, name)), name, join)
    block.add(found)
    block.crossed = any(text(join).startswith(",") for join in joins)
    _exchange(cells, found.columns)
    return scope


def _reads(select: exp.Select, below: int) -> Callable[[Item, str], bool]:
    """Tells of a column of an item whether a select may read it above its first joins."""
    joins = select.args["joins"]
    early = {id(column) for join in joins[:below] for column in join.find_all(exp.Column)}
    columns = (column for column in select.find_all(exp.Column) if id(column) not in early)
    merged = (name for join in joins[below:] for name in join.args.get("using") or [])
    names = {part.name.lower() for part in (*merged, *(p for c in columns for p in c.parts))}
    stars = [node for node in select.expressions if is_star(node)]
    tables = {node.table.lower() for node in stars if isinstance(node, exp.Column)}
    if len(tables) < len(stars) or any(join.method for join in joins[below:]):
        return lambda item, key: True
    return lambda item, key: key in names or any(q[-1] in tables for q in item.qualifiers)


def _from(binder: Binder, node: exp.Expr, block: Block, outer: Scope | None) -> Scope:
    """The names of a FROM item, which may be joins in brackets."""
    own = Block()
    scope = _item(binder, node, own, outer)
    for join in node.args.get("joins") or []:
        scope = _join(binder, join, own, scope)
    block.add(own)
    return scope


def _item(binder: Binder, node: exp.Expr, block: Block, outer: Scope | None) -> Scope:
    pivots = node.args.get("pivots") or []
    if not pivots:
        return _plain(binder, node, block, outer)
    return Scope(_turned(binder, node, pivots, block), outer=outer)


def _turned(binder: Binder, node: exp.Expr, pivots: list[exp.Pivot], block: Block) -> list[Item]:
    """The names of an item with PIVOT or UNPIVOT after it, which is a source of its own."""
    *before, pivot = pivots
    inner, below = binder.inner(), Block()
    if before:
        scope = Scope(_turned(inner, node, before, below))
    else:
        scope = _plain(inner, node, below, None)
    if pivot.args.get("unpivot"):
        view_name = inner.names.take("view")
        stay, below.outputs, view, conditions = unpivoted(pivot, scope, inner.type_of, view_name)
        layers = Layered(below, generation=make_generation(below, [view], conditions))
    else:
        stay, groups = pivoted(pivot, scope, inner.type_of)
        layers = Layered(below, make_grouping(below, groups))
    name = pivot.alias or node.alias_or_name or "pivot"
    source = binder.sources.once(pivot, lambda: inner.source(layers, name))
    found = binder.over(source, name, pivot)
    block.add(found)
    if pivot.alias:
        return [item_of(under(pivot.alias), found.columns, exp.Select())]
    return apart(pivot, scope, found.columns, stay)


def _plain(binder: Binder, node: exp.Expr, block: Block, outer: Scope | None) -> Scope:
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        cte = find_cte(node)
        item = _inline(binder, cte.this, node, block) if cte else _base(binder, node, block)
    elif isinstance(node, exp.Subquery) and isinstance(
        node.this, exp.Query if node.alias else _SELECTS
    ):
        item = _inline(binder, node.this, node, block)
    elif isinstance(node, (exp.Subquery, exp.Paren)) and not node.alias:
        return _from(binder, node.this, block, outer)
    elif is_constant(node):
        item = _constant(binder, node, block)
    else:
        raise Unsupported("TABLE_FUNCTION", "a FROM item that is no table", node, "Use tables.")
    return Scope([item], outer=outer)


def _constant(binder: Binder, node: exp.Expr, block: Block) -> Item:
    """Rows of literals, as a relation."""
    alias = node.alias or "rows"
    take = binder.sources.names.take
    rows = binder.sources.once(node, lambda: constant_source(take(alias), node))
    inner = binder.over(rows, alias, node)
    block.add(inner)
    return item_of(under(node.alias), inner.columns, node)


def _base(binder: Binder, node: exp.Table, block: Block) -> Item:
    key = table_key(node, binder.columns)
    relation = binder.names.take(node.alias or node.name)
    binder.relations.append((relation, key))
    block.items.append(relation)
    names = binder.columns[key]
    block.conjuncts += [column(name, relation) for name in names if name == SHOWN]
    parts = lowered(parts_of(node))
    whole = tuple(parts[start:] for start in range(len(parts)))
    shown: list[Named] = [(name, column(name, relation)) for name in names if name != SHOWN]
    return item_of(under(node.alias) or whole, shown, node)


def _inline(binder: Binder, query: exp.Query, node: exp.Expr, block: Block) -> Item:
    name = node.alias_or_name
    if reads_no_table(query) and not binder.can_bind(query) and (rows := rows_of(name, query)):
        take = binder.sources.names.take
        source = binder.sources.once(query, lambda: replace(rows, name=take(name)))
        inner = binder.over(source, name, query)
    else:
        inner = binder.block(query, name=name)
    block.add(inner)
    return given_out(inner.columns, node)


def given_out(outputs: list[Named], node: exp.Expr) -> Item:
    """The FROM item of a subquery or CTE that gives out these columns."""
    cte = find_cte(node) if isinstance(node, exp.Table) else None
    outputs = renamed(outputs, cte) if cte is not None else outputs
    return item_of(under(node.alias_or_name), outputs, node)


def under(alias: str) -> tuple[Parts, ...]:
    """The one qualifier of what has an alias."""
    return ((alias.lower(),),) if alias else ()


def _join(binder: Binder, join: exp.Join, block: Block, left: Scope) -> Scope:
    kind = _kind_of(join)
    if kind in ("right", "full") and block.crossed:
        what = f"{kind.upper()} JOIN after a comma"
        raise Unsupported("OUTER_JOIN", what, join, "Write the joins out.")
    block.crossed = block.crossed or text(join).startswith(",")
    if join.this.args.get("pivots"):
        raise Unsupported("PIVOT", "PIVOT or UNPIVOT of a join", join, "Put it in brackets.")
    mine = block if kind == "inner" else Block()
    right, found = _right(binder, join.this, mine, left, kind)
    if kind in _MISSES_LEFT:
        _hold(binder, block, left.items)
    if kind in _MISSES_RIGHT:
        _hold(binder, mine, right.items)
    scope, on = joined_names(kind, left, right, join)
    on += found
    condition = join.args.get("on")
    if kind == "inner":
        own = conjuncts_with_scalars(binder, condition, block, scope) if condition else []
        block.conjuncts += on + own
        return scope
    on += conjuncts_of(condition, scope) if condition else []
    sides = [Block(block.items, block.conjuncts), mine]
    if kind in _MISSES_RIGHT:
        mark_missing(kind, right.items, scope, sides[1], on, join)
    if kind in _MISSES_LEFT:
        mark_missing(kind, left.items, scope, sides[0], on, join)
    if kind in ("semi", "anti"):
        scope = without_right(scope, left)
    if kind == "right":
        kind, sides = "left", sides[::-1]
    block.items, block.conjuncts = [Outer(kind, sides[0], sides[1], on)], []
    return scope


def _right(
    binder: Binder, node: exp.Expr, block: Block, left: Scope, kind: str
) -> tuple[Scope, list[exp.Expr]]:
    """The names of a join's right side; of a LATERAL subquery, of which its rows, its groups, its
    total or one of its rows are joined, also its conditions on the left side."""
    query = node.this.this if isinstance(node.this, exp.Subquery) else None
    if not (
        kind in ("inner", "left") and isinstance(node, exp.Lateral) and isinstance(query, _SELECTS)
    ):
        return _from(binder, node, block, left.outer), []
    of_all = kind == "inner" and _is_total(node)
    if of_all and (values := totals_of(binder, query, block, left)) is not None:
        shown = [(own_name(one), value) for one, value in zip(query.selects, values, strict=True)]
        return Scope([item_of(under(node.alias), shown, node)], outer=left.outer), []
    found = nearest(binder, query, left) if query.args.get("limit") else None
    if found is not None:
        inner, on = found.block, found.on
    else:
        first = binder.correlated(query, node.alias, left) if takes_first(query) else None
        inner = first or binder.block(query, name=node.alias, outer=left)
        on = taken_out(inner, query)
    block.add(inner)
    return Scope([item_of(under(node.alias), inner.columns, node)], outer=left.outer), on


def _kind_of(join: exp.Join) -> str:
    """The kind of a join; inner for LEFT JOIN LATERAL of a total, which always has its row."""
    kind = join_kind(join)
    always = kind == "left" and _is_total(join.this) and join.args.get("on") in (None, exp.true())
    return "inner" if always else kind


def _is_total(node: exp.Expr) -> bool:
    """True for LATERAL of a total."""
    query = unwrapped(node.this) if isinstance(node, exp.Lateral) else None
    return isinstance(query, exp.Select) and is_total(query)


def fill(binder: Binder, block: Block) -> None:
    """Put one row where nothing is joined: a SELECT without FROM, alone or as a side."""
    one: list[Named] = [("one", number(1))]
    take = binder.sources.names.take
    for part in block.parts:
        if not part.items:
            row = binder.sources.once(_ONE_ROW, lambda: one_row(take(_ONE_ROW), one))
            part.items = binder.over(row, _ONE_ROW, exp.Select()).items


def _hold(binder: Binder, block: Block, items: list[Item]) -> None:
    """Make a SELECT without FROM a source, where an outer join may miss its row."""
    cells = _cells(items)
    if block.items or not cells:
        return
    for item, key in cells:
        if item.columns[key][1].find(exp.Column):
            what = "LEFT JOIN LATERAL of what the row itself says"
            raise Unsupported("SUBQUERY", what, item.columns[key][1], "Say it in a CASE.")
    row = [(f"c{i}", item.columns[key][1]) for i, (item, key) in enumerate(cells)]
    source = one_row(binder.sources.names.take(_ONE_ROW), row)
    held = binder.over(source, _ONE_ROW, exp.Select())
    block.items = held.items
    _exchange(cells, held.columns)


def _cells(items: list[Item]) -> list[tuple[Item, str]]:
    """Each column of some items."""
    return [(item, key) for item in items for key in item.columns]


def _exchange(cells: list[tuple[Item, str]], columns: list[Named]) -> None:
    """Let columns of items stand for those of a source over them."""
    for (item, key), (_, value) in zip(cells, columns, strict=True):
        item.columns[key] = (item.columns[key][0], value)
