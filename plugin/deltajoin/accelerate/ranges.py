"""Points in intervals, intervals that overlap, bands: two comparisons that hold both rows together.

    L2 <= R2 and R1 <= L1      the left interval [L2, L1] meets the right one [R1, R2]

A row whose ends stand the wrong way round (a containment: both ends of the left row lie in the
right one) matches only where the other row's interval holds both, so one of them stands for it.
`abs(a - b) <= c` is the band a - c .. a + c, a little wider for what rounding may add. Boxes in two
dimensions are intervals of two lines; more lines would repeat rows more than they leave out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from deltajoin.accelerate.families import as_doubles, family
from deltajoin.accelerate.protocol import EVERY_JOIN, Candidates, Sides, Span
from deltajoin.sql.dialect import text
from deltajoin.sql.keys import beside_null, comparisons

#: What a rounded difference may be off by, as a share of what is subtracted.
_ROUNDED = {"double": "1e-9D", "float": "1e-6D"}


@dataclass(frozen=True)
class Bound:
    """`left <= right`, or the other way round where `upward` is False, both as doubles.

    `missing` is the side whose NULL is as far as can be, so that it holds whatever the other is.
    """

    left: str
    right: str
    upward: bool
    written: str
    missing: str = ""

    def end(self, side: str, other: Bound) -> str:
        """The end that it gives a side; `other` is the comparison in the other direction."""
        value = self.left if side == "left" else self.right
        if not self.missing:
            return value
        same = value == (other.left if side == "left" else other.right)
        if side != self.missing and same and not other.missing:
            return value  # NULL fails the other comparison
        far = "-1e300D" if (side == "left") == self.upward else "1e300D"
        if side == self.missing:
            far = "1e300D" if (side == "right") == self.upward else "-1e300D"
        return f"coalesce({value}, {far})"


@dataclass(frozen=True)
class Ranges:
    """Comparisons in both directions."""

    name: str = "range"
    joins: frozenset[str] = EVERY_JOIN

    def recognise(self, conditions: Sequence[exp.Expr], sides: Sides) -> Candidates | None:
        """The spans of comparisons in either direction: of those that belong together first, with a
        value in common; and of a second line, such as the other coordinate of a box, which has
        values of its own that belong together as much."""
        bounds = [bound for node in conditions for bound in bounds_of(node, sides)]
        pairs = [(up, down) for up in bounds if up.upward for down in bounds if not down.upward]
        if not pairs:
            return None
        pairs.sort(key=lambda pair: -_alike(*pair))
        lines = [pairs[0], *(pair for pair in pairs if _is_other_line(pair, pairs[0]))][:2]
        written = dict.fromkeys(each.written for up, down in lines for each in (down, up))
        return Candidates(self.name, tuple(written), tuple(span(*pair) for pair in lines))


def span(up: Bound, down: Bound) -> Span:
    """The span of two comparisons, `up.left <= up.right` and `down.right <= down.left`."""
    low, high = up.end("left", down), down.end("left", up)
    start, end = down.end("right", up), up.end("right", down)
    return Span(
        (low if low == high else f"least({low}, {high})", high),
        (start, end if start == end else f"greatest({start}, {end})"),
    )


def _alike(up: Bound, down: Bound) -> int:
    return (up.left == down.left) + (up.right == down.right)


def _is_other_line(pair: tuple[Bound, Bound], first: tuple[Bound, Bound]) -> bool:
    values, others = ({v for each in two for v in (each.left, each.right)} for two in (pair, first))
    return not values & others and bool(_alike(*pair)) == bool(_alike(*first))


def bounds_of(node: exp.Expr, sides: Sides) -> Iterator[Bound]:
    """The comparisons of one side with the other in a condition."""
    node = node.unnest()
    written = text(node)
    yield from _or_missing(node, sides, written)
    for one, operator, other in comparisons(node):
        yield from _compared(one, operator, other, sides, written)


def _or_missing(node: exp.Expr, sides: Sides, written: str) -> Iterator[Bound]:
    """`x < y OR y IS NULL`: an end that is missing is as far as can be."""
    for compared, missing in beside_null(node):
        if len(comparisons(compared)) != 1:
            continue
        nothing = missing.unnest()
        if sides.of(nothing) and nothing in (compared.this.unnest(), compared.expression.unnest()):
            for bound in bounds_of(compared, sides):
                yield replace(bound, missing=sides.of(nothing), written=written)


def _compared(
    one: exp.Expr, operator: str, other: exp.Expr, sides: Sides, written: str
) -> Iterator[Bound]:
    """`one < other`, and the like."""
    if pair := sides.parted(one, other):
        upward = operator.startswith("<") == (pair[0] is one)
        if doubles := as_doubles(list(pair), sides.type_of):
            yield Bound(doubles[0], doubles[1], upward, written)
        return
    if operator.startswith(">"):
        one, other = other, one
    yield from _differences(one.unnest(), other, sides, written)


def _differences(one: exp.Expr, most: exp.Expr, sides: Sides, written: str) -> Iterator[Bound]:
    """`abs(a - b) <= c` and `a - b <= c`, of numbers whose difference can't overflow."""
    both = isinstance(one, exp.Anonymous) and str(one.this).lower() == "abs"
    inner = one.expressions[0].unnest() if isinstance(one, exp.Anonymous) and both else one
    if not isinstance(inner, exp.Sub):
        return
    first, second = inner.this.unnest(), inner.expression.unnest()
    kinds = {family(value, sides.type_of) for value in (first, second)}
    if not kinds <= set(_ROUNDED) or sides.of(most) == "both":
        return
    if sides.parted(first, second) is None:
        return
    rounded = _ROUNDED["float" if "float" in kinds else "double"]
    yield from _within(first, second, most, rounded, sides, written)
    if both:
        yield from _within(second, first, most, rounded, sides, written)


def _within(
    greater: exp.Expr, less: exp.Expr, most: exp.Expr, rounded: str, sides: Sides, written: str
) -> Iterator[Bound]:
    """`greater - less <= most`: greater <= less + most, with what belongs to one side together."""
    values = [greater, less, most]
    ends = as_doubles(values, sides.type_of, "1e290D")
    # Never so low that an infinite difference would be above it.
    limits = as_doubles(values, sides.type_of, low="-1e280D")
    if ends is None or limits is None:
        return
    a, b, c = ends[0], ends[1], limits[2]
    beside = a if sides.of(most) == sides.of(greater) else b
    slack = f"{rounded} * (abs({beside}) + abs({c}) + 1e-30D)"
    if sides.of(most) in ("", sides.of(less)):
        b = f"({b} + {c} + {slack})"
    else:
        a = f"({a} - {c} - {slack})"
    if sides.of(greater) == "left":
        yield Bound(a, b, True, written)
    else:
        yield Bound(b, a, False, written)
