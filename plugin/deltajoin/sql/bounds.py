"""What the conditions of a join say of rows of which the last or the first is taken.

    l.k = r.k AND r.ts <= l.ts AND l.ts <= r.ts + INTERVAL 5 MINUTES        candidates: r, by ts

One comparison bounds the candidates on the side of their order. One on the other side, as of a
tolerance, must hold of all that are nearer if it holds of one: then it may be asked of the nearest
alone. So nothing in it may turn their order round. A sum of numbers may overflow; moments that are
moved by a day or a month, and the difference of two, go by the clock on the wall, which is put
forward and back.
"""

from __future__ import annotations

from sqlglot import exp

from deltajoin.graph import Predicate
from deltajoin.sql.dialect import parsed
from deltajoin.sql.keys import TURNED, comparisons
from deltajoin.sql.kinds import INTEGERS, PLAIN, TypeOf, kind_of
from deltajoin.sql.nodes import column
from deltajoin.sql.predicates import relations_in

#: Types that keep their order when they are compared as another type.
_ORDERED = frozenset({*INTEGERS, "date", "timestamp"})
#: Intervals by which all values of a type move alike.
_STEPS = {"date": ("days",), "timestamp": ("hours",), "timestamp_ntz": ("hours", "days")}
_IN_A_DAY = {"HOUR": 24, "MINUTE": 1_440, "SECOND": 86_400}


class Bounds:
    """What conditions say of a relation's candidates, of which the last by a column is wanted, or
    the first.

    `partition` are the columns that equalities find them by, `own` conditions on them alone,
    `value` is what bounds them on the side of the order, and whether they may not be equal to it.
    """

    def __init__(self, at: exp.Column, last: bool, fixed: frozenset[str], type_of: TypeOf) -> None:
        self._relation, self._at, self._last = at.table, at.name, last
        self._fixed, self._type_of, self._kind = fixed, type_of, type_of(at)
        self.partition: list[str] = []
        self.own: list[Predicate] = []
        self.value: tuple[exp.Expr, bool] | None = None

    def add(self, predicate: Predicate) -> bool:
        """Take one in; False for one of which nearer candidates may not hold what others do."""
        name = self._relation
        if name not in predicate.relations:
            return predicate.relations <= self._fixed
        if predicate.relations == {name}:
            self.own.append(predicate)
            return True
        if not predicate.relations <= self._fixed | {name}:
            return False
        for mine, other in ((predicate.left, predicate.right), (predicate.right, predicate.left)):
            if mine and other and mine[0] == name:
                kinds = {self._type_of(column(c, relation)) for relation, c in (mine, other)}
                self.partition.append(mine[1])
                return len(kinds) == 1 and PLAIN.fullmatch(kinds.pop()) is not None
        found = [self._bound(*each) for each in comparisons(parsed(predicate.sql))]
        return bool(found) and all(found)

    def _bound(self, one: exp.Expr, operator: str, two: exp.Expr) -> bool:
        slopes = (self._slope(one), self._slope(two))
        if None in slopes or sorted(map(bool, slopes)) != [False, True]:
            return False
        mine, value, slope = (one, two, slopes[0]) if slopes[0] else (two, one, slopes[1])
        how = operator if slopes[0] else TURNED[operator]
        if slope == -1:
            how = TURNED[how]
        if how[0] != ("<" if self._last else ">"):  # on the other side, as a tolerance
            return slope == -1 or self._kind in _ORDERED or self._is_alike(value)
        plain = isinstance(mine.unnest(), exp.Column) and PLAIN.fullmatch(self._kind) is not None
        found = (value, how in ("<", ">"))
        if not plain or kind_of(value, self._type_of) != self._kind:
            return False
        self.value = self.value or found
        return self.value == found

    def _is_alike(self, value: exp.Expr) -> bool:
        """True for a value of the candidates' type, perhaps moved by intervals."""
        value = value.unnest()
        while isinstance(value, (exp.Add, exp.Sub)) and _step(value.expression):
            value = value.this.unnest()
        return kind_of(value, self._type_of) == self._kind

    def _slope(self, node: exp.Expr) -> int | None:
        """How a value moves with the candidates' order: 1 with it, -1 against it, 0 not at all;
        None where that isn't known. Sums of numbers may overflow; a day more, and the difference of
        two moments, are those of clocks, which are put forward and back."""
        node = node.unnest()
        if self._relation not in relations_in(node):
            return 0
        if isinstance(node, exp.Column):
            return 1 if node.name == self._at else None
        if not isinstance(node, (exp.Add, exp.Sub)):
            return None
        one, two = self._slope(node.this), self._slope(node.expression)
        if (one, two) == (1, 0) and _step(node.expression) in _STEPS.get(self._kind, ()):
            return 1
        apart = isinstance(node, exp.Sub) and self._kind in ("date", "timestamp_ntz")
        alike = apart and kind_of(node.this, self._type_of) == self._kind
        return -1 if alike and (one, two) == (0, 1) else None


def _step(node: exp.Expr) -> str:
    """The kind of an interval: "hours" of less than a day, "days" of whole ones; else ""."""
    node = node.unnest()
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return ""
    size, unit = node.this.name, node.text("unit").upper().removesuffix("S")
    if not size.isdecimal():
        return ""
    if unit in ("DAY", "WEEK"):
        return "days"
    return "hours" if int(size) < _IN_A_DAY.get(unit, 0) else ""
