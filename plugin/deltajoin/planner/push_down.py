"""Every predicate moves into the lowest block that it may be judged in.

    block over (L left|semi|anti R): touches L only        -> block L
    ON of (L left|semi|anti R):      touches R only        -> block R
    ON of (L semi R):                touches L only        -> block L

What touches the null-supplied side stays above the join, what touches both sides of a full join
stays where it is, and a predicate without columns stays in its block. The result has the same rows
and the same predicates, each once.
"""

from __future__ import annotations

from deltajoin.graph import Block, Join, Predicate


def push_down(block: Block) -> Block:
    """The block with all predicates at their lowest place."""
    own = dict.fromkeys(block.predicates)
    items: list[str | Join] = []
    for item in block.items:
        if isinstance(item, str):
            items.append(item)
            continue
        below = _within(own, item.left) if item.kind in ("left", "semi", "anti") else ()
        for predicate in below:
            del own[predicate]
        items.append(_join(item, below))
    return Block(tuple(items), tuple(own))


def _join(join: Join, to_left: tuple[Predicate, ...]) -> Join:
    on = dict.fromkeys(join.on)
    to_right: tuple[Predicate, ...] = ()
    if join.kind in ("left", "semi", "anti"):
        to_right = _within(on, join.right)
    if join.kind == "semi":
        to_left = (*to_left, *_within(on, join.left))
    for predicate in (*to_right, *to_left):
        on.pop(predicate, None)
    return Join(
        join.kind,
        push_down(_with(join.left, to_left)),
        push_down(_with(join.right, to_right)),
        tuple(on),
    )


def _within(predicates: dict[Predicate, None], block: Block) -> tuple[Predicate, ...]:
    names = frozenset(block.relations)
    return tuple(p for p in predicates if p.relations and p.relations <= names)


def _with(block: Block, predicates: tuple[Predicate, ...]) -> Block:
    return Block(block.items, (*block.predicates, *predicates)) if predicates else block
