"""SQL text -> JoinGraph: resolve names, inline subqueries, split conjuncts, classify them.

A CTE, a derived table and a parenthesised join that are plain select-project-join blocks dissolve
into their relations; each reference to a CTE is an occurrence of its own. What remains is one flat
list of base relations, one list of conjuncts, one list of projections. Anything that does not
dissolve makes the query *opaque*: the text stays as it is and only full recomputation is possible.

Caller: gives the columns of every source; gets a `BoundQuery` or a `DeltaJoinError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from deltajoin.errors import DeltaJoinError
from deltajoin.graph import JoinGraph
from deltajoin.names import UniqueNames
from deltajoin.sql.classify import build_graph
from deltajoin.sql.dialect import parse, place, text
from deltajoin.sql.refuse import (
    Unsupported,
    check_bare_functions,
    check_deterministic,
    check_expression,
    check_join,
    check_shape,
    name_units,
)
from deltajoin.sql.scope import Item, Scope
from deltajoin.sql.tables import find_cte, resolve_tables, table_key

Columns = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Reason:
    """Why a query can't be kept incrementally."""

    code: str
    message: str
    where: str
    remedy: str


@dataclass(frozen=True)
class BoundQuery:
    """A query on known tables: a join graph, or the reason why there is none."""

    sql: str
    tables: tuple[str, ...]
    graph: JoinGraph | None
    reason: Reason | None
    canonical: str


def bind(sql: str, columns: Columns) -> BoundQuery:
    """Bind a query to its source tables.

    Args:
        columns: source name -> column names in schema order.

    Raises:
        DeltaJoinError: SQL_PARSE_ERROR, NOT_A_QUERY, UNKNOWN_TABLE, UNKNOWN_COLUMN,
            AMBIGUOUS_COLUMN, UNCONNECTED_RELATIONS, NON_DETERMINISTIC, UNKNOWN_FUNCTION,
            UNNAMED_COLUMN, DUPLICATE_COLUMN, TIME_TRAVEL, RESERVED_NAME.
    """
    query = parse(sql)
    name_units(query)
    tables = resolve_tables(query, columns)
    check_deterministic(query)
    canonical = text(query)
    try:
        block = _Binder(columns).block(query)
        graph = build_graph(block.relations, block.conjuncts, block.outputs, columns)
    except Unsupported as stop:
        check_bare_functions(query)
        message = f"{stop.message} is not kept incrementally"
        reason = Reason(stop.code, message, stop.where or "the SQL", stop.remedy)
        return BoundQuery(sql, tables, None, reason, canonical)
    return BoundQuery(sql, tables, graph, None, canonical)


@dataclass
class Block:
    """A flattened select: base relations, conjuncts and outputs over them."""

    relations: list[tuple[str, str]] = field(default_factory=list)
    conjuncts: list[exp.Expr] = field(default_factory=list)
    outputs: list[tuple[str, exp.Expr, exp.Expr]] = field(default_factory=list)


