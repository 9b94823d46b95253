"""Blocks of outer joins -> their normal form: relations joined inner, then attachments in a row.

    X join (L left R)   = (X join L) left R       whatever X joins on; also for semi and anti joins
    L full R            = L left R  +  R anti L with the columns of L NULL      as bags
    core left R         = core join R             under a predicate that rejects missing R

So a query is a sum of normal forms, each a core and its attachments; an attachment's right side is
a normal form again. Predicates of ON that touch the right side alone filter it. Caller: every
conjunct is in place (`sql.classify`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from deltajoin.graph import Attachment, Block, Core, Join, Predicate, refs_of
from deltajoin.sql.dialect import parse_expression, text
from deltajoin.sql.nulls import rejects_nulls
from deltajoin.sql.refuse import Unsupported

_EMPTY = Core((), ())


def normal_forms(block: Block) -> tuple[Core, ...]:
    """The simplified normal forms that a block is the sum of.

    Raises:
        Unsupported: FULL_JOIN for one on the missing side of another join.
    """
    return tuple(simplify(core) for core in _flatten(block))


def _flatten(block: Block) -> list[Core]:
    branches = [_EMPTY]
    for item in block.items:
        ways = [Core((item,), ())] if isinstance(item, str) else _flatten_join(item)
        branches = [_both(one, way) for one in branches for way in ways]
    found = []
    for branch in branches:
        missing = frozenset(branch.nulls)
        if any(rejects_nulls(p.sql, missing) for p in block.predicates if p.relations & missing):
            continue
        own = tuple(_without(p, missing) for p in block.predicates)
        found.append(replace(branch, predicates=(*branch.predicates, *own)))
    return found


def _both(one: Core, other: Core) -> Core:
    return Core(
        (*one.relations, *other.relations),
        (*one.predicates, *other.predicates),
        (*one.attachments, *other.attachments),
        (*one.nulls, *other.nulls),
    )


def _flatten_join(join: Join) -> list[Core]:
    if join.kind == "full":
        matched = _attached(join.left, join.right, "left", join.on)
        others = _attached(join.right, join.left, "anti", join.on)
        missing = tuple(join.left.relations)
        return [*matched, *(replace(core, nulls=(*core.nulls, *missing)) for core in others)]
    return _attached(join.left, join.right, join.kind, join.on)


def _attached(left: Block, right: Block, kind: str, on: tuple[Predicate, ...]) -> list[Core]:
    sides = _flatten(right)
    if len(sides) > 1 or sides[0].nulls:
        remedy = "Use mode 'auto', 'incremental' or 'full' to rebuild, or move the join downstream."
        raise Unsupported("OUTER_JOIN", "FULL JOIN on the missing side of a join", None, remedy)
    attached = [_attach(core, sides[0], kind, on) for core in _flatten(left)]
    return [core for core in attached if core is not None]


def _attach(core: Core, side: Core, kind: str, on: tuple[Predicate, ...]) -> Core | None:
    """The core with one more attachment; None when no row is left."""
    missing = frozenset(core.nulls)
    if any(rejects_nulls(p.sql, missing) for p in on if p.relations & missing):
        if kind == "left":
            return replace(core, nulls=(*core.nulls, *side.everything))
        return core if kind == "anti" else None
    known = tuple(_without(p, missing) for p in on)
    return replace(core, attachments=(*core.attachments, Attachment(kind, side, known)))


def _without(predicate: Predicate, missing: frozenset[str]) -> Predicate:
    """The predicate with NULL for the columns of missing relations."""
    if not predicate.relations & missing:
        return predicate
    holder = exp.Paren(this=parse_expression(predicate.sql))
    for column in list(holder.find_all(exp.Column)):
        if column.table in missing:
            column.replace(exp.Null())
    refs = refs_of(ref for ref in predicate.refs if ref[0] not in missing)
    kind = ("constant", "filter", "residual")[min(len({r for r, _ in refs}), 2)]
    return Predicate(text(holder.this), kind, refs)


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


def _promoted(core: Core, above: tuple[Predicate, ...]) -> Core:
    while True:
        judges = [*core.predicates, *above]
        judges += [p for a in core.attachments if a.kind == "semi" for p in a.on]
        for number, attachment in enumerate(core.attachments):
            missing = frozenset(attachment.core.everything)
            if attachment.kind == "left" and any(
                rejects_nulls(p.sql, missing) for p in judges if p.relations & missing
            ):
                inner = attachment.core
                core = Core(
                    (*core.relations, *inner.relations),
                    (*core.predicates, *attachment.on, *inner.predicates),
                    (
                        *core.attachments[:number],
                        *inner.attachments,
                        *core.attachments[number + 1 :],
                    ),
                    core.nulls,
                )
                break
        else:
            return core


def as_block(core: Core) -> Block:
    """The block that a normal form without `nulls` stands for."""
    block = Block(core.relations, core.early)
    for attachment in core.attachments:
        join = Join(attachment.kind, block, as_block(attachment.core), attachment.on)
        block = Block((join,), ())
    return replace(block, predicates=(*block.predicates, *core.late))
