"""Generators and windows on top of the joins -> one stack of layers.

    SELECT ... FROM (SELECT ..., row_number() OVER (...) AS n FROM a JOIN b ...) WHERE n = 1

A subquery or CTE with such a layer that stands alone in FROM dissolves: its columns stand for
expressions, a window's call among them. The layers, from below:

    joins, filters | generators, filters on them | GROUP BY, or windows and filters on them

A generator's column is bound as a column of a relation that no table has (`View`). Anything in
another order is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeGuard

from sqlglot import exp

from deltajoin.layers import Generation
from deltajoin.sql.columns import bound
from deltajoin.sql.from_clause import given_out, joined
from deltajoin.sql.generators import Named, View, generator_of, make_generation
from deltajoin.sql.group import (
    Bind,
    Groups,
    bound_groups,
    check_names,
    group_rows,
    is_grouped,
    make_grouping,
)
from deltajoin.sql.group_keys import own_name
from deltajoin.sql.grouping_sets import SET, has_sets
from deltajoin.sql.over_groups import Above
from deltajoin.sql.refuse import Unsupported, check_expression, check_shape, downstream
from deltajoin.sql.scope import Block, Item, Layered, Scope
from deltajoin.sql.subqueries import add_where, select_of
from deltajoin.sql.tables import find_cte
from deltajoin.sql.windows import call_of, make_windowing, windows_of, with_specs

if TYPE_CHECKING:
    from deltajoin.sql.binder import Binder


@dataclass
class _Rows:
    """A select while its layers are bound; `after` are the filters on windows."""

    block: Block
    scope: Scope
    views: list[View] = field(default_factory=list)
    conditions: list[exp.Expr] = field(default_factory=list)
    outputs: list[Named] = field(default_factory=list)
    after: list[exp.Expr] = field(default_factory=list)

    @property
    def windowed(self) -> bool:
        """True when windows have been seen below or in the select itself."""
        return any(windows_of(e) for _, e, _ in self.outputs) or bool(self.after)

    def filter(self, conjuncts: list[exp.Expr]) -> None:
        """Put filters below the generators where they can be, else above."""
        self.conditions += [c for c in conjuncts if self.reads_views(c)]
        self.block.conjuncts += [c for c in conjuncts if not self.reads_views(c)]

    def generation(self) -> Generation | None:
        """What the generators make of the block's outputs, where there are some."""
        if not self.views:
            return None
        return make_generation(self.block, self.views, self.conditions)

    def reads_views(self, node: exp.Expr) -> bool:
        """True for an expression over a generator's column."""
        names = {view.relation for view in self.views}
        return any(column.table in names for column in node.find_all(exp.Column))


def is_layered(query: exp.Expr) -> TypeGuard[exp.Select]:
    """True for a select with windows or generators, or over nothing but such a one."""
    if not isinstance(query, exp.Select):
        return False
    if query.args.get("laterals") or query.args.get("qualify") or query.args.get("windows"):
        return True
    if any(windows_of(e) or generator_of(e) is not None for e in query.expressions):
        return True
    if has_sets(query):
        return True
    return _nested(query) is not None


def layered(query: exp.Select, binder: Binder) -> Layered:
    """Bind a query for which `is_layered` holds.

    Raises:
        Unsupported: WINDOW, GENERATOR, and what the joins below raise.
        DeltaJoinError: UNNAMED_COLUMN, DUPLICATE_COLUMN.
    """
    select = check_shape(query, layered=True)
    if not is_grouped(select):
        return _windowed(_Stack(binder).level(select), select)
    if any(windows_of(e) for e in select.expressions) or select.args.get("qualify"):
        if select.args.get("distinct"):
            return _distinct(select, binder)
        return _windowed(_over_groups(select, binder), select)
    rows = _Stack(binder).below(select)
    select = select_of(binder, select, rows.block, rows.scope)
    found, _ = _groups(select, rows, binder)
    grouping = make_grouping(rows.block, found)
    return Layered(rows.block, grouping, rows.generation(), None)


def _groups(
    select: exp.Select, rows: _Rows, binder: Binder, check: Callable[[exp.Expr], None] | None = None
) -> tuple[Groups, Bind]:
    """The groups of rows, which stand once for each set of keys, where there are sets."""
    relation = binder.take_name("sets") if has_sets(select) else ""
    bind = partial(bound, scope=rows.scope)
    found, bind_above = bound_groups(select, bind, rows.scope, check, relation)
    if found.sets is not None:
        numbers = [exp.Literal.number(i) for i in range(len(found.sets.members))]
        array = exp.Anonymous(this="array", expressions=numbers)
        call = exp.Anonymous(this="explode", expressions=[array])
        rows.views.append(View(relation, call, False, (SET,)))
    return found, bind_above


