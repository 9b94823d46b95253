"""A join that no equality makes, as one that an equality makes of candidates.

    Span      a row of the left lies in one bin of a line, of a width of its own level; a row of the
              right is repeated for all bins that it touches, at every level: pairs meet once
    Shared    a row of the right is repeated for each of its values; where the left has several, the
              right is joined with the left's distinct values first
    Extreme   the right is grouped to its greatest or least value

The conditions themselves stay in the join, so candidates need not match. The left row is never
repeated: inner, left, semi and anti joins keep their meaning.

Bins of one line are a quarter of the mean length of the intervals: about five a row, and candidates
about as many as pairs. Those of two lines are a half, of three all of it: a row stands once for
each bin of all lines, nine or eight times instead of 125. Their mean is the quadratic, the cubic
one: by Hoelder's inequality the rows then stand no more often, however few of them are how long.
Widths, levels and the part of each line where both sides have rows (the hull) are measured by a
query of one row for all lines: what is outside is left out. Bins lie in a part of the hull, and
what is beyond it is in the last bin: an interval without an end would stretch the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltajoin.accelerate.protocol import Candidates, Extreme, Shared, Sides, Span
from deltajoin.emit.ast import aliased, column, same, table
from deltajoin.names import RESERVED_PREFIX, quote
from deltajoin.sql.dialect import closed, parse, parse_expression, text, with_columns

#: Bins in the part of the line that is looked at, at most; how much wider each level's bins are.
_MOST_BINS, _WIDER = "1e6D", "4D"
#: How many short intervals are far.
_FAR = "1000D"
#: Lines -> bins in the mean length of the intervals; for more lines, one.
_PARTS = {1: 4, 2: 2}
_VALUES, _TOKEN = f"{RESERVED_PREFIX}values", f"{RESERVED_PREFIX}token"

Moved = Callable[[str], exp.Expr]
Define = Callable[[str], str]


@dataclass(frozen=True)
class Side:
    """One side of a join: the rows, under an alias; how an expression of the graph is read there.

    `small`: its rows may be read once more, to measure the line.
    """

    rows: exp.Expr
    alias: str
    moved: Moved
    small: bool = True

    def text(self, sql: str) -> str:
        """An expression over the rows, in brackets where needed."""
        return text(closed(self.moved(sql)))

    @property
    def source(self) -> str:
        """The rows as they stand in a FROM."""
        return text(self.rows)


@dataclass(frozen=True)
class Joined:
    """The right side with what an equality needs, the equalities that give candidates, the
    conditions that decide among them, and what the left side is joined with before: one row each.
    """

    right: exp.Expr
    equal: tuple[exp.Expr, ...]
    among: tuple[exp.Expr, ...]
    before: tuple[exp.Expr, ...] = ()

    @property
    def on(self) -> list[exp.Expr]:
        """The whole condition."""
        return [*self.equal, *self.among]


def candidates_of(
    found: Candidates,
    left: Side,
    right: Side,
    on: Sequence[exp.Expr],
    define: Define,
) -> Joined:
    """The right side of an accelerated join and its whole condition.

    Args:
        left: the rows that its values are measured on; its expressions are read in the join by the
            same names.
        on: the join's conditions as they are.
        define: gives a query of one row a name, by which it is read: its text -> the name.
    """
    if found.extreme:
        return _grouped(found.extreme, left, right, on)
    if found.shared:
        return _sharing(found, found.shared, left, right, on)
    lines = _lines(found.spans, left, right)
    measured = define(_measured(lines, left, right))
    rows, place, equal = _binned(lines, measured, right)
    return Joined(rows, tuple(equal), tuple(on), (table(measured), place))


# spans --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """One of the lines: its number, both ends of the left and of the right rows' intervals."""

    number: int
    left: tuple[str, str]
    right: tuple[str, str]

    @property
    def is_of_points(self) -> bool:
        """Left rows are points of it."""
        return self.left[0] == self.left[1]

    def is_measured(self, side: str, left: Side, right: Side) -> bool:
        """Whether the lengths of a side's intervals are."""
        if side == "left":
            return not self.is_of_points
        return self.right[0] != self.right[1] and (right.small or not left.small)

    def width(self, lines: int, left: Side, right: Side) -> str:
        """The width of a bin, over `h` (the hull) and `left`, `right` (what was measured)."""
        n, parts = self.number, _PARTS.get(lines, 1)
        at = [side for side in ("left", "right") if self.is_measured(side, left, right)]
        widths = [f"`{side}`.mean_{n} / {parts}D" for side in at]
        part = f"(h.to_{n} - h.from_{n})"
        if "right" not in at and (not at or self.right[0] != self.right[1]):
            # As many bins of all lines as rows would be points.
            bins = f"(4D * h.n_{n})" if lines == 1 else f"pow(4D * h.n_{n}, 1D / {lines}D)"
            widths.append(f"{part} / {bins}")
        return (
            f"greatest({', '.join(widths)}, {part} / {_MOST_BINS}, "
            f"greatest(abs(h.from_{n}), abs(h.to_{n})) / 1e9D, 1e-290D)"
        )


