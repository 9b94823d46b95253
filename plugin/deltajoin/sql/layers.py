"""Generators and windows on top of the joins -> one stack of layers.

    SELECT ... FROM (SELECT ..., row_number() OVER (...) AS n FROM a JOIN b ...) WHERE n = 1

A subquery or CTE with such a layer that stands alone in FROM dissolves: its columns stand for
expressions, a window's call among them. The layers, from below:

    joins, filters | generators, filters on them | GROUP BY, or windows and filters on them

Anything in another order is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeGuard

from sqlglot import exp

from deltajoin.layers import Generation
from deltajoin.sql.below import Below
from deltajoin.sql.columns import bound, conjuncts_of, flattened
from deltajoin.sql.dialect import exchanged
from deltajoin.sql.from_clause import given_out, joined, under
from deltajoin.sql.generators import (
    View,
    generator_of,
    lateral_view,
    make_generation,
    make_view,
    not_kept,
)
from deltajoin.sql.group import (
    Bind,
    Groups,
    bound_groups,
    check_grouped,
    check_names,
    distinct_rows,
    is_grouped,
    make_grouping,
    over_groups,
)
from deltajoin.sql.grouping_sets import SET, has_sets
from deltajoin.sql.nodes import Given, Named, bare_call, column, is_star, numbered_rows, own_name
from deltajoin.sql.refuse import Unsupported, check_expression, check_shape, downstream
from deltajoin.sql.scope import Block, Item, Layered, Scope
from deltajoin.sql.subqueries import add_where, select_of
from deltajoin.sql.tables import only_query
from deltajoin.sql.time_windows import with_time_windows
from deltajoin.sql.windows import make_windowing, windows_of, with_specs

if TYPE_CHECKING:
    from deltajoin.sql.binder import Binder


@dataclass
class _Rows:
    """A select while its layers are bound; `after` are the filters on windows, `windowed_below`
    tells that windows have been seen."""

    binder: Binder
    block: Block
    scope: Scope
    views: list[View] = field(default_factory=list)
    conditions: list[exp.Expr] = field(default_factory=list)
    outputs: list[Given] = field(default_factory=list)
    after: list[exp.Expr] = field(default_factory=list)
    windowed_below: bool = False

    @property
    def generation(self) -> Generation | None:
        """What the generators make of the block's outputs, where there are some."""
        return make_generation(self.block, self.views, self.conditions) if self.views else None

    def filter(self, conjuncts: list[exp.Expr]) -> None:
        """Put filters below the generators where they can be, else above."""
        for conjunct in conjuncts:
            late = self._generated(conjunct)
            (self.conditions if late else self.block.conjuncts).append(conjunct)

    def where(self, condition: exp.Expr) -> None:
        """Filter the rows; those of windows below once these are there."""
        if self.windowed_below:
            self.after += conjuncts_of(condition, self.scope, _check)
            return
        add_where(self.binder, condition, self.block, self.scope)
        own, self.block.conjuncts = self.block.conjuncts, []
        self.filter(own)
        if any(map(self._generated, self.block.all_conjuncts())):
            raise not_kept("a subquery beside a generated column", condition)

    def lateral(self, node: exp.Lateral) -> None:
        """Put a LATERAL VIEW over the rows."""
        self.views.append(lateral_view(node, self.scope, self.binder.names.take("view")))
        self.scope.items.append(Item(under(node.alias), self.views[-1].shown))

    def project(self, node: exp.Expr, specs: Mapping[str, exp.Window]) -> None:
        """Add what an entry of the SELECT list gives out."""
        if is_star(node):
            self.outputs += [(name, e, node) for name, e in self.scope.expand_star(node)]
            return
        if (call := generator_of(node)) is not None:
            self._project_generator(node, call)
            return
        value = with_specs(node.unalias(), specs)
        _check(value)
        expression = bound(value, self.scope)
        name = own_name(node)
        self.outputs.append((name, expression, node))
        if isinstance(node, exp.Alias):
            self.scope.aliases[name.lower()] = exp.paren(expression.copy())

    def _project_generator(self, node: exp.Expr, call: exp.Anonymous) -> None:
        names = [i.name for i in node.expressions] if isinstance(node, exp.Aliases) else []
        names = [node.alias] if isinstance(node, exp.Alias) else names
        beside = node.parent.expressions if node.parent else []
        several = sum(generator_of(e) is not None for e in beside) > 1
        if not names or several or self.windowed_below or any(windows_of(e) for e in beside):
            raise not_kept(f"{call.this}() beside windows or without a name", node)
        view = make_view(call, False, names, self.scope, self.binder.names.take("view"))
        self.views.append(view)
        self.outputs += [(name, view.column(name), node) for name in names]

    def _generated(self, node: exp.Expr) -> bool:
        """True for an expression over a generator's column."""
        names = {view.relation for view in self.views}
        return any(column.table in names for column in node.find_all(exp.Column))


