"""What expressions read of the rows below them: each value once, as a column of these rows.

a.k, sum(a.v + 1)    over rows that give out g0 = a.k, c0 = a.v:    input.g0, sum(input.c0 + 1)
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from deltajoin.sql.dialect import spelled, text
from deltajoin.sql.nodes import Named, column


class Below:
    """Rows below, as `relation`: their keys `g0`, `g1`, ..., and what else is read of them."""

    def __init__(self, relation: str, prefix: str = "c", keys: Iterable[exp.Expr] = ()) -> None:
        self.relation, self._prefix = relation, prefix
        self._keys: dict[str, str] = {}
        for number, key in enumerate(keys):
            self._keys.setdefault(spelling(key), f"g{number}")
        self._read: dict[str, Named] = {}

    def key(self, node: exp.Expr) -> exp.Column | None:
        """The column of a key; None for what is none."""
        name = None if isinstance(node, exp.Ordered) else self._keys.get(spelling(node))
        return column(name, self.relation) if name else None

    def read(self, node: exp.Expr) -> exp.Column:
        """The column of any other value, which the rows give out from now on."""
        name = f"{self._prefix}{len(self._read)}"
        name, _ = self._read.setdefault(spelling(node), (name, node.copy()))
        return column(name, self.relation)

    @property
    def values(self) -> list[Named]:
        """What was read beside the keys, under its names."""
        return list(self._read.values())


def spelling(node: exp.Expr) -> str:
    """What tells an expression from others: its words, without the parentheses around it."""
    return spelled(text(node.unnest()))