def _lines(spans: Sequence[Span], left: Side, right: Side) -> list[_Line]:
    def ends(side: Side, span: tuple[str, str]) -> tuple[str, str]:
        return side.text(span[0]), side.text(span[1])

    return [
        _Line(number, ends(left, span.left), ends(right, span.right))
        for number, span in enumerate(spans)
    ]


def _ends(lines: Sequence[_Line], side: str) -> str:
    """Both ends of a side's interval on each line, as columns."""
    ends = ((line.number, *(line.left if side == "left" else line.right)) for line in lines)
    return ", ".join(f"{low} AS low_{n}, {high} AS high_{n}" for n, low, high in ends)


def _hull(lines: Sequence[_Line], left: Side, right: Side) -> str:
    """Where both sides have rows, or those of them that are small."""
    sides = {"left": left, "right": right}
    small = [name for name, side in sides.items() if side.small] or list(sides)
    hulls = []
    for name in small:
        figures = [
            f"min(e.low_{n}) AS a_{n}, max(e.high_{n}) AS b_{n}, count(e.low_{n}) AS n_{n}"
            for n in range(len(lines))
        ]
        if name == "left":
            figures += [_usual(line.number) for line in lines if not line.is_of_points]
        ends = f"(SELECT {_ends(lines, name)} FROM {sides[name].source}) e"
        hulls.append(f"(SELECT {', '.join(figures)} FROM {ends}) `{name}`")
    shown = []
    for line in lines:
        n = line.number
        low, high = (", ".join(f"`{name}`.{end}_{n}" for name in small) for end in "ab")
        if len(small) > 1:
            low, high = f"greatest({low})", f"least({high})"
        first, last = low, high
        if "left" in small and not line.is_of_points:
            first = f"least(greatest({low}, `left`.from_{n}), {high})"
            last = f"greatest(least({high}, `left`.to_{n}), {low})"
        shown.append(
            f"{low} AS lo_{n}, {high} AS hi_{n}, {first} AS from_{n}, {last} AS to_{n}, "
            f"`{small[0]}`.n_{n} AS n_{n}"
        )
    return f"SELECT {', '.join(shown)} FROM {' CROSS JOIN '.join(hulls)}"


def _usual(n: int) -> str:
    """Between which points intervals end that have an end, and begin that have a beginning: no
    farther from all others' than these from each other, or a thousand times a short length."""
    short = f"{_FAR} * percentile_approx(e.high_{n} - e.low_{n}, 0.25)"
    far = f"greatest(max(e.%s_{n}) - min(e.%s_{n}), {short})"
    return (
        f"min(e.high_{n}) - {far % ('high', 'high')} AS from_{n}, "
        f"max(e.low_{n}) + {far % ('low', 'low')} AS to_{n}"
    )


def _measured(lines: Sequence[_Line], left: Side, right: Side) -> str:
    """Each line's figures: ends of the hull, width of a bin, longest left interval, its level."""
    inside = ["hull h"]
    for name, side in (("left", left), ("right", right)):
        measured = [line for line in lines if line.is_measured(name, left, right)]
        if measured:
            figures = ", ".join(_lengths(line.number, len(lines)) for line in measured)
            ends = f"(SELECT {_ends(measured, name)} FROM {side.source}) e"
            inside.append(f"(SELECT {figures} FROM {ends} CROSS JOIN hull h) `{name}`")
    shown = ", ".join(
        f"{', '.join(f'h.{end}_{line.number}' for end in ('lo', 'hi', 'from', 'to'))}, "
        f"{line.width(len(lines), left, right)} AS width_{line.number}, "
        f"{_longest(line)} AS longest_{line.number}"
        for line in lines
    )
    tops = ", ".join(
        f"{_level(f'b.longest_{n}', f'b.width_{n}')} AS top_{n}" for n in range(len(lines))
    )
    rows = f"(SELECT {shown} FROM {' CROSS JOIN '.join(inside)}) b"
    return f"WITH hull AS ({_hull(lines, left, right)}) SELECT b.*, {tops} FROM {rows}"


