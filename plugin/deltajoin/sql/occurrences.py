"""Each relation once in a normal form: what occurs again gets a name of its own.

Where the right side of an anti or semi join is a sum, each summand is attached by itself, so one
relation may stand in several attachments of a branch. Its change comes at each of these places, one
after the other, as that of different relations does. Only the attachment and its condition see the
new name: nothing above a semi or anti join reads its right side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from deltajoin.graph import Attachment, Core, Predicate
from deltajoin.names import UniqueNames
from deltajoin.sql import nodes
from deltajoin.sql.dialect import parsed, with_columns
from deltajoin.sql.predicates import predicate_of


def told_apart(
    cores: Iterable[Core], names: tuple[str, ...]
) -> tuple[tuple[Core, ...], dict[str, str]]:
    """The cores, and new name -> relation; a name serves again in another branch.

    Args:
        names: all that are taken.
    """
    taken = UniqueNames(names)
    further: dict[str, list[str]] = {}

    def branch(core: Core) -> Core:
        seen: Counter[str] = Counter()

        def name(relation: str) -> str:
            number = seen[relation]
            seen[relation] += 1
            if number == 0:
                return relation
            more = further.setdefault(relation, [])
            if len(more) < number:
                more.append(taken.take(relation))
            return more[number - 1]

        return _renamed(core, {}, name)[0]

    renamed = tuple(branch(core) for core in cores)
    return renamed, {new: old for old, more in further.items() for new in more}


def _renamed(
    core: Core, above: Mapping[str, str], name: Callable[[str], str]
) -> tuple[Core, dict[str, str]]:
    """The core under other names, and what its relations are called now."""
    names = {relation: name(relation) for relation in core.relations}
    attachments = []
    for attachment in core.attachments:
        inner, below = _renamed(attachment.core, {**above, **names}, name)
        on = _under(attachment.on, {**above, **names, **below})
        attachments.append(Attachment(attachment.kind, inner, on))
        if attachment.kind == "left":
            names |= below
    renamed = replace(
        core,
        relations=tuple(names[relation] for relation in core.relations),
        predicates=_under(core.predicates, {**above, **names}),
        attachments=tuple(attachments),
    )
    return renamed, names


def _under(predicates: tuple[Predicate, ...], names: Mapping[str, str]) -> tuple[Predicate, ...]:
    """The predicates over relations that have these names now."""

    def renamed(column: exp.Column) -> exp.Expr | None:
        name = names.get(column.table, column.table)
        return nodes.column(column.name, name) if name != column.table else None

    return tuple(
        predicate_of(with_columns(parsed(predicate.sql), renamed))
        if any(names.get(name, name) != name for name in predicate.relations)
        else predicate
        for predicate in predicates
    )