class _Binder:
    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._names = UniqueNames()

    def block(self, query: exp.Query) -> Block:
        """Flatten one SELECT with everything below it."""
        select = check_shape(query)
        block, scope = Block(), Scope()
        source = select.args.get("from_")
        if source is None:
            raise Unsupported("NO_FROM", "a SELECT without FROM", select, "Select from a table.")
        self._join_item(source.this, block, scope)
        for join in select.args.get("joins") or []:
            self._join(join, block, scope)
        if where := select.args.get("where"):
            self._conjuncts(where.this, block, scope)
        for projection in select.expressions:
            self._project(projection, block, scope)
        return block

    def _join_item(self, node: exp.Expr, block: Block, scope: Scope) -> Item:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            if node.args.get("pivots"):
                raise Unsupported("PIVOT", "PIVOT", node, "Pivot downstream.")
            cte = find_cte(node)
            item = self._inline(cte.this, node, block) if cte else self._base(node, block)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            item = self._inline(node.this, node, block)
        elif isinstance(node, (exp.Subquery, exp.Paren)) and not node.alias:
            return self._join_item(node.this, block, scope)
        else:
            raise Unsupported("TABLE_FUNCTION", "a FROM item that is no table", node, "Use tables.")
        joins = node.args.get("joins") or []
        if not joins:
            scope.items.append(item)
            return item
        group = Scope([item])
        for join in joins:
            self._join(join, block, group)
        scope.items += group.items
        scope.merged.update(group.merged)
        visible = [pair for each in group.items for pair in each.columns.items()]
        return Item((), {**dict(reversed(visible)), **group.merged})

    def _base(self, node: exp.Table, block: Block) -> Item:
        key = table_key(node, self._columns)
        relation = self._names.take(node.alias or node.name)
        block.relations.append((relation, key))
        columns = self._columns[key]
        expressions: list[tuple[str, exp.Expr]] = [
            (name, exp.column(name, table=relation, quoted=True)) for name in columns
        ]
        parts = tuple(part.name.lower() for part in node.parts)
        qualifiers = (
            ((node.alias.lower(),),)
            if node.alias
            else tuple(parts[start:] for start in range(len(parts)))
        )
        return Item(qualifiers, _named(expressions, node))

    def _inline(self, query: exp.Query, node: exp.Expr, block: Block) -> Item:
        inner = self.block(query)
        block.relations += inner.relations
        block.conjuncts += inner.conjuncts
        outputs = [(name, expression) for name, expression, _ in inner.outputs]
        cte = find_cte(node) if isinstance(node, exp.Table) else None
        if cte is not None and cte.args["alias"].args.get("columns"):
            outputs = _renamed(outputs, cte.args["alias"])
        alias = node.alias or (node.name if isinstance(node, exp.Table) else "")
        return Item(((alias.lower(),),) if alias else (), _named(outputs, node))

    def _join(self, join: exp.Join, block: Block, scope: Scope) -> None:
        check_join(join)
        before = list(scope.items)
        merged = dict(scope.merged)
        item = self._join_item(join.this, block, scope)
        using = [identifier.name for identifier in join.args.get("using") or []]
        if (join.method or "").upper() == "NATURAL":
            known = {k for i in before for k in i.columns if k not in i.hidden} | set(merged)
            using = [shown for key, (shown, _) in item.columns.items() if key in known]
        left = Scope(before, merged)
        for name in using:
            self._merge(name, left, item, join, block, scope)
        if condition := join.args.get("on"):
            self._conjuncts(condition, block, scope)

    def _merge(
        self, name: str, left: Scope, item: Item, join: exp.Join, block: Block, scope: Scope
    ) -> None:
        mine = exp.column(exp.to_identifier(name, quoted=True))
        mine.meta.update(next((i.meta for i in join.find_all(exp.Identifier) if i.meta), {}))
        left_side = left.resolve(mine)
        right_side = item.column(name)
        if right_side is None:
            raise DeltaJoinError(
                "UNKNOWN_COLUMN",
                f"USING ({name}): the right side lacks it",
                where=place(join),
                remedy="Join ON two columns, or correct the name.",
            )
        block.conjuncts.append(exp.EQ(this=left_side.copy(), expression=right_side))
        shown = next(i.columns[name.lower()][0] for i in scope.items if name.lower() in i.columns)
        scope.merged.setdefault(name.lower(), (shown, left_side))
        for each in scope.items:
            if name.lower() in each.columns:
                each.hidden.add(name.lower())

    def _conjuncts(self, condition: exp.Expr, block: Block, scope: Scope) -> None:
        for conjunct in _flatten(condition):
            check_expression(conjunct)
            block.conjuncts.append(_bound(conjunct, scope))

    def _project(self, node: exp.Expr, block: Block, scope: Scope) -> None:
        if node.is_star and isinstance(node, (exp.Star, exp.Column)):
            block.outputs += [(name, e, node) for name, e in scope.expand_star(node)]
            return
        check_expression(node)
        value = node.this if isinstance(node, exp.Alias) else node
        expression = _bound(value, scope)
        name = node.alias if isinstance(node, exp.Alias) else _own_name(value)
        block.outputs.append((name, expression, node))
        if isinstance(node, exp.Alias):
            scope.aliases[name.lower()] = exp.paren(expression.copy())


def _bound(node: exp.Expr, scope: Scope) -> exp.Expr:
    if any(isinstance(part, exp.Star) for part in node.walk()):
        raise Unsupported("STAR", "* inside an expression", node, "List the columns.")
    holder = exp.Paren(this=node.copy())
    for column in list(holder.find_all(exp.Column)):
        resolved = scope.resolve(column)
        if not isinstance(resolved, (exp.Column, exp.Dot, exp.Paren, exp.Literal)):
            resolved = exp.Paren(this=resolved)
        column.replace(resolved)
    bound: exp.Expr = holder.this
    return bound


def _flatten(condition: exp.Expr) -> list[exp.Expr]:
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.And):
        return _flatten(condition.this) + _flatten(condition.expression)
    return [condition]


def _own_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Column):
        return node.name
    return node.expression.name if isinstance(node, exp.Dot) else ""


def _named(outputs: list[tuple[str, exp.Expr]], node: exp.Expr) -> dict[str, tuple[str, exp.Expr]]:
    alias = node.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.args.get("columns"):
        outputs = _renamed(outputs, alias)
    named: dict[str, tuple[str, exp.Expr]] = {}
    for name, expression in outputs:
        if name.lower() in named:
            raise DeltaJoinError(
                "DUPLICATE_COLUMN",
                f"the subquery has two columns '{name}'",
                where=place(node),
                remedy="Give each its own alias.",
            )
        if name:
            named[name.lower()] = (name, expression)
    return named


def _renamed(
    outputs: list[tuple[str, exp.Expr]], alias: exp.TableAlias
) -> list[tuple[str, exp.Expr]]:
    names = [column.name for column in alias.args["columns"]]
    if len(names) != len(outputs):
        raise DeltaJoinError(
            "COLUMN_ALIASES",
            f"{len(names)} column aliases for {len(outputs)} columns",
            where=place(alias),
            remedy="Give one alias to each column.",
        )
    return [(name, expression) for name, (_, expression) in zip(names, outputs, strict=True)]
