"""GROUP BY, HAVING and DISTINCT on top of a select -> the rows that are grouped, and what is made.

The rows are given out as one projection per group key (`g0`, `g1`, ...) and one per column that an
aggregate reads (`c0`, ...). Aggregate calls stay as they are written, over those columns. DISTINCT
is a group-by without aggregates. A total has no keys: the rows carry a constant in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.graph import Grouping
from deltajoin.layers import INPUT
from deltajoin.names import RESERVED_PREFIX, TOTAL
from deltajoin.sql import functions
from deltajoin.sql.dialect import place, spelled, text, unwrapped
from deltajoin.sql.refuse import Unsupported, check_expression
from deltajoin.sql.scope import Block, Scope

Bind = Callable[[exp.Expr], exp.Expr]
_REMEDY = "Use mode 'auto', 'incremental' or 'full' to rebuild, or move the aggregate downstream."


def is_grouped(select: exp.Select) -> bool:
    """True for a select with GROUP BY, HAVING, DISTINCT or an aggregate among its outputs."""
    if any(select.args.get(name) for name in ("group", "having", "distinct")):
        return True
    return any(_is_aggregate(node) for e in select.expressions for node in own_nodes(e))


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression but for those within its subqueries."""
    return node.walk(prune=lambda part: isinstance(part, exp.Query))


def _is_aggregate(node: exp.Expr) -> bool:
    return (
        isinstance(node, exp.Anonymous)
        and str(node.this).lower() in functions.AGGREGATES
        and not isinstance(node.parent, exp.Window)
    )


def own_name(node: exp.Expr) -> str:
    """The name that Spark gives a column without alias; empty where there is none to rely on."""
    if isinstance(node, exp.Column):
        return node.name
    return node.expression.name if isinstance(node, exp.Dot) else ""


def name_outputs(query: exp.Query) -> None:
    """Name what a query gives out without a name of its own, or by one that it gave out before.

    In place, where nobody sees these names: in EXISTS and IN, and on a union's right side.
    """
    query = unwrapped(query)
    while isinstance(query, exp.SetOperation):
        query = unwrapped(query.this)
    seen: set[str] = set()
    for number, node in enumerate(query.expressions if isinstance(query, exp.Select) else ()):
        if isinstance(node, exp.Alias) or node.is_star:
            continue
        name = own_name(node).lower()
        if not name or name in seen:
            node.replace(exp.alias_(node.copy(), f"_c{number}", quoted=True))
        seen.add(name)


def group_rows(select: exp.Select, block: Block, bind: Bind, scope: Scope) -> Grouping:
    """Put the rows to be grouped into the block's outputs; give what is made of them.

    Args:
        bind: resolves the columns of an expression to relations.

    Raises:
        Unsupported: AGGREGATE for grouping sets and aggregates that depend on row order.
        DeltaJoinError: UNNAMED_COLUMN, DUPLICATE_COLUMN.
    """
    outputs = _outputs(select, scope)

    def bound(node: exp.Expr) -> exp.Expr:
        return node if node.meta.get("bound") else bind(_counted(node))

    given = [bound(key) for key in _keys(select, outputs, scope)]
    keys = list({plain(key): key for key in given}.values())
    maker = _Maker(keys)
    made = [(name, maker.over_input(bound(node)), node) for name, node in outputs]
    condition = ""
    if having := select.args.get("having"):
        condition = text(maker.over_input(bound(_unaliased(having.this, outputs, scope))))
    check_names(made)
    block.outputs = [(f"g{i}", key, key) for i, key in enumerate(keys or [exp.Literal.number(1)])]
    block.outputs += [(name, column, column) for name, column in maker.columns()]
    shown = {node.name: name for name, node, _ in reversed(made) if isinstance(node, exp.Column)}
    names = tuple(f"g{i}" for i in range(len(keys)))
    hidden = (f"{RESERVED_PREFIX}key_{i}" for i in range(len(keys)))
    return Grouping(
        keys=names,
        outputs=tuple((name, text(node)) for name, node, _ in made),
        having=condition or None,
        key_outputs=tuple(shown.get(g, key) for g, key in zip(names, hidden, strict=True))
        or (TOTAL,),
    )


def _outputs(select: exp.Select, scope: Scope) -> list[tuple[str, exp.Expr]]:
    found: list[tuple[str, exp.Expr]] = []
    for node in select.expressions:
        if node.is_star and isinstance(node, (exp.Star, exp.Column)):
            for name, value in scope.expand_star(node):
                value.meta["bound"] = True
                found.append((name, value))
            continue
        check_expression(node, grouped=True)
        value = node.this if isinstance(node, exp.Alias) else node
        found.append((node.alias if isinstance(node, exp.Alias) else own_name(value), value))
    return found


