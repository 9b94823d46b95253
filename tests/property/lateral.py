"""LATERAL of a view or a function as DuckDB says it: a join with a subselect that unnests."""

from __future__ import annotations

from sqlglot import exp


def with_lateral_joins(tree: exp.Expr) -> exp.Expr:
    """Spark SQL with every LATERAL of explode, posexplode and stack turned to a join with a select.

    Example:
        >>> import sqlglot
        >>> sql = "SELECT x FROM t LATERAL VIEW OUTER explode(a) v AS x"
        >>> with_lateral_joins(sqlglot.parse_one(sql, "spark")).sql("duckdb")
        'SELECT x FROM t LEFT JOIN LATERAL (SELECT UNNEST(a) AS x) AS v ON TRUE'
    """
    for select in list(tree.find_all(exp.Select)):
        for view in select.args.pop("laterals", None) or []:
            select.append("joins", _join(view))
        for join in select.args.get("joins") or []:
            lateral = join.this
            if isinstance(lateral, exp.Lateral) and not isinstance(lateral.this, exp.Subquery):
                lateral.replace(_join(lateral).this)
    return tree


def _join(view: exp.Lateral) -> exp.Join:
    names = view.args["alias"].args["columns"]
    values = [
        exp.alias_(value, name) for value, name in zip(_values(view.this), names, strict=True)
    ]
    inside = exp.Lateral(
        this=exp.select(*values).subquery(),
        alias=exp.TableAlias(this=view.args["alias"].this),
    )
    if view.args.get("outer"):
        return exp.Join(this=inside, side="LEFT", on=exp.true())
    return exp.Join(this=inside, kind="CROSS")


def _values(call: exp.Expr) -> list[exp.Expr]:
    """The columns of a generator, unnested side by side."""
    if isinstance(call, exp.Posexplode):
        places = exp.Anonymous(this="range", expressions=[exp.func("len", call.this.copy())])
        return [_unnested(places), _unnested(call.this)]
    if isinstance(call, exp.Explode):
        return [_unnested(call.this)]
    values = call.expressions
    width = len(values) // int(call.name)
    columns = [values[i::width] for i in range(width)]
    return [_unnested(exp.Array(expressions=[v.copy() for v in column])) for column in columns]


def _unnested(array: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="unnest", expressions=[array.copy()])