def _windowed(rows: _Rows, select: exp.Select) -> Layered:
    """What is made of rows with windows, or generators alone."""
    windowing = None
    check_names(rows.outputs)
    rows.block.outputs = rows.outputs
    if any(windows_of(e) for e in (*(e for _, e, _ in rows.outputs), *rows.after)):
        windowing, rows.block.outputs = make_windowing(rows.outputs, rows.after, select)
    else:  # windows below that nothing reads
        rows.filter(rows.after)
    return Layered(rows.block, None, rows.generation(), windowing)


def _over_groups(select: exp.Select, binder: Binder) -> _Rows:
    """The rows of groups, which stand below as a source, with windows among their outputs."""
    specs = {w.name.lower(): w for w in select.args.get("windows") or []}
    select.set("expressions", [with_specs(e, specs) for e in select.expressions])
    check = partial(_check, grouped=True)
    relation = binder.take_name("groups")
    inner, put = binder.below(relation)
    rows = _Stack(inner).below(select)
    select = select_of(inner, select, rows.block, rows.scope)
    found, bind = _groups(select, rows, inner, check)
    above = Above(relation, found)
    outputs: list[Named] = [(name, above.over(e), e) for name, e in found.outputs]
    after = []
    if qualify := select.args.get("qualify"):
        for part in _split(with_specs(qualify.this, specs)):
            check(part)
            after.append(above.over(bind(part)))
    grouping = make_grouping(rows.block, above.groups())
    block = put(Layered(rows.block, grouping, rows.generation(), None))
    return _Rows(block, Scope([]), outputs=outputs, after=after)


def _distinct(select: exp.Select, binder: Binder) -> Layered:
    """DISTINCT rows of windows, which stand below as a source."""
    relation = binder.take_name("windows")
    inner, put = binder.below(relation)
    if isinstance(select.args["distinct"].args.get("on"), exp.Expr):
        raise _window("DISTINCT ON", select)
    select.set("distinct", None)
    made = layered(select, inner)
    assert made.windowing is not None  # noqa: S101 - the caller's promise
    names = [output.name for output in made.windowing.outputs]
    columns = [(name, exp.column(name, table=relation, quoted=True)) for name in names]
    scope = Scope([given_out(list(columns), select)])
    block = put(made)
    every = exp.Select(expressions=[exp.Star()], distinct=exp.Distinct())
    grouping = group_rows(every, block, lambda e: bound(e, scope), scope)
    return Layered(block, grouping, None, None)


def _nested(select: exp.Select) -> exp.Select | None:
    """The select with layers that alone stands in FROM."""
    source = select.args.get("from_")
    if source is None or select.args.get("joins"):
        return None
    node = source.this
    if node.args.get("joins") or node.args.get("pivots"):
        return None
    if isinstance(node, exp.Table):
        cte = find_cte(node)
        below = cte.this if cte is not None else None
    else:
        below = node.this if isinstance(node, exp.Subquery) else None
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


