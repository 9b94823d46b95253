"""Blocks of outer joins -> their normal form: relations joined inner, then attachments in a row.

    X join (L left R)   = (X join L) left R       whatever X joins on; also for semi and anti joins
    L full R            = L left R  +  R anti L with the columns of L NULL      as bags
    core left R         = core join R             under a predicate that rejects missing R

So a query is a sum of normal forms, each a core and its attachments; an attachment's right side is
a normal form again. A union is a sum as it stands. Where the right side of a join is a sum:

    X left (P + Q)      = X join P  +  X join Q  +  X anti P anti Q with the columns of both NULL
    X semi (P + Q)      = X semi P  +  (X anti P) semi Q
    X anti (P + Q)      = X anti P anti Q

By the first of these, X left R is such a sum too; it is written as one where X hangs together only
by columns of R. Predicates of ON that touch the right side alone filter it. Caller: every conjunct
is in place (`sql.classify`); a relation may occur in one normal form twice (`sql.occurrences`).

A column that is NULL in a branch keeps its type in what is computed of it: `coalesce(a.d, b.i)` of
a decimal and an integer is a decimal, `coalesce(NULL, b.i)` is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations, product

from deltajoin.graph import Attachment, Block, Core, Join, Predicate, components
from deltajoin.sql.dialect import parse_expression, text
from deltajoin.sql.kinds import TypeOf
from deltajoin.sql.nulls import rejects_nulls
from deltajoin.sql.predicates import Values, filled, predicate_of
from deltajoin.sql.refuse import Unsupported

Predicates = tuple[Predicate, ...]
_EMPTY = Core((), ())
#: Branches, and relations in all of them together: each is looked up, and drives a path, by itself.
MOST_BRANCHES, MOST_LOOKED_UP = 16, 64


def normal_forms(block: Block, type_of: TypeOf | None = None) -> tuple[Core, ...]:
    """The normal forms that a block is the sum of.

    Args:
        type_of: of a column, "" where it is not known; without, NULLs have no type.

    Raises:
        Unsupported: BRANCHES for more than are kept, or for none; OUTER_JOIN for a condition on a
            missing column of unknown type.
    """
    found = _Forms(type_of).of(block)
    if not found:
        remedy = "Correct the conditions, or use a mode that rebuilds."
        raise Unsupported("BRANCHES", "a query that can't give a row", None, remedy)
    return tuple(found)


@dataclass(frozen=True)
class _Forms:
    """Makes normal forms, by the types of columns."""

    type_of: TypeOf | None

    def of(self, block: Block) -> list[Core]:
        return self._connected(self._flatten(block), ())

    def _flatten(self, block: Block, above: Predicates = ()) -> list[Core]:
        """The normal forms of a block that have rows for which the predicates above may hold."""
        branches = [_EMPTY]
        judges = (*above, *block.predicates)
        for item in block.items:
            ways = [Core((item,), ())] if isinstance(item, str) else self._of_join(item, judges)
            crossed = (_crossed(one, way) for one in branches for way in ways)
            branches = _few([core for core in crossed if _may_hold(judges, core)])
        return [core for one in branches for core in self._judged(one, block.predicates)]

    def _of_join(self, join: Join, above: Predicates) -> list[Core]:
        if join.kind == "union":
            return self._united(join)
        if join.kind == "full":
            matched = self._attached(join.left, join.right, "left", join.on)
            others = self._attached(join.right, join.left, "anti", join.on)
            return _few([*matched, *(_missing(core, join.left.relations) for core in others)])
        return self._attached(join.left, join.right, join.kind, join.on, above)

    def _united(self, union: Join) -> list[Core]:
        """The normal forms of both arms, each with what the union's columns stand for in it."""
        found = []
        for side, block in enumerate((union.left, union.right), start=1):
            for core in self._flatten(block):
                values = {ref: parse_expression(sql) for ref, sql in core.given}
                given = tuple(
                    ((union.name, output[0]), text(filled(output[side], values)))
                    for output in union.outputs
                )
                found.append(replace(core, given=given))
        return _few(found)

    def _attached(
        self, left: Block, right: Block, kind: str, on: Predicates, above: Predicates = ()
    ) -> list[Core]:
        sides = self._connected(self._flatten(right), on)
        found: list[Core] = []
        for core in self._flatten(left, above):
            if kind == "anti":
                found.append(self._without_match(core, sides, on))
            elif kind == "semi":
                found += self._with_match(core, sides, on)
            elif len(sides) == 1 and not sides[0].nulls and not sides[0].given:
                found += self._attach(core, sides[0], kind, on)
            else:
                found += (branch for side in sides for branch in self._joined(core, side, on))
                found.append(_missing(self._without_match(core, sides, on), right.relations))
        return _few(found)

    def _without_match(self, core: Core, sides: list[Core], on: Predicates) -> Core:
        for side in sides:
            (core,) = self._attach(core, side, "anti", on)
        return core

    def _with_match(self, core: Core, sides: list[Core], on: Predicates) -> list[Core]:
        """One branch for each side that is the first to match."""
        return [
            branch
            for number, side in enumerate(sides)
            for branch in self._attach(
                self._without_match(core, sides[:number], on), side, "semi", on
            )
        ]

    def _joined(self, core: Core, side: Core, on: Predicates) -> list[Core]:
        return self._judged(_crossed(core, side), on)

    def _attach(self, core: Core, side: Core, kind: str, on: Predicates) -> list[Core]:
        """The core with one more attachment; nothing when no row is left.

        The side may hold relations that the core misses: of a full join's unmatched rows, what they
        were not matched with.
        """
        hidden = frozenset(side.everything)
        above = replace(core, nulls=tuple(name for name in core.nulls if name not in hidden))
        condition = self._filled(on, above, side)
        if condition is None:
            unmatched = {"left": [_missing(core, side.everything)], "anti": [core]}
            return unmatched.get(kind, [])
        attachment = Attachment(kind, replace(side, nulls=(), given=()), condition)
        return [replace(core, attachments=(*core.attachments, attachment))]

    def _judged(self, core: Core, predicates: Predicates) -> list[Core]:
        """The core under more predicates; nothing when no row is left."""
        more = self._filled(predicates, core)
        return [] if more is None else [replace(core, predicates=(*core.predicates, *more))]

    def _filled(self, predicates: Predicates, *cores: Core) -> Predicates | None:
        """The predicates with what is known of columns filled in; None if one can't be TRUE."""
        if not _may_hold(predicates, *cores):
            return None
        missing, values = _known(cores)
        return tuple(
            predicate_of(filled(predicate.sql, values, missing, self.type_of))
            if _is_touched(predicate, missing, values)
            else predicate
            for predicate in predicates
        )

    def _connected(self, cores: list[Core], above: Predicates) -> list[Core]:
        """The cores; one whose inner relations hang together only by columns of a left join's right
        side is written as the sum of its matched and its other rows."""
        found: list[Core] = []
        todo = list(cores)
        while todo:
            core = todo.pop(0)
            parts = None if simplify(core, above).is_connected else self._split(simplify(core))
            if parts is None:
                found.append(core)
            else:
                todo = [*parts, *todo]
            _few([*found, *todo])
        return found

    def _split(self, core: Core) -> list[Core] | None:
        touched = {name for predicate in core.late for name in predicate.relations}
        for number, attachment in enumerate(core.attachments):
            if attachment.kind != "left" or not touched & set(attachment.core.everything):
                continue
            inner, on = attachment.core, attachment.on
            before = replace(core, predicates=(), attachments=core.attachments[:number])
            alone = _missing(self._without_match(before, [inner], on), inner.everything)
            parts = [*self._joined(before, inner, on), alone]
            for later in core.attachments[number + 1 :]:
                attached = (self._attach(part, later.core, later.kind, later.on) for part in parts)
                parts = [part for branches in attached for part in branches]
            return [branch for part in parts for branch in self._judged(part, core.predicates)]
        return None


