"""Which accelerator serves a join.

    few pairs                    compared one by one: less than finding candidates costs
    an equality beside it        the rows of one key are compared, unless these are too many
    else                         the first kind that recognises a condition

Kinds of others come by the entry point group `deltajoin.accelerators`, after our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from deltajoin.accelerate.arrays import AlikeArrays, Arrays
from deltajoin.accelerate.distance import Distance
from deltajoin.accelerate.inequality import Inequality
from deltajoin.accelerate.prefixes import Prefixes
from deltajoin.accelerate.protocol import EVERY_JOIN, Accelerator, Candidates, Sides
from deltajoin.accelerate.ranges import Ranges
from deltajoin.errors import DeltaJoinError
from deltajoin.sql.dialect import parse_expression, text

ENTRY_POINTS = "deltajoin.accelerators"
#: Pairs of rows that Spark compares in about the second that candidates cost.
FEW_PAIRS = 20e6
#: Rows of one key that are compared one by one, however many keys there are.
FEW_PER_KEY = 50
_COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Like, exp.Anonymous, exp.Or)


@dataclass(frozen=True)
class Sizes:
    """Estimated rows of both sides, and rows of the right side for each value of its columns that
    an equality asks for (all of them without one)."""

    left: float
    right: float
    per_key: float

    @property
    def pairs(self) -> float:
        """Pairs of rows that are compared."""
        return self.left * self.per_key


def joined_by(conditions: Iterable[exp.Expr], sides: Sides) -> list[tuple[exp.Expr, exp.Expr]]:
    """The equalities between both sides of a join: what the left and the right give to each."""
    equalities = (node for node in conditions if isinstance(node, (exp.EQ, exp.NullSafeEQ)))
    pairs = (sides.parted(node.this, node.expression) for node in equalities)
    return [pair for pair in pairs if pair]


def accelerated(conditions: Sequence[str], sides: Sides, sizes: Sizes) -> Candidates | None:
    """The candidates of a join; None where it is made as Spark does.

    Args:
        conditions: all of them must hold; over `relation`.`column`.

    Raises:
        DeltaJoinError: ACCELERATOR_FAILED when one of a third party does.
    """
    if sizes.pairs < FEW_PAIRS:
        return None
    nodes = [parse_expression(sql).unnest() for sql in conditions]
    if not any(isinstance(node, _COMPARISONS) for node in nodes) or _few(nodes, sides, sizes):
        return None
    return recognised(nodes, sides)


def _few(nodes: Sequence[exp.Expr], sides: Sides, sizes: Sizes) -> str:
    """Why rows are compared one by one: because they are few; else empty."""
    if sizes.pairs < FEW_PAIRS:
        return f"about {max(1, sizes.pairs):,.0f} pairs are compared, few enough"
    if sizes.per_key < FEW_PER_KEY and joined_by(nodes, sides):
        return f"about {max(1, sizes.per_key):,.0f} rows a key are compared, few enough"
    return ""


def why_compared(conditions: Sequence[str], sides: Sides, sizes: Sizes) -> str:
    """Why rows are compared one by one though a condition might be served; empty where none of
    them compares both sides, or an accelerator serves them."""
    nodes = [parse_expression(sql).unnest() for sql in conditions]
    compared = [
        node for node in nodes if isinstance(node, _COMPARISONS) and sides.of(node) == "both"
    ]
    if not compared:
        return ""
    if few := _few(nodes, sides, sizes):
        return few
    if recognised(nodes, sides) is not None:
        return ""
    if not any(sides.kind in accelerator.joins for accelerator in accelerators()):
        return f"compared one by one: no accelerator serves {sides.kind} joins"
    texts = " AND ".join(text(node) for node in compared).replace("`", "")
    return f"compared one by one: no accelerator recognises {texts}"


def recognised(nodes: Sequence[exp.Expr], sides: Sides) -> Candidates | None:
    """The candidates of the first kind that recognises a condition."""
    fitting = (each for each in accelerators() if sides.kind in each.joins)
    found = (_asked(each, nodes, sides) for each in fitting)
    return next((candidates for candidates in found if candidates is not None), None)


def _asked(accelerator: Accelerator, nodes: Sequence[exp.Expr], sides: Sides) -> Candidates | None:
    try:
        found = accelerator.recognise([node.copy() for node in nodes], sides)
        if found is not None:
            _check(found, sides)
    except Exception as error:
        where = ", ".join(text(node) for node in nodes)
        raise _failed(f"{accelerator.name} failed: {error}", where) from error
    return found


def _check(found: Candidates, sides: Sides) -> None:
    """Every expression reads the side that it is of; one row stands for all only where rows of the
    right side aren't part of the result."""
    if found.extreme and sides.kind not in ("semi", "anti"):
        raise ValueError(f"an extreme can't serve a join of type {sides.kind}")
    if found.running and not sides.aggregated:
        raise ValueError("running aggregates can't serve a join whose right rows are given out")
    for side, parts in (("left", found.left), ("right", found.right)):
        if not parts:
            raise ValueError("it names no candidates")
        for sql in parts:
            if sides.of(parse_expression(sql)) != side:
                raise ValueError(f"{sql} is no expression over the {side} side")


OWN: tuple[Accelerator, ...] = (
    *(Distance(), Arrays(), AlikeArrays(), Prefixes(), Ranges(), Inequality()),
)


@lru_cache(maxsize=1)
def accelerators() -> tuple[Accelerator, ...]:
    """Our own kinds, then those that other packages register.

    Raises:
        DeltaJoinError: ACCELERATOR_FAILED when one can't be loaded or is none.
    """
    from importlib.metadata import entry_points

    others: list[Accelerator] = []
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            other = point.load()()
            if not other.name or not set(other.joins) or not callable(other.recognise):
                raise TypeError("it has no name, no joins, or can't recognise")
            if unknown := sorted(set(other.joins) - EVERY_JOIN):
                raise ValueError(f"candidates can't serve joins of type {', '.join(unknown)}")
        except Exception as error:
            what = f"{point.name} of {point.value} can't be loaded: {error}"
            raise _failed(what, point.value) from error
        others.append(other)
    return OWN + tuple(others)


def _failed(what: str, where: str) -> DeltaJoinError:
    remedy = "Mend or uninstall the package that registers it."
    return DeltaJoinError(
        "ACCELERATOR_FAILED", f"the accelerator {what}", where=where, remedy=remedy
    )
