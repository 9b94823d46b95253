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
each bin of all lines, nine or eight times instead of 125. Widths, levels and the part of the line
where both sides have rows are measured by queries of one row: what is outside is left out.
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
#: Lines -> bins in the mean length of the intervals; for more lines, one.
_PARTS = {1: 4, 2: 2}
_VALUES, _TOKEN = f"{RESERVED_PREFIX}values", f"{RESERVED_PREFIX}token"

Moved = Callable[[str], exp.Expr]
Define = Callable[[str, str], str]


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
    """The right side with what an equality needs, the conditions, and what the left side is
    joined with before: one row each."""

    right: exp.Expr
    on: tuple[exp.Expr, ...]
    before: tuple[exp.Expr, ...] = ()


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
        define: gives a query a name, by which it is read: (what it is, its text) -> the name.
    """
    if found.extreme:
        return _grouped(found.extreme, left, right, on)
    if found.shared:
        return _sharing(found, found.shared, left, right, on)
    rows, equal, before = right.rows, list[exp.Expr](), list[exp.Expr]()
    for number, span in enumerate(found.spans):
        line = _Line(span, left, right, define, _PARTS.get(len(found.spans), 1))
        rows, place, new = _binned(line, rows, right.alias, number)
        equal += new
        before += [table(line.name), place]
    return Joined(rows, (*equal, *on), tuple(before))


# spans --------------------------------------------------------------------------------------------


class _Line:
    """The part of a line where both sides have rows, and its bins, as a query of one row: low and
    high end, width of a bin, highest level, longest left interval."""

    def __init__(self, span: Span, left: Side, right: Side, define: Define, parts: int) -> None:
        self.parts = parts
        self.left = [left.text(end) for end in span.left]
        self.right = [right.text(end) for end in span.right]
        self.point = span.left[0] == span.left[1]
        sides = [(left, _ends(left, self.left)), (right, _ends(right, self.right))]
        small = [ends for side, ends in sides if side.small] or [ends for _, ends in sides]
        hull = define("hull", _hull(small))
        measured = [] if self.point else [sides[0][1]]
        if span.right[0] != span.right[1] and (right.small or not left.small):
            measured.append(sides[1][1])
        self.name = define("line", self._bins(hull, measured))

    def _bins(self, hull: str, measured: Sequence[str]) -> str:
        length = "(least(e.high, h.hi) - greatest(e.low, h.lo))"
        lengths = [
            f"(SELECT avg({length}) AS mean, max({length}) AS longest FROM {ends} e "
            f"CROSS JOIN {quote(hull)} h WHERE e.high >= h.lo AND e.low <= h.hi) m{i}"
            for i, ends in enumerate(measured)
        ]
        widths = [f"m{i}.mean / {self.parts}D" for i in range(len(measured))]
        widths = widths or ["(h.hi - h.lo) / (4D * h.n)"]
        width = (
            f"greatest({', '.join(widths)}, (h.hi - h.lo) / {_MOST_BINS}, "
            "greatest(abs(h.lo), abs(h.hi)) / 1e9D, 1e-290D)"
        )
        longest = "0D" if self.point else "coalesce(m0.longest, 0D)"
        inside = " CROSS JOIN ".join([f"{quote(hull)} h", *lengths])
        return (
            f"SELECT b.*, {_level('b.longest', 'b.width')} AS top FROM "
            f"(SELECT h.lo AS lo, h.hi AS hi, {width} AS width, {longest} AS longest "
            f"FROM {inside}) b"
        )

    def of(self, name: str) -> str:
        """One of its figures: lo, hi, width, longest or top."""
        return f"{quote(self.name)}.{name}"


def _ends(side: Side, ends: Sequence[str]) -> str:
    return f"(SELECT {ends[0]} AS low, {ends[1]} AS high FROM {side.source})"


def _hull(sides: Sequence[str]) -> str:
    """Where all of some sides have rows."""
    hulls = [
        f"(SELECT min(e.low) AS a, max(e.high) AS b, count(e.low) AS n FROM {ends} e) h{i}"
        for i, ends in enumerate(sides)
    ]
    low, high = "h0.a", "h0.b"
    if len(hulls) > 1:
        low, high = "greatest(h0.a, h1.a)", "least(h0.b, h1.b)"
    return f"SELECT {low} AS lo, {high} AS hi, h0.n AS n FROM {' CROSS JOIN '.join(hulls)}"


def _level(length: str, width: str) -> str:
    """The level on which an interval touches two bins at most."""
    most = f"({width} * 0.999D)"
    return f"CASE WHEN {length} <= {most} THEN 0D ELSE ceil(log({_WIDER}, {length} / {most})) END"


def _binned(
    line: _Line, rows: exp.Expr, alias: str, number: int
) -> tuple[exp.Expr, exp.Expr, list[exp.Expr]]:
    """The right rows once for each bin; the left row's bin; their equalities."""
    bins, levels = f"{RESERVED_PREFIX}bin_{number}", f"{RESERVED_PREFIX}level_{number}"
    place = f"{line.name}_place"
    lo, hi, width = line.of("lo"), line.of("hi"), line.of("width")
    views, shown, before = "", "", ""
    bin_width, level = width, "0"
    if not line.point:
        level = _level(f"(least(e.high, {hi}) - greatest(e.low, {lo}))", width)
        bin_width = f"({width} * pow({_WIDER}, {levels}.{levels}))"
        top = f"CAST({line.of('top')} AS INT)"
        views = f" LATERAL VIEW explode(sequence(0, {top})) {levels} AS {levels}"
        shown = f", {levels}.{levels}"
        # A left interval begins in its own bin and may end in the next.
        before = f" - CASE WHEN {line.of('longest')} > 0D THEN 1 ELSE 0 END"
    first = f"CAST(floor(greatest({place}.low, {lo}) / {bin_width}) AS BIGINT){before}"
    last = f"CAST(floor(least({place}.high, {hi}) / {bin_width}) AS BIGINT)"
    touched = (
        f"CASE WHEN {place}.high >= {lo} AND {place}.low <= {hi} "
        f"THEN sequence({first}, greatest({first}, {last})) END"
    )
    views += f" LATERAL VIEW explode({touched}) {bins} AS {bins}"
    low, high = line.right
    ends = f"LATERAL (SELECT {low} AS low, {high} AS high) AS {place}"
    inside = f"{text(rows)} CROSS JOIN {quote(line.name)} CROSS JOIN {ends}{views}"
    select = f"SELECT {quote(alias)}.*, {bins}.{bins}{shown} FROM {inside}"
    here = f"(SELECT {line.left[0]} AS low, {line.left[1]} AS high)"
    own = (
        f"SELECT p.level, CASE WHEN p.high >= {lo} AND p.low <= {hi} THEN "
        f"CAST(floor(greatest(p.low, {lo}) / ({width} * pow({_WIDER}, p.level))) AS BIGINT) END "
        f"AS bin FROM (SELECT e.*, {level} AS level FROM {here} e) p"
    )
    equal = [f"{place}.bin = {quote(alias)}.{bins}"]
    if not line.point:
        equal.append(f"CAST({place}.level AS INT) = {quote(alias)}.{levels}")
    lateral = exp.Lateral(
        this=parse(own).subquery(), alias=exp.TableAlias(this=exp.to_identifier(place))
    )
    return _sub(select, alias), lateral, [parse_expression(sql) for sql in equal]


# shared values ------------------------------------------------------------------------------------


def _sharing(
    found: Candidates, shared: Shared, left: Side, right: Side, on: Sequence[exp.Expr]
) -> Joined:
    mine, other, alias = left.text(shared.left), right.text(shared.right), quote(right.alias)
    if "left" in shared.many:
        return _by_values(found, shared, left, right, on)
    if "right" not in shared.many:
        return Joined(right.rows, (parse_expression(f"{mine} = {other}"), *on))
    equal = parse_expression(f"{mine} <=> {alias}.`{_TOKEN}`")
    repeated = _sub(_repeated(alias, right.source, other), right.alias)
    return Joined(repeated, (equal, *on))


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
    return Joined(_sub(select, right.alias), (*equal, *on))


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
    return Joined(_sub(select, right.alias), (*equal, parse_expression(compared)))


def _sub(select: str, alias: str) -> exp.Expr:
    return aliased(parse(select), alias)