def _known(cores: Iterable[Core]) -> tuple[frozenset[str], Values]:
    """The relations whose columns are NULL in cores, and what columns of unions stand for."""
    missing = frozenset(name for core in cores for name in core.nulls)
    return missing, {ref: parse_expression(sql) for core in cores for ref, sql in core.given}


def _is_touched(predicate: Predicate, missing: frozenset[str], values: Values) -> bool:
    return bool(predicate.relations & missing) or not values.keys().isdisjoint(predicate.refs)


def _may_hold(predicates: Iterable[Predicate], *cores: Core) -> bool:
    """False if a predicate can't be TRUE with what is known of columns."""
    missing, values = _known(cores)
    return not any(
        rejects_nulls(filled(predicate.sql, values, missing), frozenset())
        for predicate in predicates
        if _is_touched(predicate, missing, values)
    )


def _few(branches: list[Core]) -> list[Core]:
    looked_up = sum(len(core.everything) for core in branches)
    if len(branches) > MOST_BRANCHES or (len(branches) > 1 and looked_up > MOST_LOOKED_UP):
        message = f"a sum of {len(branches)} branches with {looked_up} relations"
        remedy = "Use a mode that rebuilds, or put part of the query into a model of its own."
        raise Unsupported("BRANCHES", message, None, remedy)
    return branches