def is_layered(query: exp.Expr) -> TypeGuard[exp.Select]:
    """True for a select with windows or generators, or over nothing but such a one."""
    if not isinstance(query, exp.Select):
        return False
    return (
        any(map(query.args.get, ("laterals", "qualify", "windows")))
        or any(windows_of(e) or generator_of(e) is not None for e in query.expressions)
        or has_sets(query)
        or _nested(query) is not None
    )


def layered(query: exp.Select, binder: Binder) -> Layered:
    """Bind a query for which `is_layered` or `is_grouped` holds.

    Raises:
        Unsupported: WINDOW, GENERATOR, and what the joins below raise.
        DeltaJoinError: UNNAMED_COLUMN, DUPLICATE_COLUMN.
    """
    plain = not is_layered(query)
    select = check_shape(query, layered=not plain)
    if not is_grouped(select):
        return _windowed(_level(select, binder), select)
    if any(windows_of(e) for e in select.expressions) or select.args.get("qualify"):
        if select.args.get("distinct"):
            return _distinct(select, binder)
        return _windowed(_over_groups(select, binder), select)
    rows, select = rows_of(select, binder)
    if plain:
        cut = with_time_windows(select, rows.block, rows.scope, binder.type_of, binder.names.take)
        select, rows.views, rows.conditions = cut.select, [*cut.views], [*cut.conditions]
    grouping = make_grouping(rows.block, _groups(select, rows)[0])
    return Layered(rows.block, grouping, rows.generation)


def plain_rows(select: exp.Select, binder: Binder, outer: Scope | None) -> Block:
    """Bind a select without groups, windows and generators."""
    rows, select = rows_of(select, binder, outer)
    select = with_time_windows(select, rows.block, rows.scope, binder.type_of).select
    for node in select.expressions:
        rows.project(node, {})
    rows.block.outputs = rows.outputs
    return rows.block


def rows_of(
    select: exp.Select, binder: Binder, outer: Scope | None = None
) -> tuple[_Rows, exp.Select]:
    """FROM, LATERAL VIEW and WHERE of a select; and the select over them, without its scalar
    subqueries. `outer` is the scope around a subquery."""
    nested = _nested(select)
    if nested is None or _stands(nested, select):
        rows = _Rows(binder, *joined(binder, select, outer))
    else:
        rows = _level(check_shape(nested, layered=True), binder)
        outputs = [(name, e) for name, e, _ in rows.outputs]
        item = given_out(outputs, select.args["from_"].this)
        rows.scope, rows.outputs = Scope([item]), []
    for lateral in select.args.get("laterals") or []:
        rows.lateral(lateral)
    if where := select.args.get("where"):
        rows.where(where.this)
    return rows, select_of(binder, select, rows.block, rows.scope)


def _level(select: exp.Select, binder: Binder) -> _Rows:
    """A select without groups: what stands below, and its outputs."""
    rows, select = rows_of(select, binder)
    specs = _specs(select)
    for node in select.expressions:
        rows.project(node, specs)
    if qualify := select.args.get("qualify"):
        _check_qualify(qualify.this, select, rows.scope)
        rows.after += conjuncts_of(with_specs(qualify.this, specs), rows.scope, _check)
    if rows.after or any(windows_of(e) for _, e, _ in rows.outputs):
        rows.windowed_below = True
    return rows