def _keys(select: exp.Select, outputs: list[tuple[str, exp.Expr]], scope: Scope) -> list[exp.Expr]:
    group = select.args.get("group")
    if select.args.get("distinct"):
        plain = not isinstance(select.args["distinct"].args.get("on"), exp.Expr)
        if (
            group
            or select.args.get("having")
            or not plain
            or any(_is_aggregate(n) for _, value in outputs for n in value.walk())
        ):
            raise Unsupported("AGGREGATE", "DISTINCT over an aggregate", select, _REMEDY)
        return [value for _, value in outputs]
    if group is None:
        return []
    sets = [
        name
        for name in ("rollup", "cube", "grouping_sets", "all", "totals")
        if group.args.get(name)
    ]
    if sets or any(isinstance(e, (exp.Rollup, exp.Cube)) for e in group.expressions):
        raise Unsupported("AGGREGATE", "GROUP BY with grouping sets", select, _REMEDY)
    keys = []
    for node in group.expressions:
        if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
            number = int(node.this)
            if not 1 <= number <= len(outputs):
                raise Unsupported("AGGREGATE", f"GROUP BY {number}", node, "Name the column.")
            keys.append(outputs[number - 1][1])
        else:
            keys.append(_unaliased(node, outputs, scope))
    for key in keys:
        check_expression(key)
    return keys


def _unaliased(node: exp.Expr, outputs: list[tuple[str, exp.Expr]], scope: Scope) -> exp.Expr:
    """The expression with aliases of the SELECT list written out, where no column has the name."""
    known = {key for item in scope.items for key in item.columns} | set(scope.merged)
    aliases = {name.lower(): value for name, value in reversed(outputs) if name}
    holder = exp.Paren(this=node.copy())
    for column in list(holder.find_all(exp.Column)):
        name = column.name.lower()
        if not column.table and name not in known and name in aliases:
            column.replace(exp.paren(aliases[name].copy()))
    written: exp.Expr = holder.this
    check_expression(written, grouped=True)
    return written


def _counted(node: exp.Expr) -> exp.Expr:
    """`count(*)` as `count(1)`."""
    holder = exp.Paren(this=node.copy())
    for call in list(holder.find_all(exp.Anonymous)):
        if _is_aggregate(call) and any(isinstance(e, exp.Star) for e in call.expressions):
            call.set("expressions", [exp.Literal.number(1)])
    found: exp.Expr = holder.this
    return found


class _Maker:
    """Rewrites bound expressions over relations to expressions over the grouped rows."""

    def __init__(self, keys: list[exp.Expr]) -> None:
        self._keys = {plain(key): f"g{i}" for i, key in reversed(list(enumerate(keys)))}
        self._columns: dict[str, tuple[str, exp.Expr]] = {}

    def columns(self) -> list[tuple[str, exp.Expr]]:
        """What the aggregates read: (name, column of a relation)."""
        return list(self._columns.values())

    def over_input(self, node: exp.Expr) -> exp.Expr:
        holder = exp.Paren(this=node.copy())
        self._rewrite(holder.this)
        made: exp.Expr = holder.this
        return made

    def _rewrite(self, node: exp.Expr) -> None:
        key = self._keys.get(plain(node))
        if key is not None:
            node.replace(input_column(key))
        elif _is_aggregate(node) or isinstance(node, (exp.Filter, exp.WithinGroup)):
            for column in list(node.find_all(exp.Column)):
                column.replace(input_column(self._column(column)))
        elif isinstance(node, exp.Column):
            shown = f"{node.table}.{node.name}"
            raise Unsupported(
                "AGGREGATE", f"{shown} is neither grouped nor aggregated, and", node, _REMEDY
            )
        else:
            for child in list(node.iter_expressions()):
                self._rewrite(child)

    def _column(self, column: exp.Column) -> str:
        name, _ = self._columns.setdefault(plain(column), (f"c{len(self._columns)}", column.copy()))
        return name


def input_column(name: str) -> exp.Column:
    """A column of the rows below."""
    return exp.column(name, table=INPUT, quoted=True)


def plain(node: exp.Expr) -> str:
    """What tells an expression from others: its words, without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return spelled(text(node))


def check_names(made: list[tuple[str, exp.Expr, exp.Expr]]) -> None:
    """Stop at output columns (name, value, origin) without a name; refuse two with one name."""
    seen: set[str] = set()
    for name, _, origin in made:
        if not name:
            what = f"the column {text(origin)}, which has no name of its own,"
            raise Unsupported("UNNAMED_COLUMN", what, origin, "Add AS name.")
        if name.lower() in seen:
            raise DeltaJoinError(
                "DUPLICATE_COLUMN",
                f"two output columns are named '{name}'",
                where=place(origin),
                remedy="Give one of them another alias.",
            )
        seen.add(name.lower())