def _crossed(one: Core, other: Core) -> Core:
    """Both cores joined inner."""
    return Core(
        (*one.relations, *other.relations),
        (*one.predicates, *other.predicates),
        (*one.attachments, *other.attachments),
        (*one.nulls, *other.nulls),
        given=(*one.given, *other.given),
    )


def _missing(core: Core, relations: tuple[str, ...]) -> Core:
    """The core with columns of these relations NULL."""
    return replace(core, nulls=(*core.nulls, *relations))


def simplify(core: Core, above: Iterable[Predicate] = ()) -> Core:
    """Turn left joins into inner ones where a predicate rejects their missing rows; move conjuncts
    of ON to the side they filter.

    Args:
        above: predicates that every row of the core will be held against.
    """
    core = _promoted(core, tuple(above))
    attachments = []
    early = list(core.predicates)
    for attachment in core.attachments:
        below = frozenset(attachment.core.everything)
        filters = tuple(p for p in attachment.on if p.relations and p.relations <= below)
        on = tuple(p for p in attachment.on if p not in filters)
        if attachment.kind == "semi":
            early += [p for p in on if p.relations and p.relations <= core.inner]
            on = tuple(p for p in on if not (p.relations and p.relations <= core.inner))
        inner = attachment.core
        inner = simplify(replace(inner, predicates=(*inner.predicates, *filters)), on)
        attachments.append(Attachment(attachment.kind, inner, on))
    return replace(core, predicates=tuple(dict.fromkeys(early)), attachments=tuple(attachments))


def _promoted(core: Core, above: Predicates) -> Core:
    """The core with every left join as an inner one that can be."""
    judges = [*core.predicates, *above]
    judges += [p for a in core.attachments if a.kind == "semi" for p in a.on]
    for number, attachment in enumerate(core.attachments):
        inner, missing = attachment.core, frozenset(attachment.core.everything)
        if attachment.kind != "left" or not any(
            rejects_nulls(p.sql, missing) for p in judges if p.relations & missing
        ):
            continue
        before, after = core.attachments[:number], core.attachments[number + 1 :]
        promoted = replace(
            core,
            relations=(*core.relations, *inner.relations),
            predicates=(*core.early, *inner.predicates, *attachment.on, *core.late),
            attachments=(*before, *inner.attachments, *after),
        )
        return _promoted(promoted, above)
    return core


def linked(core: Core) -> Core:
    """The core with a link between any two inner relations that no condition connects; so too
    within its attachments."""
    groups = components(core.relations, (p.relations for p in core.early))
    links = tuple(
        Predicate("TRUE", "cross", (), linked=tuple(sorted((one, other))))
        for first, second in combinations(groups, 2)
        for one, other in product(first, second)
    )
    attachments = tuple(replace(a, core=linked(a.core)) for a in core.attachments)
    return replace(core, predicates=(*core.predicates, *links), attachments=attachments)


def as_block(core: Core) -> Block:
    """The block that a normal form without `nulls` stands for."""
    block = Block(core.relations, core.early)
    for attachment in core.attachments:
        join = Join(attachment.kind, block, as_block(attachment.core), attachment.on)
        block = Block((join,), ())
    return replace(block, predicates=(*block.predicates, *core.late))