def _check_qualify(condition: exp.Expr, select: exp.Select, scope: Scope) -> None:
    """Stop at a name in QUALIFY, outside its windows, that an alias and another column have: which
    of them Spark takes depends on what else the windows read."""
    aliases = {e.alias.lower(): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    for node in condition.walk(prune=lambda part: isinstance(part, exp.Window)):
        if not isinstance(node, exp.Column) or len(node.parts) > 1:
            continue
        name = node.name.lower()
        meant = aliases.get(name)
        if meant is None or name not in scope.names:
            continue
        if not isinstance(meant, exp.Column) or scope.resolve(meant) != scope.resolve(node):
            what = f"QUALIFY by {name}, a column and another one's alias,"
            raise Unsupported("WINDOW", what, node, "Give it another alias.")


def _specs(select: exp.Select) -> dict[str, exp.Window]:
    """The named windows of a select."""
    return {window.name.lower(): window for window in select.args.get("windows") or []}


def _groups(
    select: exp.Select, rows: _Rows, check: Callable[[exp.Expr], None] = check_grouped
) -> tuple[Groups, Bind]:
    """The groups of rows, which stand once for each set of keys, where there are sets."""
    relation = rows.binder.names.take("sets") if has_sets(select) else ""
    groups, bind = bound_groups(select, rows.scope, check, relation)
    if groups.sets is not None:
        rows.views.append(View(relation, numbered_rows(len(groups.sets.members)), False, (SET,)))
    return groups, bind


def _windowed(rows: _Rows, select: exp.Select) -> Layered:
    """What is made of rows with windows, or generators alone."""
    windowing = None
    check_names(rows.outputs)
    rows.block.outputs = rows.outputs
    if any(windows_of(e) for e in (*(e for _, e, _ in rows.outputs), *rows.after)):
        windowing, rows.block.outputs = make_windowing(rows.outputs, rows.after, select)
    else:  # windows below that nothing reads
        rows.filter(rows.after)
    return Layered(rows.block, None, rows.generation, windowing)


def _over_groups(select: exp.Select, binder: Binder) -> _Rows:
    """The rows of groups, which stand below as a source, with windows among their outputs.

    SELECT k, rank() OVER (ORDER BY sum(v)) AS r FROM t GROUP BY k
    ->  groups: g0 = k, a0 = sum(v);  above: g0 AS k, rank() OVER (ORDER BY a0) AS r
    """
    specs = _specs(select)
    select.set("expressions", [with_specs(e, specs) for e in select.expressions])
    check = partial(_check, grouped=True)
    relation = binder.names.take("groups")
    inner, put = binder.below(relation)
    rows, select = rows_of(select, inner)
    groups, bind = _groups(select, rows, check)
    below = Below(relation, "a", groups.keys)

    def key(node: exp.Expr) -> exp.Expr | None:
        return None if isinstance(node, exp.Literal) else below.key(node)

    def above(node: exp.Expr) -> exp.Expr:
        return over_groups(node, key, below.read)

    outputs: list[Given] = [(name, above(e), e) for name, e in groups.outputs]
    after = []
    if qualify := select.args.get("qualify"):
        _check_qualify(qualify.this, select, rows.scope)
        for part in flattened(with_specs(qualify.this, specs)):
            check(part)
            after.append(above(bind(part)))
    keys = [(f"g{i}", key) for i, key in enumerate(groups.keys)]
    grouping = make_grouping(rows.block, replace(groups, outputs=[*keys, *below.values]))
    block = put(Layered(rows.block, grouping, rows.generation))
    return _Rows(binder, block, Scope([]), outputs=outputs, after=after)


def _distinct(select: exp.Select, binder: Binder) -> Layered:
    """DISTINCT rows of windows, which stand below as a source."""
    relation = binder.names.take("windows")
    inner, put = binder.below(relation)
    if isinstance(select.args["distinct"].args.get("on"), exp.Expr):
        raise Unsupported("WINDOW", "DISTINCT ON", select, downstream("the window"))
    select.set("distinct", None)
    made = layered(select, inner)
    assert made.windowing is not None  # noqa: S101 - the caller's promise
    columns: list[Named] = [(o.name, column(o.name, relation)) for o in made.windowing.outputs]
    block = put(made)
    return Layered(block, distinct_rows(block, columns))


def _nested(select: exp.Select) -> exp.Select | None:
    """The select with layers that alone stands in FROM."""
    below = only_query(select)
    while isinstance(below, exp.Subquery) and not below.args.get("joins"):
        below = below.this
    if not isinstance(below, exp.Select) or is_grouped(below):
        return None
    return below if is_layered(below) else None


def _stands(below: exp.Select, above: exp.Select) -> bool:
    """True for windows below that must be made before what stands above: groups, generators, other
    windows."""
    if not _has_windows(below):
        return False
    qualify = above.args.get("qualify")
    calls = [*above.expressions, *([qualify.this] if qualify else [])]
    return (
        is_grouped(above)
        or bool(above.args.get("laterals"))
        or any(windows_of(e) or generator_of(e) is not None for e in calls)
    )


def _has_windows(select: exp.Select) -> bool:
    own = select.args.get("qualify") or any(windows_of(e) for e in select.expressions)
    nested = _nested(select)
    return bool(own) or (nested is not None and _has_windows(nested))


def _check(node: exp.Expr, *, grouped: bool = False) -> None:
    """An expression that may hold windows, whose parts are plain, or `grouped`."""
    for window in windows_of(node):
        beside = [f.expression for f in window.find_all(exp.Filter)]
        for part in (*bare_call(window.this).expressions, *beside, *window.iter_expressions()):
            if part is not window.this:
                check_expression(part, grouped)
    rest = exchanged(node, lambda part: exp.Null() if isinstance(part, exp.Window) else None)
    check_expression(rest, grouped)
