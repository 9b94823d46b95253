"""Places within a distance of each other, on a plane and on the earth.

    plane    hypot(a.x - b.x, a.y - b.y) <= d; sqrt(...) <= d; of squares, <= d
    earth    the haversine formula, as the macro `deltajoin.distance` writes it

Each coordinate of the one place lies in a band about that of the other. On the earth these are the
three coordinates of a point on the unit sphere, whose straight distance is 2 sin(d / 2r): so poles
and the date line are no exceptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from deltajoin.accelerate.families import clamped, family
from deltajoin.accelerate.protocol import EVERY_JOIN, Candidates, Sides, Span
from deltajoin.sql.dialect import parse_expression, text

_EARTH = (
    "pow(sin(radians(p_lat2 - p_lat1) / 2), 2) + "
    "cos(radians(p_lat1)) * cos(radians(p_lat2)) * pow(sin(radians(p_lon2 - p_lon1) / 2), 2)"
)
_ON_EARTH = (
    f"2 * p_r * asin(sqrt({_EARTH}))",
    f"p_r * 2 * asin(sqrt({_EARTH}))",
)
#: (formula, whether it is a squared distance)
_ON_PLANE = (
    ("hypot(p_x1 - p_x2, p_y1 - p_y2)", False),
    ("sqrt(pow(p_x1 - p_x2, 2) + pow(p_y1 - p_y2, 2))", False),
    ("sqrt((p_x1 - p_x2) * (p_x1 - p_x2) + (p_y1 - p_y2) * (p_y1 - p_y2))", False),
    ("pow(p_x1 - p_x2, 2) + pow(p_y1 - p_y2, 2)", True),
    ("(p_x1 - p_x2) * (p_x1 - p_x2) + (p_y1 - p_y2) * (p_y1 - p_y2)", True),
)
#: Longitudes of which sines are still exact enough; beyond the poles the formula's terms cancel.
_MOST, _FLOAT_MOST = "1e6D", "1e3D"
_SLACK, _FLOAT_SLACK = "1e-9D", "1e-5D"
#: Twice as much is still an integer.
_LONGEST_RADIUS = 1e9
_FLOATS = {"double", "float"}


@dataclass(frozen=True)
class Distance:
    """`distance <= d`, where d is a number or belongs to one of both rows."""

    name: str = "distance"
    joins: frozenset[str] = EVERY_JOIN

    def recognise(self, conditions: Sequence[exp.Expr], sides: Sides) -> Candidates | None:
        """The bands of the first condition on a distance."""
        for node in conditions:
            most, formula = _limit(node)
            if formula is None or most is None or sides.of(most) == "both":
                continue
            spans = _plane(formula, most, sides) or _earth(formula, most, sides)
            if spans:
                return Candidates(self.name, (text(node),), spans)
        return None


def _limit(node: exp.Expr) -> tuple[exp.Expr | None, exp.Expr | None]:
    """The greatest distance, and what it is compared with."""
    if isinstance(node, (exp.LT, exp.LTE)):
        return node.expression, node.this
    if isinstance(node, (exp.GT, exp.GTE)):
        return node.this, node.expression
    return None, None


def _plane(formula: exp.Expr, most: exp.Expr, sides: Sides) -> tuple[Span, ...]:
    found = ((matched(written, formula), squared) for written, squared in _ON_PLANE)
    parts, squared = next((each for each in found if each[0]), (None, False))
    if parts is None:
        return ()
    pairs = [(parts["p_x1"], parts["p_x2"]), (parts["p_y1"], parts["p_y2"])]
    slack = _slack((end for pair in pairs for end in pair), sides)
    if not slack:
        return ()
    reach = f"greatest(CAST({text(most)} AS DOUBLE), 0D)"
    # From one end of the line to the other, where it is infinite.
    reach = f"least({f'sqrt({reach})' if squared else reach}, 1e301D)"
    points = [(text(one), text(other)) for one, other in pairs]
    return _bands(points, pairs[0], reach, slack, most, sides)


def _earth(formula: exp.Expr, most: exp.Expr, sides: Sides) -> tuple[Span, ...]:
    parts = next((each for written in _ON_EARTH if (each := matched(written, formula))), None)
    if parts is None:
        return ()
    ends = [(parts[f"p_lat{i}"], parts[f"p_lon{i}"]) for i in (1, 2)]
    slack = _slack((each for end in ends for each in end), sides)
    radius = parts["p_r"]
    if not slack or not isinstance(radius, exp.Literal) or radius.is_string:
        return ()
    if not 0 < float(radius.this) < _LONGEST_RADIUS:
        return ()
    if "both" in (sides.of(exp.Tuple(expressions=[e.copy() for e in end])) for end in ends):
        return ()
    angle = f"greatest(CAST({text(most)} AS DOUBLE), 0D) / (2D * {radius.this}D)"
    reach = f"2D * sin(least({angle}, pi() / 2D))"
    points = zip(*(_on_sphere(*map(text, end)) for end in ends), strict=True)
    return _bands(list(points), (ends[0][0], ends[1][0]), reach, slack, most, sides, ends)


def _slack(values: Iterable[exp.Expr], sides: Sides) -> str:
    """What rounding may add, as a share; empty where some value is no floating-point number."""
    kinds = {family(value, sides.type_of) for value in values}
    if not kinds <= _FLOATS:
        return ""
    return _FLOAT_SLACK if "float" in kinds else _SLACK


def _on_sphere(lat: str, lon: str) -> tuple[str, str, str]:
    a, b = f"radians({lat})", f"radians({lon})"
    return f"cos({a}) * cos({b})", f"cos({a}) * sin({b})", f"sin({a})"


def _bands(
    pairs: Sequence[tuple[str, ...]],
    first: tuple[exp.Expr, exp.Expr],
    reach: str,
    slack: str,
    most: exp.Expr,
    sides: Sides,
    degrees: Sequence[tuple[exp.Expr, exp.Expr]] = (),
) -> tuple[Span, ...]:
    """One span a coordinate; the band is about the right place, or about the one that has d."""
    parted = [sides.parted(*map(parse_expression, pair)) for pair in pairs]
    if sides.parted(*first) is None or None in parted:
        return ()
    far = degrees[::-1] if sides.of(first[0]) == "right" else degrees
    most_degrees = _FLOAT_MOST if slack == _FLOAT_SLACK else _MOST
    spans = []
    for pair in pairs:
        points = pair[::-1] if sides.of(parse_expression(pair[0])) == "right" else pair
        ends = []
        for at, (side, point) in enumerate(zip(("left", "right"), points, strict=True)):
            value = clamped(f"CAST({point} AS DOUBLE)")
            low = high = value
            if side == ("left" if sides.of(most) == "left" else "right"):
                band = f"({reach} + {slack} * (1D + abs({value}) + {reach}))"
                low, high = f"({value} - {band})", f"({value} + {band})"
            if far:
                lat, lon = map(text, far[at])
                wild = f"abs({lat}) > 90D OR abs({lon}) > {most_degrees}"
                low = f"CASE WHEN {wild} THEN -9D ELSE {low} END"
                high = f"CASE WHEN {wild} THEN 9D ELSE {high} END"
            ends.append((low, high))
        spans.append(Span(*ends))
    return tuple(spans)


def matched(written: str, node: exp.Expr) -> dict[str, exp.Expr] | None:
    """What stands for the names `p_...` in a formula; None for another formula.

    Example:
        >>> text(matched("sqrt(p_x) + 1", parse_expression("sqrt(a.b * 2) + 1"))["p_x"])
        '`a`.`b` * 2'
    """
    found: dict[str, exp.Expr] = {}
    return found if _alike(_formula(written), node, found) else None


@lru_cache(maxsize=32)
def _formula(written: str) -> exp.Expr:
    return parse_expression(written)


def _alike(pattern: exp.Expr, node: exp.Expr, found: dict[str, exp.Expr]) -> bool:
    pattern, node = pattern.unnest(), node.unnest()
    if isinstance(pattern, exp.Column) and pattern.name.startswith("p_"):
        known = found.setdefault(pattern.name, node)
        return text(known) == text(node)
    if isinstance(pattern, exp.Literal) and isinstance(node, exp.Literal):
        return not node.is_string and float(pattern.this) == float(node.this)
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, exp.Anonymous):
        names = str(pattern.this).lower(), str(node.this).lower().replace("power", "pow")
        if names[0] != names[1]:
            return False
    elif not isinstance(pattern, exp.Binary):
        return False
    parts, others = list(pattern.iter_expressions()), list(node.iter_expressions())
    if len(parts) != len(others):
        return False
    return all(_alike(part, other, found) for part, other in zip(parts, others, strict=True))
