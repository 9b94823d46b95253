"""An explained plan as a picture: SVG text, the same bytes for the same plan.

Left the join graph: relations with their rows on a circle, predicates as lines; a join that is not
inner is an arrow from the side whose rows stay to the side that may be missing. Right the chosen
order as a tree, its estimated rows at each join; below, the runner-up and what it would cost more.
The branches of a query with unions stand one below the other.
Caller: passes `explanation(planned)` and the plan's name and order as plain values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

Point = tuple[float, float]

_HEAD, _ROW, _COLUMN = 28, 58, 118
_INK, _SOFT, _OUTER = "#1f2937", "#6b7280", "#b45309"
_SIGNS = {"inner": "⨝", "left": "⟕", "full": "⟗", "semi": "⋉", "anti": "▷", "cross": "×"}


def picture(plan: Mapping[str, Any], explained: Mapping[str, Any]) -> str:
    """The SVG document.

    Args:
        plan: `DeltaPlan.to_dict()`; `explained`: `explanation(planned)`.
    """
    title = f"{plan['model']}: {plan['strategy']}, {plan['reason']}"
    if explained["graph"] is None:
        lines = [title, *_why(explained)]
        shapes = [_text((24, 36 + 22 * i), line, 14) for i, line in enumerate(lines)]
        return _document(900, 60 + 22 * len(lines), shapes)
    full = plan["full_query"]
    orders, branches = [full, *full.get("further", ())], [explained, *explained["further"]]
    shapes, width, foot = [_text((24, 36), title, 18)], 900.0, 36.0
    for order, branch in zip(orders, branches, strict=True):
        right, foot, drawn = _branch(order, branch, foot + 26)
        shapes += drawn
        width = max(width, right)
    why = _why(explained)
    shapes += _lines(why, foot)
    width = max([width, *(24 + 8.0 * len(line) for line in why)])
    return _document(width, foot + 22 * len(why) + 10, shapes)


def _branch(
    order: Mapping[str, Any], branch: Mapping[str, Any], top: float
) -> tuple[float, float, list[str]]:
    """Graph, order and runner-up below a height: where they end at the right and below; shapes."""
    head = top + _HEAD
    radius = max(110.0, 24.0 * len(branch["graph"]["nodes"]))
    centre = (radius + 110, head + radius + 30)
    left, tree = 2 * radius + 240, branch["full_query"]["tree"]
    how = f"chosen order ({order['method']}), cost {order['cost']:.4g}"
    shapes = [_text((24, top), "join graph", 13, _SOFT), _text((left, top), how, 13, _SOFT)]
    shapes += _graph(branch["graph"], centre, radius)
    shapes += _tree(tree, (left, head + 10))
    foot = max(centre[1] + radius + 70, head + 10 + _ROW * (_depth(tree) + 1))
    lines = [f"chosen: {order['order']}", _runner_up(branch["full_query"]["runner_up"])]
    shapes += _lines(lines, foot)
    right = max(left + _COLUMN * _leaves(tree) + 40, 24 + 8 * max(map(len, lines)))
    return right, foot + 22 * len(lines), shapes


def _lines(lines: list[str], top: float) -> list[str]:
    return [_text((24, top + 22 * i), line, 13) for i, line in enumerate(lines)]


def _runner_up(runner: Mapping[str, Any]) -> str:
    if runner["order"] is None:
        return f"runner-up: none ({runner['among']})"
    gap = f"{runner['gap']:.4g}x the chosen cost"
    return f"runner-up: {runner['order']}  cost {runner['cost']:.4g}, {gap}"


def _why(explained: Mapping[str, Any]) -> list[str]:
    stop = explained["rebuilt_because"]
    return [f"rebuilt: {stop['code']}: {stop['message']}. {stop['remedy']}"] if stop else []


def _graph(graph: Mapping[str, Any], centre: Point, radius: float) -> Iterator[str]:
    nodes = graph["nodes"]
    places: dict[str, Point] = {}
    for number, node in enumerate(nodes):
        angle = 2 * math.pi * number / len(nodes) - math.pi / 2
        x, y = centre[0] + radius * math.cos(angle), centre[1] + radius * math.sin(angle)
        places[node["name"]] = (x, y) if len(nodes) > 1 else centre
    for edge in graph["edges"]:
        one, other = _middle(edge["left"], places), _middle(edge["right"], places)
        yield from _edge(edge, one, other)
    for node in nodes:
        x, y = places[node["name"]]
        yield _box((x - 48, y - 19), 96, 38)
        yield _text((x, y - 3), node["name"], 13, anchor="middle")
        yield _text((x, y + 12), f"{node['rows']:,} rows", 10, _SOFT, "middle")


def _edge(edge: Mapping[str, Any], one: Point, other: Point) -> Iterator[str]:
    """A line between two sides, with its condition to read when the pointer rests on it."""
    outer = edge["kind"] not in ("inner", "cross")
    colour = _OUTER if outer else _INK
    heads = ' marker-end="url(#arrow)"' if outer else ""
    heads += ' marker-start="url(#arrow)"' if edge["kind"] == "full" else ""
    dashes = ' stroke-dasharray="4 4"' if edge["kind"] == "cross" else ""
    a, b = (_towards(one, other), _towards(other, one)) if outer else (one, other)
    about = _escaped(f"{edge['kind']}: " + (" AND ".join(edge["on"]) or "every row"))
    yield (
        f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" '
        f'stroke="{colour}" stroke-width="1.5"{dashes}{heads}><title>{about}</title></line>'
    )
    if outer:
        middle = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2 - 5)
        yield _text(middle, edge["kind"], 11, colour, "middle")


def _middle(names: list[str], places: Mapping[str, Point]) -> Point:
    points = [places[name] for name in names]
    return (sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points))


def _towards(one: Point, other: Point) -> Point:
    """A point on the way to another, outside the box around the first."""
    x, y = other[0] - one[0], other[1] - one[1]
    length = math.hypot(x, y) or 1.0
    step = min(50.0, length / 3)
    return one[0] + x / length * step, one[1] + y / length * step


def _tree(tree: Mapping[str, Any], at: Point) -> Iterator[str]:
    """A tree whose leaves stand side by side; each join is above the middle of its sides."""
    top = (_across(tree, at[0]), at[1] + 14)
    if "relation" in tree:
        yield _box((top[0] - 50, at[1]), 100, 34)
        yield _text((top[0], at[1] + 15), tree["relation"], 13, anchor="middle")
        yield _text((top[0], at[1] + 28), f"{tree['rows']:,.0f} rows", 10, _SOFT, "middle")
        return
    below = at[1] + _ROW
    starts = (at[0], at[0] + _COLUMN * _leaves(tree["left"]))
    for side, start in zip(("left", "right"), starts, strict=True):
        x = _across(tree[side], start)
        yield (
            f'<line x1="{top[0]:.1f}" y1="{top[1] + 12:.1f}" x2="{x:.1f}" y2="{below:.1f}" '
            f'stroke="{_SOFT}"/>'
        )
        yield from _tree(tree[side], (start, below))
    colour = _INK if tree["kind"] == "inner" else _OUTER
    yield _text((top[0], top[1] + 4), _SIGNS[tree["kind"]], 20, colour, "middle")
    yield _text((top[0] + 14, top[1]), f"{tree['rows']:,.0f}", 10, _SOFT)


def _across(tree: Mapping[str, Any], start: float) -> float:
    """The middle of a tree that starts at some place."""
    if "relation" in tree:
        return start + _COLUMN / 2
    left = _across(tree["left"], start)
    return (left + _across(tree["right"], start + _COLUMN * _leaves(tree["left"]))) / 2


def _leaves(tree: Mapping[str, Any]) -> int:
    return 1 if "relation" in tree else _leaves(tree["left"]) + _leaves(tree["right"])


def _depth(tree: Mapping[str, Any]) -> int:
    return 1 if "relation" in tree else 1 + max(_depth(tree["left"]), _depth(tree["right"]))


def _box(at: Point, width: float, height: float) -> str:
    return (
        f'<rect x="{at[0]:.1f}" y="{at[1]:.1f}" width="{width:.0f}" height="{height:.0f}" rx="6" '
        f'fill="#f3f4f6" stroke="{_INK}"/>'
    )


def _text(at: Point, text: str, size: int, colour: str = _INK, anchor: str = "start") -> str:
    return (
        f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}">{_escaped(text)}</text>'
    )


def _escaped(text: str) -> str:
    """Text that is well-formed XML whatever it holds; what can't be printed is a space."""
    return escape("".join(c if c.isprintable() else " " for c in text))


def _document(width: float, height: float, shapes: list[str]) -> str:
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        f'markerHeight="8" orient="auto-start-reverse"><path d="M 0 0 L 10 5 L 0 10 z" '
        f'fill="{_OUTER}"/></marker></defs>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif">'
    )
    back = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return "\n".join([head, arrow, back, *shapes, "</svg>"]) + "\n"