def _lengths(n: int, lines: int) -> str:
    """The mean and the greatest length of the intervals that meet the hull, as far as they do."""
    low, high = (_within(f"e.{end}_{n}", f"h.from_{n}", f"h.to_{n}") for end in ("low", "high"))
    length = f"({high} - {low})"
    inside = f"CASE WHEN e.high_{n} >= h.lo_{n} AND e.low_{n} <= h.hi_{n} THEN {length} END"
    mean = f"avg({inside})" if lines == 1 else f"pow(avg(pow({inside}, {lines}D)), 1D / {lines}D)"
    return f"{mean} AS mean_{n}, max({inside}) AS longest_{n}"


def _within(point: str, first: str, last: str) -> str:
    """The point of the bins' part of the line that is nearest."""
    return f"least(greatest({point}, {first}), {last})"


def _longest(line: _Line) -> str:
    return "0D" if line.is_of_points else f"coalesce(`left`.longest_{line.number}, 0D)"


def _level(length: str, width: str) -> str:
    """The level on which an interval touches two bins at most."""
    most = f"({width} * 0.999D)"
    return f"CASE WHEN {length} <= {most} THEN 0D ELSE ceil(log({_WIDER}, {length} / {most})) END"


def _binned(
    lines: Sequence[_Line], measured: str, right: Side
) -> tuple[exp.Expr, exp.Expr, list[exp.Expr]]:
    """The right rows once for each bin of all lines; the left row's bins; their equalities."""
    place, alias = f"{measured}_place", quote(right.alias)
    views, shown, own, levels, equal = "", [], [], [], []
    for line in lines:
        n = line.number
        lo, hi, start, end, width, longest, top = (
            f"{quote(measured)}.{name}_{n}"
            for name in ("lo", "hi", "from", "to", "width", "longest", "top")
        )
        bins, on_level = f"{RESERVED_PREFIX}bin_{n}", f"{RESERVED_PREFIX}level_{n}"
        bin_width, level, before = width, "0", ""
        shown.append(f"{bins}.{bins}")
        if not line.is_of_points:
            low, high = (_within(f"e.{at}_{n}", start, end) for at in ("low", "high"))
            level = _level(f"({high} - {low})", width)
            bin_width = f"({width} * pow({_WIDER}, {on_level}.{on_level}))"
            views += (
                f" LATERAL VIEW explode(sequence(0, CAST({top} AS INT))) {on_level} AS {on_level}"
            )
            shown.append(f"{on_level}.{on_level}")
            equal.append(f"CAST({place}.level_{n} AS INT) = {alias}.{on_level}")
            # A left interval begins in its own bin and may end in the next.
            before = f" - CASE WHEN {longest} > 0D THEN 1 ELSE 0 END"
        low, high = (_within(f"{place}.{at}_{n}", start, end) for at in ("low", "high"))
        first = f"CAST(floor({low} / {bin_width}) AS BIGINT){before}"
        last = f"CAST(floor({high} / {bin_width}) AS BIGINT)"
        touched = (
            f"CASE WHEN {place}.high_{n} >= {lo} AND {place}.low_{n} <= {hi} "
            f"THEN sequence({first}, greatest({first}, {last})) END"
        )
        views += f" LATERAL VIEW explode({touched}) {bins} AS {bins}"
        levels.append(f"{level} AS level_{n}")
        own.append(
            f"p.level_{n}, CASE WHEN p.high_{n} >= {lo} AND p.low_{n} <= {hi} THEN CAST(floor("
            f"{_within(f'p.low_{n}', start, end)} / ({width} * pow({_WIDER}, p.level_{n}))) "
            f"AS BIGINT) END AS bin_{n}"
        )
        equal.append(f"{place}.bin_{n} = {alias}.{bins}")
    ends = f"LATERAL (SELECT {_ends(lines, 'right')}) AS {place}"
    inside = f"{right.source} CROSS JOIN {quote(measured)} CROSS JOIN {ends}{views}"
    select = f"SELECT {alias}.*, {', '.join(shown)} FROM {inside}"
    here = f"(SELECT {_ends(lines, 'left')})"
    row = f"SELECT {', '.join(own)} FROM (SELECT e.*, {', '.join(levels)} FROM {here} e) p"
    lateral = exp.Lateral(
        this=parse(row).subquery(), alias=exp.TableAlias(this=exp.to_identifier(place))
    )
    return _sub(select, right.alias), lateral, [parse_expression(sql) for sql in equal]


# shared values ------------------------------------------------------------------------------------