class _Stack:
    def __init__(self, binder: Binder) -> None:
        self._binder = binder
        self.windowed_below = False

    def level(self, select: exp.Select) -> _Rows:
        """A select without groups: what stands below, and its outputs."""
        rows = self.below(select)
        select = select_of(self._binder, select, rows.block, rows.scope)
        specs = {w.name.lower(): w for w in select.args.get("windows") or []}
        for node in select.expressions:
            self._project(node, rows, specs)
        qualify = select.args.get("qualify")
        if qualify is not None:
            rows.after += self._conjuncts(with_specs(qualify.this, specs), rows.scope)
        self.windowed_below = self.windowed_below or rows.windowed
        return rows

    def below(self, select: exp.Select) -> _Rows:
        """FROM, LATERAL VIEW and WHERE."""
        nested = _nested(select)
        if nested is None or _stands(nested, select):
            rows = _Rows(*joined(self._binder, select))
        else:
            rows = self.level(check_shape(nested, layered=True))
            outputs = [(name, e) for name, e, _ in rows.outputs]
            item = given_out(outputs, select.args["from_"].this)
            rows.scope, rows.outputs = Scope([item]), []
        for lateral in select.args.get("laterals") or []:
            self._lateral(lateral, rows)
        if where := select.args.get("where"):
            self._where(where.this, rows)
        return rows

    def _where(self, condition: exp.Expr, rows: _Rows) -> None:
        if self.windowed_below:
            rows.after += self._conjuncts(condition, rows.scope)
            return
        add_where(self._binder, condition, rows.block, rows.scope)
        own, rows.block.conjuncts = rows.block.conjuncts, []
        rows.filter(own)
        if any(rows.reads_views(c) for c in rows.block.all_conjuncts()):
            raise _generated("a subquery beside a generated column", condition)

    def _conjuncts(self, condition: exp.Expr, scope: Scope) -> list[exp.Expr]:
        found = _split(condition)
        for conjunct in found:
            _check(conjunct)
        return [bound(conjunct, scope) for conjunct in found]

    def _lateral(self, node: exp.Lateral, rows: _Rows) -> None:
        call, alias = node.this, node.args.get("alias") or exp.TableAlias()
        names = [c.name for c in alias.args.get("columns") or []]
        if not node.args.get("view") or generator_of(call) is None or not names:
            raise _generated("LATERAL VIEW without names for its columns", node)
        view = self._view(call, bool(node.args.get("outer")), names, rows)
        columns = {name.lower(): (name, view.column(name)) for name in names}
        rows.scope.items.append(Item(((alias.name.lower(),),) if alias.name else (), columns))

    def _view(self, call: exp.Expr, outer: bool, names: list[str], rows: _Rows) -> View:
        for argument in call.expressions:
            check_expression(argument)
        if len({name.lower() for name in names}) < len(names):
            raise _generated("a generator with two columns of one name", call)
        made = bound(call, rows.scope)
        view = View(self._binder.take_name("view"), made, outer, tuple(names))
        rows.views.append(view)
        return view

    def _project(self, node: exp.Expr, rows: _Rows, specs: Mapping[str, exp.Window]) -> None:
        scope = rows.scope
        if node.is_star and isinstance(node, (exp.Star, exp.Column)):
            _check_star(node, scope)
            rows.outputs += [(name, e, node) for name, e in scope.expand_star(node)]
            return
        if (call := generator_of(node)) is not None:
            names = [i.name for i in node.expressions] if isinstance(node, exp.Aliases) else []
            names = [node.alias] if isinstance(node, exp.Alias) else names
            parent = node.parent
            beside = parent.expressions if parent else []
            several = sum(generator_of(e) is not None for e in beside) > 1
            windowed = self.windowed_below or any(windows_of(e) for e in beside)
            if not names or several or windowed:
                raise _generated(f"{call.this}() beside windows or without a name", node)
            view = self._view(call, False, names, rows)
            rows.outputs += [(name, view.column(name), node) for name in names]
            return
        value = with_specs(node.this if isinstance(node, exp.Alias) else node, specs)
        _check(value)
        expression = bound(value, scope)
        name = node.alias if isinstance(node, exp.Alias) else own_name(value)
        rows.outputs.append((name, expression, node))
        if isinstance(node, exp.Alias):
            scope.aliases[name.lower()] = exp.paren(expression.copy())


def _split(condition: exp.Expr) -> list[exp.Expr]:
    node = condition.unnest()
    if isinstance(node, exp.And):
        return _split(node.this) + _split(node.expression)
    return [node]


def _check(node: exp.Expr, *, grouped: bool = False) -> None:
    """An expression that may hold windows, whose parts are plain, or `grouped`."""
    holder = exp.Paren(this=node.copy())
    for window in windows_of(holder):
        beside = [f.expression for f in window.find_all(exp.Filter)]
        for part in (*call_of(window).expressions, *beside, *window.iter_expressions()):
            if part is not window.this:
                check_expression(part, grouped)
        window.replace(exp.Null())
    check_expression(holder.this, grouped)


def _check_star(star: exp.Star | exp.Column, scope: Scope) -> None:
    """Refuse `item.*` over a struct, whose fields are not known here."""
    if isinstance(star, exp.Column) and len(star.parts) == 2:
        name = star.parts[0].name.lower()
        taken = any((name,) in item.qualifiers for item in scope.items)
        if not taken and any(name in item.columns for item in scope.items):
            raise Unsupported("STAR", f"{name}.* over a struct", star, "List the fields.")


def _window(what: str, node: exp.Expr) -> Unsupported:
    return Unsupported("WINDOW", what, node, downstream("the window"))


def _generated(what: str, node: exp.Expr) -> Unsupported:
    return Unsupported("GENERATOR", what, node, downstream("the generator"))
