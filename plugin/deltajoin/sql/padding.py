"""Clauses beside which a CHAR column is padded by Spark in some places and not in others.

Spark pads CHAR where it compares it as a column of its table. Our forms of these clauses compare it
elsewhere, or no longer as such a column. Comparisons, joins, groups, windows, CASE, EXISTS and
correlated subqueries are as written.
"""

from __future__ import annotations

from sqlglot import exp

from deltajoin.sql.grouping_sets import has_sets


def loses_padding(query: exp.Query) -> str:
    """The clause of a query beside which it may hold no CHAR column; "" without one.

    Example:
        >>> from deltajoin.sql.dialect import parse
        >>> loses_padding(parse("SELECT c FROM t WHERE c IN (SELECT d FROM u)"))
        'IN over a query'
        >>> loses_padding(parse("SELECT c FROM t WHERE c IN ('a', 'b') GROUP BY c"))
        ''
    """
    if query.find(exp.SetOperation):
        return "UNION, INTERSECT or EXCEPT"
    if query.find(exp.Pivot):
        return "PIVOT or UNPIVOT"
    if any(map(has_sets, query.find_all(exp.Select))):
        return "GROUPING SETS, ROLLUP or CUBE"
    if any(part.args.get("query") for part in query.find_all(exp.In)):
        return "IN over a query"
    return ""