def _sharing(
    found: Candidates, shared: Shared, left: Side, right: Side, on: Sequence[exp.Expr]
) -> Joined:
    mine, other, alias = left.text(shared.left), right.text(shared.right), quote(right.alias)
    if "left" in shared.many:
        return _by_values(found, shared, left, right, on)
    if "right" not in shared.many:
        return Joined(right.rows, (parse_expression(f"{mine} = {other}"),), tuple(on))
    equal = parse_expression(f"{mine} <=> {alias}.`{_TOKEN}`")
    repeated = _sub(_repeated(alias, right.source, other), right.alias)
    return Joined(repeated, (equal,), tuple(on))


def _repeated(alias: str, rows: str, values: str) -> str:
    """The rows once for each value of an array, which stands beside them."""
    return (
        f"SELECT {alias}.*, `{_TOKEN}`.`{_TOKEN}` FROM {rows} "
        f"LATERAL VIEW explode(array_distinct({values})) `{_TOKEN}` AS `{_TOKEN}`"
    )


def _by_values(
    found: Candidates, shared: Shared, left: Side, right: Side, on: Sequence[exp.Expr]
) -> Joined:
    """The right rows once for each of the left's distinct values that they match: the left row then
    finds them by its own values."""
    alias, served = quote(right.alias), [left.moved(sql) for sql in found.serves]
    columns = {
        c.name for node in served for c in node.find_all(exp.Column) if c.table == left.alias
    }
    names = {name: f"{RESERVED_PREFIX}value_{i}" for i, name in enumerate(sorted(columns))}

    def value(ref: exp.Column) -> exp.Expr | None:
        own = ref.table == left.alias and ref.name in names
        return column(names[ref.name], _VALUES) if own else None

    def valued(node: exp.Expr) -> str:
        return text(with_columns(node, value))

    values = ", ".join(f"{text(column(n, left.alias))} AS `{name}`" for n, name in names.items())
    distinct = f"(SELECT DISTINCT {values} FROM {left.source}) `{_VALUES}`"
    many = valued(parse_expression(left.text(shared.left)))
    rows, token = right.source, right.text(shared.right)
    conditions = [valued(node) for node in served]
    if "right" in shared.many:
        first = f"get(sort_array(array_intersect({many}, {token})), 0)"
        rows = f"({_repeated(alias, rows, token)}) {alias}"
        token = f"{alias}.`{_TOKEN}`"
        conditions.append(f"{first} <=> {token}")
    select = (
        f"SELECT {alias}.*, {', '.join(f'`{_VALUES}`.`{name}`' for name in names.values())} "
        f"FROM ({_repeated(f'`{_VALUES}`', distinct, many)}) `{_VALUES}` "
        f"JOIN {rows} ON `{_VALUES}`.`{_TOKEN}` <=> {token} "
        f"AND {' AND '.join(f'({each})' for each in conditions)}"
    )
    equal = [same(column(n, left.alias), column(name, right.alias)) for n, name in names.items()]
    return Joined(_sub(select, right.alias), tuple(equal), tuple(on))


# extremes -----------------------------------------------------------------------------------------


def _grouped(found: Extreme, left: Side, right: Side, on: Sequence[exp.Expr]) -> Joined:
    """One right row a key: its greatest, or least, value."""

    sides = Sides(frozenset({right.alias}), lambda column: "")
    own = [text(node) for node in on if sides.of(node) == "right"]
    function = "max" if found.operator.startswith("<") else "min"
    keys: list[str] = []
    equal: list[exp.Expr] = [node for node in on if sides.of(node) in ("left", "")]
    for node in on:
        if isinstance(node, exp.EQ) and (ends := sides.parted(node.this, node.expression)):
            name = f"{RESERVED_PREFIX}value_{len(keys)}"
            keys.append(f"{text(closed(ends[1]))} AS `{name}`")
            equal.append(exp.EQ(this=ends[0].copy(), expression=column(name, right.alias)))
    value = f"{function}({right.text(found.right)}) AS `{_TOKEN}`"
    select = f"SELECT {', '.join([*keys, value])} FROM {right.source}"
    if own:
        select += " WHERE " + " AND ".join(f"({sql})" for sql in own)
    if keys:
        select += " GROUP BY " + ", ".join(str(i + 1) for i in range(len(keys)))
    compared = f"{left.text(found.left)} {found.operator} {quote(right.alias)}.`{_TOKEN}`"
    return Joined(_sub(select, right.alias), tuple(equal), (parse_expression(compared),))


def _sub(select: str, alias: str) -> exp.Expr:
    return aliased(parse(select), alias)
