"""What a grouped SELECT gives out and is grouped by, with the aliases of its list written out.

    SELECT k + 1 AS x, x * 2 AS y, sum(v) AS s FROM t GROUP BY x HAVING s > 1
    ->  outputs k + 1, (k + 1) * 2, sum(v);  keys k + 1;  condition sum(v) > 1

As in Spark, a column of the FROM clause goes before an alias, an alias of the list is known behind
it and not inside aggregates, and a key is no alias that stands for another alias.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from deltajoin.sql import functions
from deltajoin.sql.dialect import clauses_of, with_columns
from deltajoin.sql.grouping_sets import has_sets, written_sets
from deltajoin.sql.kinds import in_place_of
from deltajoin.sql.nodes import AROUND, Named, ancestors, function_name, is_star, own_name
from deltajoin.sql.refuse import Unsupported, check_expression, downstream
from deltajoin.sql.scope import Scope

REMEDY = downstream("the aggregate")
_LATERAL = "lateral"


def written_outputs(
    select: exp.Select, scope: Scope, check: Callable[[exp.Expr], None]
) -> list[Named]:
    """(name, expression), with aliases that stand before it in the list written out."""
    found: list[Named] = []
    aliases: list[Named] = []
    for node in select.expressions:
        if is_star(node):
            for name, value in scope.expand_star(node):
                value.meta["bound"] = True
                found.append((name, value))
            continue
        check(node)
        value = unaliased(node.unalias(), aliases, scope, within=True)
        name = own_name(node if isinstance(node, exp.Alias) else value)
        found.append((name, value))
        if isinstance(node, exp.Alias):
            aliases.append((name, value))
    return found


def written_keys(
    select: exp.Select, outputs: list[Named], scope: Scope
) -> tuple[list[exp.Expr], list[list[exp.Expr]]]:
    """What the rows are grouped by: nothing for a total, all outputs for DISTINCT; and sets of it.

    Raises:
        Unsupported: AGGREGATE for DISTINCT over groups, a number of no column, keys that are no
            columns of sets.
    """
    sets: list[list[exp.Expr]] = []
    group = select.args.get("group")
    if select.args.get("distinct"):
        _check_distinct(select, outputs)
        return [value for _, value in outputs], []
    if group is None:
        return [], []
    if group.args.get("all"):
        keys = _all_keys(select, outputs, scope)
    elif has_sets(select):
        written = written_sets(group)
        if written is None:
            raise Unsupported("AGGREGATE", "GROUP BY with so many grouping sets", select, REMEDY)
        keys = [_key(node, outputs, scope) for node in written[0]]
        sets = [[_key(node, outputs, scope) for node in keys] for keys in written[1]]
    else:
        keys = [_key(node, outputs, scope) for node in group.expressions]
    for key in keys:
        check_expression(key)
        if key.meta.get(_LATERAL):
            raise Unsupported("AGGREGATE", "a key over another alias", key, REMEDY)
    return keys, sets


def _check_distinct(select: exp.Select, outputs: list[Named]) -> None:
    plain = not isinstance(select.args["distinct"].args.get("on"), exp.Expr)
    layers = any(select.args.get(name) for name in ("group", "having"))
    if layers or not plain or any(is_aggregate(n) for _, value in outputs for n in value.walk()):
        raise Unsupported("AGGREGATE", "DISTINCT over an aggregate", select, REMEDY)


def _key(node: exp.Expr, outputs: list[Named], scope: Scope) -> exp.Expr:
    """A key as written, by its number, or by an alias alone."""
    if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
        number = int(node.this)
        if not 1 <= number <= len(outputs):
            raise Unsupported("AGGREGATE", f"GROUP BY {number}", node, "Name the column.")
        return outputs[number - 1][1]
    return unaliased(node, outputs, scope)


def _all_keys(select: exp.Select, outputs: list[Named], scope: Scope) -> list[exp.Expr]:
    """GROUP BY ALL: the outputs without aggregates."""
    group = select.args["group"]
    named = scope.names | {name.lower() for name, _ in outputs}
    if group.expressions or "all" in named:
        raise Unsupported("AGGREGATE", "GROUP BY ALL beside a name", select, "List the keys.")
    return [value for _, value in outputs if not any(is_aggregate(n) for n in value.walk())]


def unaliased(
    node: exp.Expr,
    outputs: list[Named],
    scope: Scope,
    *,
    within: bool = False,
    is_key: Callable[[exp.Column], bool] | None = None,
) -> exp.Expr:
    """The expression with aliases of the SELECT list written out, where no column has the name.

    Args:
        within: it stands in the list itself; then aggregates are of columns alone.
        is_key: it stands in HAVING, where an alias goes before columns that are not grouped by.
    """
    known = scope.names
    aliases = {name.lower(): value for name, value in reversed(outputs) if name}
    lateral = False

    def meant(column: exp.Column) -> exp.Expr | None:
        nonlocal lateral
        name = column.name.lower()
        if column.table or name not in aliases:
            return None
        if name in known and (is_key is None or _is_inside(column) or is_key(column)):
            return None
        if within and _is_inside(column):
            return None
        lateral = lateral or within or bool(aliases[name].meta.get(_LATERAL))
        return exp.paren(in_place_of(column, aliases[name]).copy())

    written = with_columns(node, meant)
    if lateral:
        written.meta[_LATERAL] = True
    return written


def _is_inside(node: exp.Expr) -> bool:
    """True inside an aggregate or a window."""
    return any(is_aggregate(part) or isinstance(part, exp.Window) for part in ancestors(node))


def is_aggregate(node: exp.Expr) -> bool:
    """True for a call of an aggregate that is not itself over a window."""
    if function_name(node) not in functions.AGGREGATES:
        return False
    while isinstance(node.parent, AROUND):
        node = node.parent
    return not isinstance(node.parent, exp.Window) or node.parent.this is not node


def has_plain_keys(select: exp.Select) -> bool:
    """True for GROUP BY by keys alone: no sets, so that every group has a row."""
    group = select.args.get("group")
    return group is not None and clauses_of(group) == {"expressions"}
