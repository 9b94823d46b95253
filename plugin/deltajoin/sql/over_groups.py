"""Windows over groups -> groups below, as a source of their own, and windows over its rows.

    SELECT k, rank() OVER (ORDER BY sum(v)) AS r FROM t GROUP BY k
    ->  groups: g0 = k, a0 = sum(v);  above: g0 AS k, rank() OVER (ORDER BY a0) AS r

Keys and aggregates are columns of the groups; all else is computed above. Caller: binds the groups
as a derived source, and gives the name of the relation over it.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from deltajoin.sql.dialect import exchanged
from deltajoin.sql.group import Groups, not_grouped, plain
from deltajoin.sql.group_keys import Named, is_aggregate

_AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


class Above:
    """Rewrites bound expressions of a grouped SELECT to such over the relation of its groups."""

    def __init__(self, relation: str, found: Groups) -> None:
        self._relation, self._found = relation, found
        keys = found.keys
        self._keys = {plain(key): (f"g{i}", key) for i, key in reversed(list(enumerate(keys)))}
        self._aggregates: dict[str, tuple[str, exp.Expr]] = {}

    def groups(self) -> Groups:
        """The groups that give out what was read of them."""
        keys = sorted(self._keys.values(), key=lambda named: int(named[0][1:]))
        outputs: list[Named] = [*keys, *self._aggregates.values()]
        return replace(self._found, outputs=outputs)

    def over(self, node: exp.Expr) -> exp.Expr:
        """The expression over the groups' relation.

        Raises:
            Unsupported: AGGREGATE for a column that is neither grouped nor aggregated.
        """
        return exchanged(node, self._over)

    def _over(self, node: exp.Expr) -> exp.Expr | None:
        apart = isinstance(node, (exp.Literal, exp.Ordered))
        key = None if apart else self._keys.get(plain(node))
        if key is not None:
            return self._column(key[0])
        if is_made_below(node):
            number = f"a{len(self._aggregates)}"
            name, _ = self._aggregates.setdefault(plain(node), (number, node.copy()))
            return self._column(name)
        if isinstance(node, exp.Column):
            raise not_grouped(node)
        return None

    def _column(self, name: str) -> exp.Column:
        return exp.column(name, table=self._relation, quoted=True)


def is_made_below(node: exp.Expr) -> bool:
    """True for an aggregate that is not over a window, with FILTER and the like."""
    call = node
    while isinstance(call, _AROUND):
        call = call.this
    return is_aggregate(call)
